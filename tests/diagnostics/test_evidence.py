"""Evidence: one pass gives predictions and states, samples are parts, nothing is made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bothways.data.collate import Source, collate
from bothways.data.rows import Row
from bothways.diagnostics.evidence import Evidence
from bothways.errors import DataError, NotAsked, TaskError
from bothways.inference.model import Model
from bothways.inference.results import Results
from bothways.tasks.classify import ClassifyExample, label_results
from bothways.tokenization.policy import CutPolicy
from tests.diagnostics.planted import Planted, evidence_of, sentences, tiny


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    draw = np.random.default_rng(0)
    return evidence_of(Planted(sentences(draw, 120, 12), sentences(draw, 60, 12)))


def windows(evidence: Evidence) -> Evidence:
    return replace(evidence, policy=CutPolicy(8, "windows", 2))


@pytest.mark.parametrize("cut", [False, True])
def test_predictions_are_the_models_own(evidence: Evidence, cut: bool) -> None:
    asked = windows(evidence) if cut else evidence
    assert max(map(len, asked.encodings)) == (3 if cut else 1)
    apart = Results.together(asked.model.predict_stream(asked.examples, policy=asked.policy))
    ours, theirs = (
        np.array([list(result.probabilities.values()) for result in label_results(results)])
        for results in (asked.results, apart)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert asked.results.ledger == apart.ledger == asked.ledger
    assert asked.results.tokens_cut == apart.tokens_cut


def test_states_are_of_every_layer_of_every_window(evidence: Evidence) -> None:
    asked = windows(evidence)
    states, encoder = asked.states, asked.model.encoder
    assert states.cls.shape == states.mean.shape == states.max.shape == (2, 180, 64)
    example, window = 7, 2
    batch = collate([Source(example, window, asked.encodings[example][window])])
    with torch.inference_mode():
        hidden = encoder(batch, all_hidden=True).all_hidden
    assert hidden is not None
    for layer, expected in enumerate(hidden):
        at = 3 * example + window
        np.testing.assert_allclose(states.cls[layer, at], expected[0], atol=1e-5)
        np.testing.assert_allclose(states.mean[layer, at], expected.mean(0), atol=1e-5)
        np.testing.assert_allclose(states.max[layer, at], expected.amax(0), atol=1e-5)
    of_example = states.mean[:, 3 * example : 3 * example + 3].mean(1)
    np.testing.assert_allclose(states.of_examples()[:, example], of_example, atol=1e-5)
    assert states.of_examples("cls").shape == (2, 60, 64)


def test_credit_is_what_the_score_is_the_mean_of(evidence: Evidence) -> None:
    everything, some = np.arange(60), np.array([3, 3, 8])
    accuracy = evidence.report.metrics["accuracy"].value
    assert 0.5 < evidence.credit.mean() < 1.0
    assert evidence.credit.mean() == pytest.approx(accuracy)
    assert evidence.scorer()(everything) == pytest.approx(accuracy)
    assert evidence.scorer()(some) == pytest.approx(evidence.credit[some].mean())


def test_a_sample_keeps_the_order_and_the_metadata(evidence: Evidence) -> None:
    rows = [Row({"text": e.text, "n": str(n)}, "f", n) for n, e in enumerate(evidence.examples)]
    examples = [replace(e, place=rows[n].place) for n, e in enumerate(evidence.examples)]

    def of(seed: int = 0) -> Evidence:
        return Evidence.of(evidence.model, examples, rows=rows, columns=["n"], most=20, seed=seed)

    part = of()
    kept = [int(cell or -1) for cell in part.columns["n"]]
    assert len(kept) == 20
    assert kept == sorted(set(kept))
    assert part.population == 60
    assert [e.text for e in part.examples] == [examples[n].text for n in kept]
    assert of().columns == part.columns
    assert of(seed=1).columns != part.columns
    assert Evidence.of(evidence.model, examples, most=None).part(60).examples == examples


def test_training_examples_are_evidence_too(evidence: Evidence) -> None:
    assert evidence.train.examples == evidence.train_examples
    assert evidence.train.states.owners.max() == 119
    with pytest.raises(NotAsked, match="--train"):
        _ = replace(evidence, train_examples=None).train


def test_tokens_and_what_was_cut_of_them(evidence: Evidence) -> None:
    cut = replace(evidence, policy=CutPolicy(7))
    assert cut.tokens.tolist() == evidence.tokens.tolist() == [12] * 60
    assert cut.tokens_cut.tolist() == [7] * 60
    assert windows(evidence).tokens_cut.tolist() == [0] * 60


def test_bad_input_is_refused(evidence: Evidence) -> None:
    with pytest.raises(DataError, match="no examples"):
        Evidence.of(evidence.model, [])
    with pytest.raises(TaskError, match="no head"):
        Evidence.of(Model(tiny()), [ClassifyExample("ba", label="sad")])
