"""The planted fault of `calibration`: logits that are too large."""

from __future__ import annotations

from dataclasses import replace

from bothways.model.heads import ClassificationHead
from bothways.tasks.classify import label_results
from tests.diagnostics.planted import Draw, Planted, sentences, stand_in


def miscalibrated(draw: Draw, faulty: bool) -> Planted:
    """Logits three times too large; labels are drawn with the probabilities of the right ones."""
    right = Planted(sentences(draw, 200, sure=0.7), sentences(draw, 300))
    told = label_results(stand_in(right).predict(list(right.test)))
    shares = [result.probabilities for result in told]
    labels = [str(draw.choice(list(each), p=list(each.values()))) for each in shares]
    test = [replace(e, label=label) for e, label in zip(right.test, labels, strict=True)]
    return replace(right, test=test, change=_sharpened if faulty else None)


def _sharpened(head: ClassificationHead) -> None:
    head.output.weight.mul_(3)
    head.output.bias.mul_(3)
