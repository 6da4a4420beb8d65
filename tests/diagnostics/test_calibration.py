"""Probabilities: how far they are from what happens, what a temperature does, what is stored."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax

from bothways.data.collate import Source
from bothways.diagnostics.binning import Binned, risks
from bothways.diagnostics.calibrating import calibrate
from bothways.diagnostics.calibration import calibration
from bothways.diagnostics.decisions import Decisions, decisions_of
from bothways.diagnostics.diagnose import ask
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.settings import DiagnoseSettings
from bothways.errors import CheckpointError, NotAsked, TaskError, UsageError
from bothways.evaluation.intervals import Units
from bothways.inference.model import load
from bothways.inference.results import Results
from bothways.model.layout import Batch, Layout
from bothways.tasks.answer import AnswerTask
from bothways.tasks.answer_reading import Answer, AnswerExample
from bothways.tasks.choice import ChoiceTask
from bothways.tasks.choice_reading import ChoiceExample
from bothways.tasks.label_sets import MultiLabelExample
from bothways.tasks.multi_label import MultiLabelTask
from bothways.tasks.registry import task_from_state
from bothways.tasks.regress import RegressExample, RegressTask
from bothways.tasks.relate import RelateTask
from bothways.tasks.results import (
    AnswerResult,
    ChoiceResult,
    LabelSetResult,
    Result,
    ScoreResult,
    TagResult,
    as_dict,
)
from bothways.tasks.tag import TagTask
from bothways.tasks.tag_examples import TagExample
from bothways.tasks.task import Task
from bothways.tokenization.encoding import Encoding
from tests.cli.command import Command, undisturbed
from tests.diagnostics.planted import Planted, evidence_of, sentences, stand_in
from tests.diagnostics.planted_calibration import miscalibrated

# Of a temperature that is fitted on 4,000 drawn outcomes.
FITTED = 0.15


@pytest.fixture(scope="module")
def planted() -> Planted:
    return miscalibrated(np.random.default_rng(0), True)


@pytest.fixture
def bothways(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    with undisturbed():
        yield Command(capsys)


def drawn(count: int, *, sharper: float = 1.0, seed: int = 0) -> Decisions:
    """Decisions whose outcomes are drawn with the probabilities of logits, told sharper."""
    draw = np.random.default_rng(seed)
    logits = 1.5 * draw.normal(size=(count, 3))
    truth = np.array([draw.choice(3, p=row) for row in softmax(logits, 1)])
    shares = softmax(sharper * logits, 1)
    return Decisions(np.arange(count), ("x",) * count, np.log(shares), shares.argmax(1), truth)


def test_the_error_is_the_mean_gap_of_bins_weighted_by_size() -> None:
    """Two bins of 40: 0.6 said and 0.75 right, 0.9 said and 0.85 right."""
    probability = np.repeat([0.6, 0.9], 40)
    right = np.concatenate([np.arange(40) < 30, np.arange(40) < 34])
    shares = np.log(np.stack([1 - probability, probability], 1))
    decisions = Decisions(
        np.arange(80), ("x",) * 80, shares, np.ones(80, dtype=int), right.astype(int)
    )
    binned = Binned.of(decisions, probability, Units.of(80))
    assert binned.sizes.tolist() == [40, 40]
    assert binned.error(resamples=50, seed=0).value == pytest.approx((0.15 + 0.05) / 2)
    assert [each.value for each in binned.shares(resamples=10, seed=0)] == pytest.approx(
        [0.75, 0.85]
    )
    kept = risks(binned, resamples=10, seed=0)
    assert {share: metric.value for share, metric in kept.items()} == pytest.approx(
        {0.5: 6 / 40, 1.0: 16 / 80}
    )


def test_perfect_calibration_seldom_exceeds_chance_and_its_interval_covers() -> None:
    beyond = 0
    for seed in range(40):
        decisions = drawn(300, seed=seed)
        binned = Binned.of(decisions, decisions.confidence(), Units.of(300))
        error = binned.error(resamples=10, seed=0).value
        beyond += error > binned.chance(0.95, np.random.default_rng(seed))
    assert beyond <= 6  # 2 expected


@pytest.mark.parametrize("sharper", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_what_made_logits_sharper(sharper: float) -> None:
    decisions = drawn(4000, sharper=sharper)
    assert decisions.temperature() == pytest.approx(sharper, rel=FITTED)
    chosen = decisions.log_shares.argmax(1)
    assert (chosen == decisions.chosen).all()
    assert (decisions.losses(decisions.temperature()) <= decisions.losses()).mean() > 0
    assert decisions.losses(decisions.temperature()).mean() <= decisions.losses().mean()


def test_confidence_at_a_temperature_is_the_softmax_of_divided_logits() -> None:
    logits = np.array([[1.0, 0.0, -1.0]])
    logs = np.log(softmax(logits, 1))
    decisions = Decisions(np.zeros(1, int), ("x",), logs, np.zeros(1, int), np.ones(1, int))
    assert decisions.confidence(2.0) == pytest.approx(softmax(logits / 2, 1)[:, 0])
    assert decisions.losses(2.0) == pytest.approx(-np.log(softmax(logits / 2, 1)[:, 1]))


def test_what_is_too_sure_is_an_alarm_and_the_temperature_helps(planted: Planted) -> None:
    found = calibration(evidence_of(planted))
    finding = found.findings()[0]
    assert finding.severity == "alarm"
    assert "too sure" in finding.text
    assert found.temperature
    assert found.temperature.helps
    assert found.temperature.value > 1.5
    assert found.temperature.error.value < found.error.value / 2
    assert found.confidence > found.right
    assert list(found.risks)[-1] == 1.0
    assert found.risks[1.0].value == pytest.approx(1 - found.right)


def test_a_threshold_keeps_enough_right_and_is_as_low_as_can_be(planted: Planted) -> None:
    draw = np.random.default_rng(1)
    evidence = evidence_of(Planted(sentences(draw, 300, sure=1.0), sentences(draw, 300, sure=1.0)))
    found = calibration(evidence, wanted=(0.5, 0.9999))
    easy, never, *labels = found.thresholds
    assert easy.kept == 1.0
    assert easy.at_least is not None
    assert easy.right is not None
    assert 0.5 <= easy.at_least < easy.right
    assert never.probability is None
    assert [each.said for each in labels] == ["calm", "glad", "sad"]


def test_few_examples_give_no_alarm_and_no_temperature(planted: Planted) -> None:
    found = calibration(evidence_of(replace(planted, test=planted.test[:15])))
    assert found.temperature is None
    assert found.findings()[0].severity != "alarm"


def test_every_task_with_probabilities_is_asked(planted: Planted) -> None:
    tag = TagExample.of_words(("Ann", "ran", "off"), ("B-PER", "O", "O"))
    tags = TagResult(tag.words, ("B-PER", "B-PER", "O"), (), (0.9, 0.8, 0.0), (2,))
    sets = MultiLabelTask().fit([MultiLabelExample("x", labels=("a", "b"))])
    question = AnswerExample("who?", "Ann ran", (Answer("Ann", 0),))
    cases: list[tuple[Any, Any, Any, list[float], list[bool]]] = [
        (TagTask(scheme="bio").fit([tag]), tag, tags, [0.9, 0.8], [True, False]),
        (
            sets,
            MultiLabelExample("x", labels=("a",)),
            LabelSetResult((), {"a": 0.3, "b": 0.2}),
            [0.3, 0.2],
            [True, False],
        ),
        (
            ChoiceTask(),
            ChoiceExample("?", ("x", "y"), label=1),
            ChoiceResult(1, "y", 0.6, (0.4, 0.6)),
            [0.6],
            [True],
        ),
        (AnswerTask(), question, AnswerResult("ran", 4, 7, 0.7, 0.1), [0.7], [False]),
    ]
    for task, example, result, confidence, right in cases:
        found = decisions_of(stated(planted, task, example, result))
        assert found.confidence() == pytest.approx(confidence)
        assert found.right.tolist() == right
    with pytest.raises(NotAsked, match="regress gives no probabilities"):
        decisions_of(stated(planted, RegressTask(), RegressExample("x", label=1.0), ScoreResult(1)))


def stated(planted: Planted, task: Task[Any], example: Any, result: Result) -> Evidence:
    evidence = replace(evidence_of(planted), task=task, examples=[example])
    vars(evidence)["_seen"] = Results([result]), None
    return evidence


def test_a_stored_temperature_changes_probabilities_and_no_label(
    planted: Planted, tmp_path: Path
) -> None:
    stand_in(planted).save(tmp_path / "model")
    model = load(tmp_path / "model")
    evidence = evidence_of(planted)
    report = ask(replace(evidence, model=model), DiagnoseSettings(only=("calibration",)))
    before = model.predict(list(planted.test))
    value = calibrate(model, report)
    again = load(tmp_path / "model")
    after = again.predict(list(planted.test))
    assert value > 1.5
    for one, two in zip(before, after, strict=True):
        assert as_dict(one)["label"] == as_dict(two)["label"]
        assert "calibrated" not in as_dict(one)
        assert as_dict(two)["calibrated"] is True
        logs = np.log(list(as_dict(one)["probabilities"].values())) / value
        told = list(as_dict(two)["probabilities"].values())
        assert told == pytest.approx(softmax(logs), abs=1e-9)
    assert model.predict(list(planted.test)) == after
    # Asked again it finds little, and what it finds comes on top.
    assert again.task
    twice = ask(replace(evidence, model=again, task=again.task), DiagnoseSettings(("calibration",)))
    assert twice.findings[0].numbers["temperature"] == pytest.approx(1.0, rel=0.05)
    assert calibrate(again, twice) == pytest.approx(value, rel=0.05)


def test_the_command_stores_it(bothways: Command, planted: Planted, tmp_path: Path) -> None:
    stand_in(planted).save(tmp_path / "model")
    with (tmp_path / "dev.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *([e.text, e.label] for e in planted.test)])
    given = ("--model", tmp_path / "model", "--data", tmp_path / "dev.csv")
    asked = ("--only", "calibration", "--output", tmp_path / "out", "--calibrate")
    done = bothways("diagnose", *given, *asked, "--json")
    stored = json.loads((tmp_path / "model" / "bothways.json").read_text(encoding="utf-8"))
    assert stored["task"]["temperature"] == done.json["temperature"]
    predicted = bothways("predict", "--model", tmp_path / "model", "--input", tmp_path / "dev.csv")
    assert json.loads(predicted.out.splitlines()[0])["calibrated"] is True
    bothways.fails("diagnose", *given, *asked[:1], "errors", *asked[2:], code=2, parts=["--only"])


def logits_of(rows: list[list[float]], examples: list[Any], windows: int = 1) -> tuple[Any, Batch]:
    """Logits of sequences of two pieces, some of them windows of one example."""
    pieces = Encoding([1, 2], [0, 0], [(0, 0)] * 2, [None] * 2, [True] * 2)
    sources = tuple(
        Source(number // windows, number % windows, pieces, examples[number // windows])
        for number in range(len(rows))
    )
    ids = torch.zeros(2 * len(rows), dtype=torch.long)
    return torch.tensor(rows), Batch(ids, Layout.packed([2] * len(rows)), sources=sources)


def test_sets_of_labels_stay_when_their_probabilities_change() -> None:
    examples = [MultiLabelExample("x", labels=("a",)), MultiLabelExample("y", labels=("b",))]
    task = replace(MultiLabelTask().fit(examples), thresholds=(0.3, 0.6))
    rows = [[-0.5, 0.2], [3.0, 1.0]]
    plain = task.decode(*logits_of(rows, examples))
    hot = replace(task, temperature=2.0).decode(*logits_of(rows, examples))
    told = [as_dict(each) for each in hot]
    assert [each["labels"] for each in told] == [as_dict(each)["labels"] for each in plain]
    assert [each["labels"] for each in told] == [("a",), ("a", "b")]
    for each, row in zip(told, rows, strict=True):
        assert each["calibrated"] is True
        assert list(each["probabilities"].values()) == pytest.approx(expit(np.array(row) / 2))


def test_choices_stay_when_their_probabilities_change() -> None:
    examples = [ChoiceExample("?", ("x", "y"), label=1)]
    given = logits_of([[1.0], [-1.0]], examples, windows=2)
    plain, hot = (task.decode(*given)[0] for task in (ChoiceTask(), ChoiceTask(temperature=2.0)))
    assert as_dict(hot)["choice"] == as_dict(plain)["choice"] == "x"
    assert as_dict(hot)["probabilities"] == pytest.approx(softmax([0.5, -0.5]))
    assert as_dict(hot)["calibrated"] is True


def test_a_temperature_is_kept_with_every_task_that_has_one_and_training_starts_without() -> None:
    for task in (RelateTask(temperature=2.0), MultiLabelTask(temperature=2.0), ChoiceTask()):
        again = task_from_state(task.state())
        assert again.temperature == task.temperature  # type: ignore[attr-defined]
    fitted = MultiLabelTask(temperature=2.0).fit([MultiLabelExample("x", labels=("a",))])
    assert fitted.temperature is None
    with pytest.raises(CheckpointError, match="temperature is 0"):
        task_from_state({"name": "classify", "temperature": 0})


def test_what_cannot_be_stored_or_wanted_is_refused(planted: Planted) -> None:
    model = stand_in(planted)
    report = ask(evidence_of(planted), DiagnoseSettings(only=("errors",)))
    with pytest.raises(TaskError, match="was not asked"):
        calibrate(model, report)
    asked = ask(evidence_of(planted), DiagnoseSettings(only=("calibration",)))
    with pytest.raises(UsageError, match="save the model first"):
        calibrate(model, asked)
    with pytest.raises(UsageError, match="--wanted-precision is 95"):
        DiagnoseSettings(wanted_precision=(95,)).check()
