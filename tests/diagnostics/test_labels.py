"""Wrong labels are found where texts are clear, and hard texts are not taken for wrong labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bothways.diagnostics.doubts import LEAST, clearness, lapses, out_of_fold
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.labels import labels
from bothways.errors import NotAsked
from bothways.evaluation.result import Metric
from bothways.tasks.classify import ClassifyExample
from bothways.tasks.regress import RegressExample
from tests.diagnostics.planted import LABELS, Planted, evidence_of, sentences

# Every twentieth label is wrong.
EACH = 20


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    draw = np.random.default_rng(4)
    other = dict(zip(LABELS, (*LABELS[1:], LABELS[0]), strict=True))
    test = [
        replace(
            e,
            label=other[e.label or ""] if number % EACH == 0 else e.label,
            place=f"file, line {number}",
        )
        for number, e in enumerate(sentences(draw, 400, sure=1.0))
    ]
    return evidence_of(Planted(sentences(draw, 200, sure=1.0), test))


@pytest.mark.parametrize(("share", "hardness"), [(0.04, 0.3), (0.0, 1.0), (0.04, 3.0)])
def test_the_share_of_wrong_labels_is_found_however_hard_the_texts(
    share: float, hardness: float
) -> None:
    """The interval holds in at least 12 of 15 draws, where 14 are expected."""
    held = 0
    for seed in range(15):
        draw = np.random.default_rng(seed)
        clear = draw.gamma(2.0, 4.0, 1500)
        wrong = draw.random(1500) < 1 / (1 + np.exp(clear / hardness))
        wrong[draw.choice(1500, int(share * 1500), replace=False)] = True
        found = lapses(clear, wrong).share
        assert found.low is not None
        assert found.high is not None
        held += found.low <= share <= found.high
    assert held >= 12


def test_witnesses_that_are_too_sure_are_no_wrong_labels() -> None:
    """Contradicted as often as three times the clearness less a shift would be."""
    draw = np.random.default_rng(0)
    clear = draw.gamma(2.0, 4.0, 3000)
    wrong = draw.random(3000) < 1 / (1 + np.exp(clear / 3 - 1.5))
    found = lapses(clear, wrong)
    assert found.share.low == 0
    assert found.steepness == pytest.approx(1 / 3, rel=0.2)
    assert found.shift == pytest.approx(1.5, rel=0.3)
    assert found.expected(np.array([4.5]))[0] == pytest.approx(0.5, abs=0.05)


def test_clearness_is_the_log_odds_of_the_preferred_label() -> None:
    first, clear = clearness(np.log([[0.2, 0.7, 0.1], [0.5, 0.25, 0.25]]))
    assert first.tolist() == [1, 0]
    np.testing.assert_allclose(clear, [np.log(0.7 / 0.3), 0.0], atol=1e-12)


def test_no_label_is_told_by_its_own_example() -> None:
    """Labels that mean nothing are contradicted as often as by chance; a single one always."""
    draw = np.random.default_rng(0)
    vectors, truth = draw.normal(size=(200, 30)), draw.integers(0, 2, 200)
    truth[7] = 2
    found = out_of_fold(vectors, truth, np.arange(200) % 10)
    assert 0.35 < (found.argmax(1) == truth).mean() < 0.65
    assert found[7, 2] == LEAST
    assert found.shape == (200, 3)


def test_the_wrong_labels_are_listed_first_with_their_texts(evidence: Evidence) -> None:
    found = labels(evidence)
    planted = {f"file, line {number}" for number in range(0, 400, EACH)}
    surest = {doubt.place for doubt in found.doubts[: len(planted)]}
    assert len(surest & planted) >= 0.75 * len(planted)
    share = found.lapses.share
    assert (share.low or 0) < 1 / EACH < (share.high or 1)
    doubt = found.doubts[0]
    assert doubt.likelier != doubt.label
    assert [each.clearness for each in found.doubts] == sorted(
        (each.clearness for each in found.doubts), reverse=True
    )
    (finding,) = found.findings()
    assert finding.severity == "alarm"
    assert doubt.text in finding.text
    assert finding.numbers["contradicted"] == len(found.doubts)
    first, far = found.tables()
    assert first.rows[0][:4] == (doubt.place, doubt.text, doubt.label, doubt.likelier)
    assert far.name == "labels_outliers"
    (figure,) = found.figures()
    assert [len(series.y) for series in figure.series] == [10, 10]
    assert figure.series[0].y[-1] > figure.series[1].y[-1]


def test_what_is_like_no_other_text_is_an_outlier(evidence: Evidence) -> None:
    odd = ClassifyExample("! ! ! ! ? ?", label="sad", place="odd")
    found = labels(replace(evidence, examples=[*evidence.examples[:100], odd]))
    assert found.outliers[0].place == "odd"
    assert found.outliers[0].distance > 2


def test_rare_labels_are_left_out_and_said(evidence: Evidence) -> None:
    rare = [replace(e, label="sad") for e in evidence.examples[:4]]
    usual = [e for e in evidence.examples[4:] if e.label != "sad"]
    found = labels(replace(evidence, examples=[*rare, *usual]))
    assert (found.left_out, found.judged) == (4, len(usual))
    assert "4 examples of rare labels" in found.findings()[0].text
    with pytest.raises(NotAsked, match="two labels have 5"):
        labels(replace(evidence, examples=rare))


def test_a_handful_is_a_note_and_numbers_have_no_labels(evidence: Evidence) -> None:
    some = [e for e in evidence.examples if e.label == "sad"][:6]
    some += [e for e in evidence.examples if e.label == "glad"][:6]
    (finding,) = labels(replace(evidence, examples=some)).findings()
    assert finding.severity == "note"
    assert "too few" in finding.text
    numbers = [RegressExample("ba", label=1.0) for _ in range(30)]
    with pytest.raises(NotAsked, match="one label"):
        labels(replace(evidence, examples=numbers))


@pytest.mark.parametrize(("hard", "severity"), [(0, "alarm"), (300, "note")])
def test_there_is_no_alarm_where_hard_texts_contradict_many(
    evidence: Evidence, hard: int, severity: str
) -> None:
    found = labels(evidence)
    more = replace(found, doubts=(*found.doubts, *found.doubts[:1] * hard))
    assert more.findings()[0].severity == severity


def test_labels_that_seem_wrong_count_among_those_that_many_are(evidence: Evidence) -> None:
    """Small samples of hard texts look as if many labels were wrong (film reviews, 100 texts)."""
    found = labels(evidence)
    doubts = found.doubts[:1] * (found.judged * 3 // 10)
    many = replace(found, doubts=doubts, lapses=replace(found.lapses, share=Metric(0.2, 0.17, 0.3)))
    (finding,) = many.findings()
    assert finding.severity == "note"
    assert "hard for this model" in finding.text
