"""Two models on the same examples: what is shown, what is not, and what cannot be compared."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bothways.diagnostics.compare import compare
from bothways.diagnostics.compared import Compared, Difference
from bothways.diagnostics.pair import Pair
from bothways.diagnostics.slicing import Slice
from bothways.errors import TaskError
from bothways.evaluation.result import Metric
from bothways.evaluation.significance import mcnemar
from bothways.inference.model import Model
from bothways.inference.results import Results
from bothways.model.heads import ClassificationHead
from bothways.tasks.classify import ClassifyExample, label_result
from bothways.tasks.regress import RegressExample, RegressTask
from bothways.tasks.results import ScoreResult, TagResult
from bothways.tasks.tag import TagTask
from bothways.tasks.tag_examples import TagExample
from bothways.tasks.task import Task
from tests.cli.command import Command, undisturbed
from tests.diagnostics.planted import LABELS, Planted, evidence_of, sentences, stand_in


@pytest.fixture(scope="module")
def planted() -> Planted:
    draw = np.random.default_rng(0)
    return Planted(sentences(draw, 120), sentences(draw, 200, sure=1.0))


@pytest.fixture(scope="module")
def model(planted: Planted) -> Model:
    return stand_in(planted)


def prefers(label: str, by: float) -> Callable[[ClassificationHead], None]:
    """A head that says a label more often than it should."""

    def change(head: ClassificationHead) -> None:
        head.output.bias[LABELS.index(label)] += by

    return change


@pytest.fixture(scope="module")
def worse(planted: Planted) -> Model:
    """Finds every glad text, and loses others."""
    return stand_in(replace(planted, change=prefers("glad", 5.0)))


@pytest.fixture(scope="module")
def found(model: Model, worse: Model, planted: Planted) -> Compared:
    return compare(model, worse, planted.test, names=("old", "new"))


@pytest.fixture
def bothways(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    with undisturbed():
        yield Command(capsys)


def right(model: Model, planted: Planted) -> np.ndarray:
    results = model.predict(list(planted.test))
    return np.array([r.label == e.label for r, e in zip(results, planted.test, strict=True)])  # type: ignore[union-attr]


def test_the_counts_and_the_test_are_those_of_the_predictions(
    found: Compared, model: Model, worse: Model, planted: Planted
) -> None:
    old, new = right(model, planted), right(worse, planted)
    whole = found.whole
    assert (whole.first, whole.second) == pytest.approx((old.mean(), new.mean()))
    assert whole.gain.value == pytest.approx(new.mean() - old.mean())
    assert (whole.only_first, whole.only_second) == ((old & ~new).sum(), (new & ~old).sum())
    assert found.test == "mcnemar"
    assert whole.p == mcnemar((old & ~new).sum(), (new & ~old).sum())


def test_the_better_model_is_named_and_slices_that_say_otherwise_come_next(found: Compared) -> None:
    first, second, *_ = found.report().findings
    assert first.text.startswith("old is better than new: accuracy")
    assert first.numbers["better"] == 1
    assert second.numbers["slice"] == "label: glad"
    assert second.text.startswith("Where label: glad, new is better than old, against what holds")


def test_a_model_is_not_better_than_itself(model: Model, planted: Planted) -> None:
    found = compare(model, model, planted.test, names=("old", "new"))
    assert found.whole.gain == Metric(0.0)
    assert found.whole.p == 1.0
    assert not found.disagreements
    told = [finding.text for finding in found.findings()]
    assert told[0].startswith("No difference shown between old and new: accuracy")
    assert told[1].startswith("In none of")


def test_few_examples_show_nothing(model: Model, worse: Model, planted: Planted) -> None:
    found = compare(model, worse, planted.test[:5])
    assert "5 examples are too few to tell" in found.findings()[0].text


def test_interval_and_test_have_to_agree() -> None:
    shown = Difference("", 100, 0.7, 0.8, Metric(0.1, 0.02, 0.18), p=0.01)
    assert shown.better == 2
    assert replace(shown, gain=Metric(-0.1, -0.18, -0.02)).better == 1
    assert replace(shown, p=0.06).better == 0
    assert replace(shown, gain=Metric(0.1, -0.01, 0.2)).better == 0
    assert replace(shown, gain=Metric(0.0)).better == 0


def test_texts_on_which_they_disagree_are_listed_losses_first(found: Compared) -> None:
    gains = [each.gain for each in found.disagreements]
    assert gains == sorted(gains)
    assert {-1.0, 1.0} == set(gains)
    for each in found.disagreements:
        assert each.expected == each.said[0 if each.gain < 0 else 1]


def test_groups_are_swapped_whole_and_mcnemar_is_not_asked(
    model: Model, worse: Model, planted: Planted
) -> None:
    grouped = [replace(e, group=str(n % 40)) for n, e in enumerate(planted.test)]
    found = compare(model, worse, grouped)
    assert found.test == "permutation"
    assert found.whole.p < 0.05


@pytest.mark.parametrize("better", [False, True])
def test_scores_that_no_sum_makes_up_are_permuted(planted: Planted, better: bool) -> None:
    """Correlations: the second model's numbers are as noisy, or nearly right."""
    draw = np.random.default_rng(3)
    truth = draw.normal(size=80)
    examples = [RegressExample(f"text {n}", label=value) for n, value in enumerate(truth)]
    noise = [draw.normal(size=80) for _ in "ab"]
    said = [Results(map(ScoreResult, truth + each)) for each in noise]
    if better:
        said[1] = Results(map(ScoreResult, truth + 0.2 * noise[1]))
    pair = pair_of(RegressTask(), examples, said)
    whole = pair.whole()
    assert pair.test == "permutation"
    assert whole.better == (2 if better else 0)
    assert whole.only_first is None


