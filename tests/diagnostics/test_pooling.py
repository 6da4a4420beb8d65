"""Vectors of every layer and pooling: what they say of labels and of pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bothways.checkpoints.parts import Parts
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.pooling import Place, Pooling, Tried, pooling
from bothways.diagnostics.probing import Geometry, folds_of, probe
from bothways.errors import NotAsked
from bothways.evaluation.result import Metric
from bothways.inference.model import Model
from bothways.metrics.similarity import cosine, spearman
from bothways.model.sentence import Pool, SentenceVector
from bothways.tasks.embed import EmbedTask
from bothways.tasks.embed_examples import EmbedExample
from bothways.tasks.task import Columns
from bothways.tokenization.policy import CutPolicy
from tests.diagnostics.planted import Planted, evidence_of, sentences, tiny


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    draw = np.random.default_rng(0)
    return evidence_of(Planted(sentences(draw, 120), sentences(draw, 90)))


@pytest.fixture(scope="module")
def found(evidence: Evidence) -> Pooling:
    return pooling(evidence)


def embedder(*modes: str) -> Model:
    parts: Parts = replace(tiny(), sentence=SentenceVector(Pool(modes)))  # type: ignore[arg-type]
    model = Model(parts)
    model.task = EmbedTask()
    return model


def pairs(count: int = 40) -> list[EmbedExample]:
    """Sentences beside the same ones with other words in places, as alike as words are left."""
    draw = np.random.default_rng(0)
    made = []
    for first, other in zip(sentences(draw, count), sentences(draw, count), strict=True):
        kept = int(draw.integers(0, 9))
        words = [*first.text.split()[:kept], *other.text.split()[kept:]]
        made.append(EmbedExample(first.text, " ".join(words), score=float(kept)))
    return made


def evidence_of_pairs(model: Model, *, scored: bool) -> Evidence:
    task = EmbedTask(columns=Columns(label="score" if scored else None))
    model.task = task
    return Evidence(model, task.fit(pairs()), pairs(), CutPolicy(64), resamples=50)


def test_every_layer_and_pooling_is_probed(evidence: Evidence, found: Pooling) -> None:
    assert set(found.tried) == {Place(name, 1) for name in ("cls", "mean", "max")}
    assert found.now == Place("mean", 1)
    assert found.model == pytest.approx(evidence.credit.mean())
    truth = np.array([e.label for e in evidence.examples])
    names = sorted(set(truth))
    said = probe(
        evidence.states.of_examples("max")[1],
        (truth[:, None] == names).astype(float),
        folds_of(evidence.units, evidence.generator("folds")),
    )
    accuracy = np.mean([names[best] for best in said.argmax(1)] == truth)
    assert found.tried[Place("max", 1)].score.value == pytest.approx(accuracy)
    gain = found.tried[Place("max", 1)].gain
    assert gain.value == pytest.approx(accuracy - found.tried[found.now].score.value)
    assert found.tried[found.now].gain.value == 0


def test_what_is_read_already_is_fine(found: Pooling) -> None:
    (finding,) = found.findings()
    assert finding.severity == "fine"
    assert "reads the mean of layer 1; no other" in finding.text
    (table,), (figure,) = found.tables(), found.figures()
    assert table.name == figure.name == "pooling"
    assert [series.label for series in figure.series] == [
        *("the first token", "the mean", "the largest values")
    ]


def made(gain: float, low: float, *, model: float) -> Pooling:
    """A first token that is read, with score 0.6, beside a mean that says more."""
    flat = Geometry(0.1, 0.2, 3.0)
    read = Tried(Metric(0.6, 0.5, 0.7), Metric(0.0), Metric(0.6, 0.5, 0.7), flat)
    other = Tried(Metric(0.6 + gain, 0.6, 0.9), Metric(gain, low, 2 * gain), Metric(0.6), flat)
    now = Place("cls", 6)
    tried = {now: read, Place("mean", 6, 4): other}
    return Pooling("accuracy", 64, now, model, tried)


@pytest.mark.parametrize(
    ("gain", "low", "model", "severity"),
    [
        (0.1, 0.05, 0.6, "alarm"),
        (0.1, -0.01, 0.6, "fine"),
        (0.01, 0.005, 0.6, "note"),
        (0.1, 0.05, 0.8, "note"),
    ],
)
def test_the_alarm_needs_a_shown_gain_that_the_model_has_not(
    gain: float, low: float, model: float, severity: str
) -> None:
    (finding,) = made(gain, low, model=model).findings()
    assert finding.severity == severity
    assert "the mean of layers 3 to 6" in finding.text
    assert finding.numbers["gain"] == gain


def test_scored_pairs_are_judged_by_rank_correlation() -> None:
    evidence = evidence_of_pairs(embedder("cls"), scored=True)
    found = pooling(evidence)
    assert found.now == Place("cls", 1)
    assert found.is_embedder
    states = evidence.states.max[1]
    near = cosine(states[0::2], states[1::2])
    wanted = spearman([e.score for e in evidence.examples], near)
    assert found.tried[Place("max", 1)].score.value == pytest.approx(wanted)
    assert found.tried[found.now].score.value == pytest.approx(found.model, abs=1e-6)
    assert "of neighbours" not in found.tables()[0].columns


def test_pairs_without_scores_are_judged_as_a_ranking() -> None:
    found = pooling(evidence_of_pairs(embedder("mean", "max"), scored=False))
    assert found.metric == "ndcg_at_10"
    assert found.now.pooling == "mean+max"
    assert found.now not in found.tried
    assert 0 < found.tried[Place("mean", 1)].score.value <= 1


def test_one_label_few_examples_and_other_tasks_are_not_asked(evidence: Evidence) -> None:
    one = [e for e in evidence.examples if e.label == "sad"]
    with pytest.raises(NotAsked, match="the label 'sad'"):
        pooling(replace(evidence, examples=one))
    with pytest.raises(NotAsked, match="19 examples are too few"):
        pooling(replace(evidence, examples=evidence.examples[:19]))
    task = replace(evidence.task, labels=evidence.task.labels)  # type: ignore[type-var]
    object.__setattr__(task, "name", "regress")
    with pytest.raises(NotAsked, match="not in regress"):
        pooling(replace(evidence, task=task))
