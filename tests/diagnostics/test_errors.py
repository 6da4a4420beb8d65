"""What is wrong, most confident first, for labels and for spans."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pytest

from bothways.diagnostics.errors import errors
from bothways.diagnostics.evidence import Evidence
from bothways.inference.results import Results
from bothways.tasks.results import TagResult
from bothways.tasks.tag import TagTask
from bothways.tasks.tag_examples import TagExample, tag_result
from bothways.tokenization.policy import CutPolicy
from tests.diagnostics.planted import Planted, evidence_of, sentences, stand_in


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    draw = np.random.default_rng(0)
    return evidence_of(Planted(sentences(draw, 150), sentences(draw, 80)))


class Predicted(Evidence):
    """Evidence of predictions that somebody made."""

    @cached_property
    def results(self) -> Results:
        words = (("New", "York", "is", "big"), ("Ann", "sings"))
        tags = [{0: ("B-PER", 0.9), 1: ("I-PER", 0.8)}, {0: ("B-PER", 0.7), 1: ("B-LOC", 0.6)}]
        examples = [TagExample.of_words(each) for each in words]
        return Results(
            tag_result(example, each, self.task.form, default="O")  # type: ignore[attr-defined]
            for example, each in zip(examples, tags, strict=True)
        )


def test_mistakes_are_those_of_the_credit_with_their_texts(evidence: Evidence) -> None:
    found = errors(evidence)
    assert len(found.mistakes) == (evidence.credit == 0).sum() > 0
    sure = [mistake.probability for mistake in found.mistakes]
    assert sure == sorted(sure, reverse=True)
    wrong = {
        e.text for e, credit in zip(evidence.examples, evidence.credit, strict=True) if not credit
    }
    assert {mistake.text for mistake in found.mistakes} == wrong
    finding = found.findings()[0]
    assert finding.numbers["confident_mistakes"] == sum(each >= 0.9 for each in sure)
    tables = {table.name: table for table in found.tables()}
    assert tables["errors_texts"].rows[0][1] == found.mistakes[0].text
    assert {"errors_labels", "errors_confusion", "errors_mistakes"} <= set(tables)
    assert {figure.name for figure in found.figures()} == {"errors_labels", "errors_confusion"}


def test_wrong_spans_stand_beside_the_true_ones_they_overlap() -> None:
    examples = [
        TagExample.of_words(["New", "York", "is", "big"], ["O", "B-LOC", "O", "O"]),
        TagExample.of_words(["Ann", "sings"], ["B-PER", "O"]),
    ]
    task = TagTask().fit(examples)
    draw = np.random.default_rng(0)
    model = stand_in(Planted(sentences(draw, 50), []))
    found = errors(Predicted(model, task, examples, CutPolicy(64), resamples=20))
    told = [(each.expected, each.said, round(each.probability, 2)) for each in found.mistakes]
    assert told == [
        ("'York' (LOC)", "'New York' (PER)", 0.72),
        ("nothing", "'sings' (LOC)", 0.6),
    ]
    assert "errors_outcomes" in {table.name for table in found.tables()}
    assert isinstance(Predicted(model, task, examples, CutPolicy(64)).results[0], TagResult)
