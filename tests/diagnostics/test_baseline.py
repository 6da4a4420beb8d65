"""The model beside its baselines, some of which learn and one of which is the model itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bothways.diagnostics.baseline import baseline, random_like
from bothways.diagnostics.evidence import Evidence
from bothways.errors import NotAsked
from bothways.tasks.classify import ClassifyExample
from tests.diagnostics.planted import Draw, Planted, evidence_of, sentences


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    draw = np.random.default_rng(0)
    return evidence_of(Planted(sentences(draw, 150), sentences(draw, 80)))


def test_the_model_stands_beside_its_baselines(evidence: Evidence) -> None:
    # All texts have eight words of about as many letters.
    found = baseline(evidence)
    assert {"bag_of_words", "majority", "random_encoder"} <= set(found.rivals)
    assert found.findings()[0].severity != "not asked"
    for name, gain in found.gains.items():
        assert gain.value == pytest.approx(found.value.value - found.rivals[name].value)
    for name in ("bag_of_words", "majority"):
        assert (found.gains[name].low or 1.0) < found.gains[name].value
    (table,), (figure,) = found.tables(), found.figures()
    assert table.name == figure.name == "baseline"
    assert {row[0] for row in table.rows} >= {"this model", "bag of words", "random encoder"}
    assert figure.series[0].y[0] == found.value.value


def test_without_training_texts_the_majority_is_left(evidence: Evidence) -> None:
    found = baseline(replace(evidence, train_examples=None))
    assert set(found.rivals) == {"majority"}
    assert [finding.severity for finding in found.findings()] == ["fine", "fine", "not asked"]
    bare = replace(evidence.task, label_counts={})  # type: ignore[type-var]
    with pytest.raises(NotAsked, match="--train"):
        baseline(replace(evidence, task=bare, train_examples=None))


def test_a_model_that_lengths_beat_is_told_so() -> None:
    def long_or_short(draw: Draw, count: int) -> list[ClassifyExample]:
        return [
            ClassifyExample(f"{e.text} {'ba ' * 8 * (n % 2)}", label=("calm", "sad")[n % 2])
            for n, e in enumerate(sentences(draw, count))
        ]

    def forget(head: torch.nn.Module) -> None:
        for parameter in head.parameters():
            parameter.zero_()

    draw = np.random.default_rng(0)
    planted = Planted(long_or_short(draw, 100), long_or_short(draw, 60), change=forget)
    found = baseline(evidence_of(planted))
    assert found.rivals["length"].value == pytest.approx(1.0)
    finding = found.findings()[0]
    assert finding.severity == "alarm"
    assert finding.numbers["length"] == pytest.approx(1.0)


def test_that_order_counts_is_told_where_it_does(evidence: Evidence) -> None:
    found = baseline(evidence)
    assert found.shuffled is not None
    assert found.shuffled.texts == 80
    assert found.shuffled.loss.value == pytest.approx(found.value.value - found.shuffled.value)
    assert "is not shown" in found.findings()[1].text

    class InOrder(Evidence):
        """A model that is right where the words stand as they were."""

        def predict(self, examples, policy=None):  # type: ignore[no-untyped-def]
            del policy
            known = {e.text: result for e, result in zip(self.examples, self.results, strict=True)}
            return [known.get(e.text, self.results[0]) for e in examples]

    given = {name: getattr(evidence, name) for name in evidence.__dataclass_fields__}
    reading = baseline(InOrder(**given))
    assert reading.shuffled is not None
    assert reading.shuffled.value < found.value.value - 0.2
    assert "it reads their order" in reading.findings()[1].text


def test_a_random_encoder_has_the_shape_and_no_weight_of_the_model(evidence: Evidence) -> None:
    state = torch.random.get_rng_state()
    one, again, other = (random_like(evidence.model, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    name = "embeddings.words.weight"
    ours, first, second, third = (
        model.encoder.state_dict()[name] for model in (evidence.model, one, again, other)
    )
    assert ours.shape == first.shape
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert not torch.equal(first, ours)
