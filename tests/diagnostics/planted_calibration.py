"""The planted fault of `calibration`: logits that are too large."""

from __future__ import annotations

from bothways.model.heads import ClassificationHead
from tests.diagnostics.planted import Draw, Planted, sentences


def miscalibrated(draw: Draw, faulty: bool) -> Planted:
    """Logits three times too large; labels are drawn with the probabilities of the right ones."""
    train, test = sentences(draw, 200, sure=0.7), sentences(draw, 300)
    return Planted(train, test, drawn=True, change=_sharpened if faulty else None)


def _sharpened(head: ClassificationHead) -> None:
    head.output.weight.mul_(3)
    head.output.bias.mul_(3)
