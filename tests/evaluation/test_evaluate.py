"""Judging predictions: the report and what it says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bothways.data.options import FileOptions
from bothways.errors import DataError, TaskError
from bothways.evaluation.evaluate import evaluate, judge, summary
from bothways.evaluation.result import Report, Table
from bothways.inference.results import Results
from bothways.metrics.classification import accuracy, confusion_matrix, f1_macro
from bothways.tasks.classify import ClassifyExample, ClassifyTask, label_result
from bothways.tokenization.encoding import Ledger, Policy

LABELS = ("calm", "glad", "sad")
LEDGER = Ledger(texts=300, texts_cut=90, tokens=4000, tokens_cut=100, end="tail")
RESAMPLES = 200


def make_examples(count: int, seed: int, *, groups: bool = False) -> list[ClassifyExample]:
    """Texts in which one word tells the label, four times of five."""
    generator = np.random.default_rng(seed)
    truth = generator.choice(LABELS, count)
    words = np.where(generator.random(count) < 0.8, truth, generator.choice(LABELS, count))
    return [
        ClassifyExample(
            f"so {word} today number {n}",
            label=str(label),
            place=f"test.csv, line {n + 2}",
            group=str(n // 10) if groups else None,
        )
        for n, (label, word) in enumerate(zip(truth, words, strict=True))
    ]


TRAIN, TEST = make_examples(300, 0), make_examples(300, 1)
TASK = ClassifyTask().fit(TRAIN)


def predictions(examples: Sequence[ClassifyExample], right: float, seed: int = 2) -> Results:
    """Predictions of which a share is right on purpose, the rest by chance."""
    generator = np.random.default_rng(seed)
    results = Results(ledger=LEDGER)
    for example in examples:
        said = example.label if generator.random() < right else str(generator.choice(LABELS))
        row = np.array([0.8 if label == said else 0.1 for label in LABELS])
        results.append(label_result(LABELS, row))
    return results


class Oracle:
    """A predictor that is nearly always right."""

    def __init__(self, task: ClassifyTask | None) -> None:
        self.task = task

    def predict(
        self,
        examples: Iterable[Any],
        *,
        max_length: int | None = None,
        policy: Policy | None = None,
        overlap: int | None = None,
        batch_tokens: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> Results:
        results = predictions(list(examples), 0.95)
        results.ledger = dataclasses.replace(LEDGER, windows=max_length or 0)
        return results


def table(report: Report, name: str) -> Table:
    (found,) = [each for each in report.tables if each.name == name]
    return found


def severities(report: Report) -> dict[str, str]:
    return {f.question: f.severity for f in report.findings if f.severity != "not asked"}


@pytest.fixture(scope="module")
def report() -> Report:
    return judge(
        TASK, TEST, predictions(TEST, 0.95), train=TRAIN, data_name="moods", resamples=RESAMPLES
    )


def test_scores_are_the_task_s_own_with_intervals_about_them(report: Report) -> None:
    assert {name: metric.value for name, metric in report.metrics.items()} == TASK.metrics(
        predictions(TEST, 0.95), TEST
    )
    for metric in report.metrics.values():
        assert metric.low is not None
        assert metric.high is not None
        assert metric.low < metric.value < metric.high
        # About 0.95 of 300: three deviations are 0.04.
        assert metric.high - metric.low < 0.1


def test_baselines_get_the_same_metrics_and_the_model_is_compared_with_them(
    report: Report,
) -> None:
    assert set(report.baselines) == {"majority", "bag_of_words"}
    for scores in report.baselines.values():
        assert set(scores) == set(report.metrics)
    assert 0.7 < report.baselines["bag_of_words"]["accuracy"].value < 0.9
    assert severities(report)["baseline"] == "fine"
    (finding,) = [f for f in report.findings if f.question == "baseline"]
    assert finding.numbers["hardest"] == "bag_of_words"


def test_a_model_that_bag_of_words_beats_is_an_alarm_at_the_top() -> None:
    found = judge(TASK, TEST, predictions(TEST, 0.4), train=TRAIN, resamples=RESAMPLES)
    assert found.findings[0].severity == "alarm"
    assert severities(found)["baseline"] == "alarm"
    (finding,) = [f for f in found.findings if f.question == "baseline"]
    expected = found.metrics["accuracy"].value - found.baselines["bag_of_words"]["accuracy"].value
    assert finding.numbers["gain_over_bag_of_words"] == pytest.approx(expected)


def test_a_guessing_model_rarely_passes_for_better_than_the_majority() -> None:
    """False alarms the other way: chance must not look like skill more than 1 time in 20."""
    passed = []
    for seed in range(40):
        examples = make_examples(100, seed)
        found = judge(TASK, examples, predictions(examples, 0.0, seed), resamples=RESAMPLES)
        passed.append(severities(found)["baseline"] == "fine")
    assert sum(passed) <= 4


def test_without_training_texts_the_majority_comes_from_the_stored_counts() -> None:
    found = judge(TASK, TEST, predictions(TEST, 0.95), resamples=RESAMPLES)
    assert set(found.baselines) == {"majority"}
    not_asked = [f for f in found.findings if f.severity == "not asked"]
    assert ["--train" in f.text for f in not_asked] == [True]
    assert found.findings[-1] in not_asked


def test_without_counts_either_no_baseline_is_made_up() -> None:
    bare = dataclasses.replace(TASK, label_counts={})
    found = judge(bare, TEST, predictions(TEST, 0.95), resamples=RESAMPLES)
    assert found.baselines == {}
    assert [figure.name for figure in found.figures] == ["labels", "confusion"]


def test_what_was_cut_is_in_the_report_and_worst_findings_come_first(report: Report) -> None:
    assert report.ledger == LEDGER
    assert severities(report)["truncation"] == "alarm"
    assert report.findings[0].question == "truncation"


def test_the_confusion_table_counts_and_the_mistakes_are_sorted(report: Report) -> None:
    truth = [e.label or "" for e in TEST]
    said = [r.label for r in predictions(TEST, 0.95)]  # type: ignore[union-attr]
    counts = confusion_matrix(truth, said, LABELS)
    confusion = table(report, "confusion")
    assert confusion.columns == ("true label", *LABELS)
    assert [list(row[1:]) for row in confusion.rows] == counts.tolist()
    mistakes = table(report, "mistakes").rows
    times = [int(row[2] or 0) for row in mistakes]
    assert times == sorted(times, reverse=True)
    assert sum(times) == counts.sum() - np.trace(counts)


def test_each_label_has_its_scores_and_the_worst_is_first(report: Report) -> None:
    rows = table(report, "labels").rows
    assert {row[0] for row in rows} == set(LABELS)
    f1 = [float(row[4] or 0) for row in rows]
    assert f1 == sorted(f1)
    assert np.mean(f1) == pytest.approx(report.metrics["f1_macro"].value)
    for row in rows:
        assert float(row[5] or 0) < float(row[4] or 0) < float(row[6] or 0)
    (figure,) = [each for each in report.figures if each.name == "labels"]
    assert figure.series[0].x == tuple(row[0] for row in rows)


def test_a_perfect_label_has_an_interval_by_its_own_size() -> None:
    examples = make_examples(60, 3)
    rows = table(judge(TASK, examples, predictions(examples, 1.0), resamples=RESAMPLES), "labels")
    for label, support, *_, low, high in rows.rows:
        assert high == 1.0, label
        assert low == pytest.approx(0.025 ** (1 / int(support or 0)))


def test_a_perfect_score_is_not_certainty() -> None:
    examples = make_examples(30, 3)
    found = judge(TASK, examples, predictions(examples, 1.0), resamples=RESAMPLES)
    assert found.metrics["accuracy"].low == pytest.approx(0.025 ** (1 / 30))
    assert found.metrics["loss"].low is None


def test_groups_widen_the_interval_where_their_members_err_together() -> None:
    examples = make_examples(300, 4, groups=True)
    results = Results(ledger=LEDGER)
    for example in examples:
        wrong = int(example.group or 0) % 4 == 0
        said = next(label for label in LABELS if (label == example.label) != wrong)
        results.append(label_result(LABELS, np.array([float(label == said) for label in LABELS])))
    grouped = judge(TASK, examples, results, resamples=RESAMPLES).metrics["accuracy"]
    alone = [dataclasses.replace(example, group=None) for example in examples]
    single = judge(TASK, alone, results, resamples=RESAMPLES).metrics["accuracy"]
    assert grouped.value == single.value
    # Ten examples a group that err together: root ten times as wide, about.
    width = ((grouped.high or 0) - (grouped.low or 0)) / ((single.high or 0) - (single.low or 0))
    assert 2.3 < width < 4.2


def test_many_labels_have_no_matrix_but_their_mistakes() -> None:
    labels = [f"intent {number:02}" for number in range(40)]
    examples = [ClassifyExample("x", label=label) for label in labels * 3]
    task = ClassifyTask().fit(examples)
    results = Results(ledger=Ledger(texts=120))
    for number, example in enumerate(examples):
        said = labels[number % 40 - (number % 5 == 0)]
        results.append(label_result(task.labels, np.array([float(x == said) for x in task.labels])))
        assert (said == example.label) == (number % 5 != 0)
    found = judge(task, examples, results, resamples=20)
    assert [each.name for each in found.tables] == ["labels", "mistakes", "examples"]
    (figure,) = [each for each in found.figures if each.name == "labels"]
    assert len(figure.series[0].x) == 30
    assert "the worst 30 of 40" in figure.title


def test_empty_texts_are_judged_and_counted() -> None:
    examples = [*TEST[:5], ClassifyExample("", label="sad"), ClassifyExample("  ", label="glad")]
    found = judge(TASK, examples, predictions(examples, 1.0), resamples=20)
    assert found.count == 7
    assert ("empty texts", 2) in table(found, "examples").rows


def test_the_same_seed_gives_the_same_report(report: Report) -> None:
    again = judge(
        TASK, TEST, predictions(TEST, 0.95), train=TRAIN, data_name="moods", resamples=RESAMPLES
    )
    assert dataclasses.replace(again, seconds=report.seconds) == report


def test_evaluate_predicts_with_the_options_it_was_given() -> None:
    found = evaluate(Oracle(TASK), TEST, model_name="oracle", resamples=20, max_length=7)
    assert found.model == "oracle"
    assert found.ledger.windows == 7
    assert found.metrics["accuracy"].value > 0.9


def test_files_are_read_as_the_task_reads_them(tmp_path: Path) -> None:
    for name, examples in (("train", TRAIN), ("test", TEST)):
        lines = [f"{example.text},{example.label}" for example in examples]
        text = "\n".join(["text,label", *lines, "so café calm,calm"])
        (tmp_path / f"{name}.csv").write_text(text, encoding="latin-1")
    found = evaluate(
        Oracle(TASK),
        tmp_path / "test.csv",
        train=tmp_path / "train.csv",
        files=FileOptions(encoding="latin-1"),
        resamples=20,
    )
    assert found.count == 301
    assert found.data == str(tmp_path / "test.csv")
    assert set(found.baselines) == {"majority", "bag_of_words"}
    with pytest.raises(DataError, match=r"test\.csv: lines that are not utf-8"):
        evaluate(Oracle(TASK), str(tmp_path / "test.csv"))


def test_the_json_object_of_evaluate(report: Report) -> None:
    found = json.loads(json.dumps(summary(report)))
    assert list(found) == ["task", "model", "data", "count", "metrics", "ledger", "seconds"]
    assert (found["task"], found["data"], found["count"]) == ("classify", "moods", 300)
    assert set(found["metrics"]) == {"accuracy", "f1_macro", "f1_micro", "loss"}
    assert set(found["metrics"]["accuracy"]) == {"value", "low", "high"}
    assert found["ledger"]["texts_cut"] == 90


def test_scores_equal_those_of_scikit_learn(report: Report) -> None:
    truth = [e.label or "" for e in TEST]
    said = [r.label for r in predictions(TEST, 0.95)]  # type: ignore[union-attr]
    assert report.metrics["accuracy"].value == pytest.approx(accuracy(truth, said))
    assert report.metrics["f1_macro"].value == pytest.approx(f1_macro(truth, said))


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(DataError, match="no examples to judge"):
        judge(TASK, [], Results())
    with pytest.raises(TaskError, match="has no task"):
        evaluate(Oracle(None), TEST)
    stray = [*TEST[:3], ClassifyExample("x", label="angry", place="test.csv, line 9")]
    with pytest.raises(DataError, match=r"test\.csv, line 9: 'angry'"):
        judge(TASK, stray, predictions(TEST[:4], 1.0))


def test_one_example_is_judged_without_a_made_up_interval() -> None:
    found = judge(TASK, TEST[:1], predictions(TEST[:1], 0.0, seed=11), resamples=20)
    assert found.count == 1
    assert found.metrics["loss"].low is None
    assert severities(found)["baseline"] == "note"