def test_spans_are_compared_by_their_f1(planted: Planted) -> None:
    examples = [TagExample.of_words(("Ann", "ran"), ("B-PER", "O")) for _ in range(40)]
    task = TagTask(scheme="bio").fit(examples)
    right, wrong = (TagResult(("Ann", "ran"), tags, ()) for tags in (("B-PER", "O"), ("O", "O")))
    said = [Results([right, wrong] * 20), Results([right] * 40)]
    whole = pair_of(task, examples, said).whole()
    assert (whole.first, whole.second) == pytest.approx((2 / 3, 1.0))
    assert whole.better == 2


def pair_of(task: Task[Any], examples: list[Any], said: list[Results]) -> Pair:
    draw = np.random.default_rng(0)
    some = evidence_of(Planted(sentences(draw, 60), sentences(draw, 30)))
    return Pair(replace(some, task=task, examples=examples), said[0], said[1])


def test_intervals_of_slices_hold_together(planted: Planted) -> None:
    """Two equally good models, and ten slices: seldom is one of them called different."""
    draw = np.random.default_rng(5)
    shown = 0
    for _ in range(12):
        examples = [ClassifyExample("ba", label="sad") for _ in range(400)]
        said = [
            Results(label_result(LABELS, row) for row in np.eye(3)[draw.integers(0, 2, 400) + 1])
            for _ in "ab"
        ]
        pair = pair_of(evidence_of(planted).task, examples, said)
        slices = [Slice("part", str(n), np.arange(400) % 10 == n) for n in range(10)]
        shown += any(each.better for each in pair.of_slices(slices))
    assert shown <= 1


def test_other_tasks_and_labels_are_refused(model: Model, planted: Planted) -> None:
    two = [e for e in planted.train if e.label != "sad"]
    other = stand_in(replace(planted, train=two))
    with pytest.raises(TaskError, match="only old knows 1 label: sad"):
        compare(model, other, planted.test, names=("old", "new"))
    tagger = Model(model.parts)
    tagger.task = TagTask(labels=LABELS)
    with pytest.raises(TaskError, match="old is for the task classify, new for tag"):
        compare(model, tagger, planted.test, names=("old", "new"))


def test_the_command_says_it_and_writes_it(
    bothways: Command, tmp_path: Path, model: Model, worse: Model, planted: Planted
) -> None:
    model.save(tmp_path / "old")
    worse.save(tmp_path / "new")
    with (tmp_path / "test.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "source"])
        writer.writerows([e.text, e.label, "ab"[n % 2]] for n, e in enumerate(planted.test))
    given = (tmp_path / "old", tmp_path / "new", "--data", tmp_path / "test.csv")
    done = bothways("compare", *given, "--slices", "source", "--output", tmp_path / "out", "--json")
    assert done.json["findings"][0]["numbers"]["better"] == 1
    assert {"source: a", "source: b"} <= {each["where"] for each in done.json["slices"]}
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["findings"] == done.json["findings"]
    assert report["metrics"]["accuracy"]["value"] == done.json["whole"]["second"]
    assert "is better than" in bothways("compare", *given).out
    bothways.fails("compare", *given[:1], *given[2:], code=2, parts=["two models"])
    bothways.fails("compare", *given, "--slices", "sauce", code=2, parts=["'source'"])
