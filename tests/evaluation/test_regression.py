"""What an evaluation of numbers shows."""

from __future__ import annotations

import pytest

from bothways.evaluation.evaluate import judge
from bothways.inference.results import Results
from bothways.tasks.regress import RegressExample, RegressTask
from bothways.tasks.results import ScoreResult


def examples(count: int) -> list[RegressExample]:
    words = ["bad", "fair", "good"]
    return [
        RegressExample(words[n % 3], label=float(n % 3), place=f"f, line {n}") for n in range(count)
    ]


def test_the_report_of_numbers() -> None:
    train = examples(9)
    task = RegressTask().fit(train)
    results = Results([ScoreResult(n % 3 + 1.0 + (n == 4) * 5) for n in range(30)])
    report = judge(task, examples(30), results, train=train, resamples=50)
    assert report.baselines["mean"]["mae"].value == pytest.approx(20 / 30)
    assert report.baselines["mean"]["spearman"].value == 0.0
    assert report.baselines["bag_of_words"]["spearman"].value == pytest.approx(1.0)
    tables = {table.name: table for table in report.tables}
    assert tables["worst"].rows[0][:3] == ("f, line 4", 1.0, 7.0)
    assert [row[1] for row in tables["bands"].rows] == [10, 20]
    assert tables["bands"].rows[0][2:] == (1.0, 1.0)
    (bias,) = [finding for finding in report.findings if finding.question == "errors"]
    assert bias.severity == "note"
    assert bias.numbers["bias"] == pytest.approx(35 / 30)


def test_without_training_texts_the_bag_of_words_is_not_asked() -> None:
    task = RegressTask(mean=1.0)
    results = Results([ScoreResult(float(n % 3)) for n in range(30)])
    report = judge(task, examples(30), results, resamples=50)
    assert set(report.baselines) == {"mean"}
    assert "not asked" in [finding.severity for finding in report.findings]
