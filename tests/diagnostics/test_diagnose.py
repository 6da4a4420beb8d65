"""The diagnosis as a whole: findings worst first, questions that cannot be asked, the command."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bothways.diagnostics.diagnose import Answered, Asked, ask, diagnose
from bothways.diagnostics.questions import QUESTIONS, question
from bothways.diagnostics.settings import DiagnoseSettings
from bothways.errors import NotAsked, UsageError
from bothways.evaluation.result import SEVERITIES
from bothways.report.page import render_html
from bothways.tasks.classify import ClassifyExample
from bothways.tokenization.policy import CutPolicy
from tests.cli.command import Command, undisturbed
from tests.diagnostics.planted import Planted, evidence_of, sentences, stand_in
from tests.report.browser import PHONE, shown_in_a_browser


@pytest.fixture(scope="module")
def planted() -> Planted:
    draw = np.random.default_rng(0)
    return Planted(sentences(draw, 120), sentences(draw, 60))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, planted: Planted) -> Path:
    """A model, its training data, and test data with a column to tell them apart."""
    made = tmp_path_factory.mktemp("diagnosed")
    stand_in(planted).save(made / "model")
    for name, examples in (("train", planted.train), ("test", planted.test)):
        write(made / f"{name}.csv", examples)
    return made


def write(path: Path, examples: Sequence[ClassifyExample]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "source"])
        for number, example in enumerate(examples):
            writer.writerow([example.text, example.label, "ab"[number % 2]])


@pytest.fixture
def bothways(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    with undisturbed():
        yield Command(capsys)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_answers_under_its_own_name(name: str, planted: Planted) -> None:
    evidence = evidence_of(planted)
    try:
        answer = question(name)(evidence)
    except NotAsked as reason:
        pytest.skip(str(reason))
    assert answer.findings()
    assert {finding.question for finding in answer.findings()} == {name}
    shown = [each.name for each in answer.figures()] + [each.name for each in answer.tables()]
    assert all(each == name or each.startswith(f"{name}_") for each in shown), shown
    for table in answer.tables():
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.parametrize("count", [1, 3])
def test_a_few_examples_give_no_alarm(count: int, planted: Planted) -> None:
    few = replace(planted, test=planted.test[:count])
    report = ask(evidence_of(few))
    assert report.count == count
    assert all(finding.severity != "alarm" for finding in report.findings)


def test_without_training_texts_and_with_one_label_all_else_is_asked(planted: Planted) -> None:
    one = [e for e in planted.test if e.label == "sad"]
    evidence = replace(evidence_of(replace(planted, test=one)), train_examples=None)
    assert {finding.question for finding in ask(evidence).findings} == set(QUESTIONS)


def test_empty_texts_and_cells_are_asked_about(planted: Planted) -> None:
    test = [*planted.test, ClassifyExample("", label="sad")]
    columns = {"source": (*["a"] * 30, *["b"] * 30, None)}
    report = ask(evidence_of(replace(planted, test=test, columns=columns)))
    assert report.count == 61


def test_events_tell_each_question_before_and_after(planted: Planted) -> None:
    events: list[Asked | Answered] = []
    report = ask(evidence_of(planted), on_event=events.append)
    assert [event.question for event in events] == [name for name in QUESTIONS for _ in "ab"]
    assert [type(event) for event in events[:2]] == [Asked, Answered]
    order = [SEVERITIES.index(finding.severity) for finding in report.findings]
    assert order == sorted(order)


def test_only_the_named_questions_are_asked(planted: Planted) -> None:
    report = ask(evidence_of(planted), DiagnoseSettings(only=("truncation",)))
    assert [finding.question for finding in report.findings] == ["truncation"]
    with pytest.raises(UsageError, match="did you mean 'truncation'"):
        ask(evidence_of(planted), DiagnoseSettings(only=("truncatoin",)))


def test_a_cut_is_found_and_told_with_what_to_do(planted: Planted) -> None:
    draw = np.random.default_rng(1)
    tail = [replace(e, text="ba du " * 8 + e.text) for e in sentences(draw, 200)]
    evidence = evidence_of(Planted(tail[:120], tail[120:], max_length=64))
    report = ask(replace(evidence, policy=CutPolicy(16)), DiagnoseSettings(only=("truncation",)))
    finding = report.findings[0]
    assert finding.severity == "alarm"
    assert finding.numbers["texts_cut"] == 80
    assert finding.numbers["recommended_policy"] in ("tail", "windows", "head")
    tables = {table.name: table for table in report.tables}
    kept = {row[:2]: row for row in tables["truncation_cut"].rows}
    score, low, gain_low, cost = (kept["tail", 16][at] for at in (2, 3, 6, 8))
    assert isinstance(score, float)
    assert isinstance(gain_low, float)
    assert score > 0.5
    assert gain_low > 0
    assert cost == pytest.approx(1.0)
    assert low is not None
    assert sum(int(row[2] or 0) for row in tables["truncation_labels"].rows) == 80
    assert report.figures[-1].series[0].label == "head"


def test_the_command_writes_the_report(bothways: Command, folder: Path) -> None:
    done = bothways(
        "diagnose",
        *("--model", folder / "model", "--data", folder / "test.csv"),
        *("--train", folder / "train.csv", "--slices", "source", "--output", folder / "out"),
        "--json",
    )
    report = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    assert done.json["findings"] == report["findings"]
    assert {finding["question"] for finding in report["findings"]} == set(QUESTIONS)
    assert report["count"] == report["population"] == 60
    assert "bag_of_words" in report["baselines"]
    assert f"1/{len(QUESTIONS)} truncation" in done.err
    assert (folder / "out" / "report.html").read_text(encoding="utf-8").count("<figure") == len(
        report["figures"]
    )


def test_the_page_of_a_diagnosis_is_shown_whole_on_a_phone(
    planted: Planted, tmp_path: Path
) -> None:
    columns = {"source": tuple("ab"[number % 2] for number in range(60))}
    report = ask(evidence_of(replace(planted, columns=columns)))
    page = render_html(report)
    for number, name in enumerate(dict.fromkeys(f.question for f in report.findings), 1):
        assert f'id="question-{number}">\n<h3>{name}</h3>' in page
    seen = shown_in_a_browser(page, tmp_path)
    assert seen["errors"] == seen["wide"] == []
    assert seen["scroll"] <= seen["width"] <= PHONE
    assert page.count("<figure") == len(report.figures)
    assert len(seen["sizes"]) == sum(figure.kind != "text" for figure in report.figures) > 4
    assert min(seen["sizes"]) > 60


def test_what_there_is_not_is_refused_by_name(bothways: Command, folder: Path) -> None:
    given = ("--model", folder / "model", "--data", folder / "test.csv")
    for flags, told in (
        (("--slices", "sauce"), "did you mean 'source'?"),
        (("--only", "truncatoin"), "did you mean 'truncation'?"),
    ):
        output = ("--output", folder / "none")
        bothways.fails("diagnose", *given, *output, *flags, code=2, parts=[told])
    assert not (folder / "none").exists()


def test_a_large_file_is_sampled_and_says_so(folder: Path, planted: Planted) -> None:
    many = folder / "many.csv"
    write(many, [*planted.test] * 40)
    model = stand_in(planted)
    settings = DiagnoseSettings(only=("truncation",))
    report = diagnose(model, many, settings=settings, resamples=20)
    assert (report.count, report.population) == (2000, 2400)
    whole = diagnose(model, many, settings=replace(settings, all=True), resamples=20)
    assert (whole.count, whole.population) == (2400, 2400)


def test_to_train_again_needs_a_function_that_trains(planted: Planted) -> None:
    with pytest.raises(UsageError, match="no function that trains"):
        ask(evidence_of(planted), DiagnoseSettings(retrain=True))
