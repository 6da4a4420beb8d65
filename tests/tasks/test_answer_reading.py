"""Rows of SQuAD's JSON and of jsonl as questions, contexts and answers."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from bothways.data.readers import read_rows
from bothways.data.splits import split
from bothways.errors import DataError
from bothways.tasks.answer import AnswerTask
from bothways.tasks.answer_reading import Answer, AnswerExample

CONTEXT = "Ann saw the Rhine. Bo slept 🙂 until noon."
RIGHT = {"text": "Bo", "answer_start": 19}
WRONG = {"text": "noon", "answer_start": 37}  # 36 in characters: 🙂 is two units of UTF-16


def squad(path: Path, *questions: dict[str, Any], context: str = CONTEXT) -> Path:
    qas = [{"id": f"q{n}", "question": f"Who {n}?"} | each for n, each in enumerate(questions)]
    paragraphs = [{"context": context, "qas": qas}]
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}, indent=1))
    return path


def read(path: Path, task: AnswerTask | None = None, **options: Any) -> list[AnswerExample]:
    return (task or AnswerTask()).read(read_rows(path), **options)


def test_squad_and_both_forms_of_jsonl_say_the_same(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": 1, "question": "Who 0?", "context": CONTEXT, "answers": [RIGHT]},
        {"question": "Who 1?", "context": CONTEXT, "answers": {"text": [], "answer_start": []}},
    ]
    other = [
        {**lines[0], "answers": {"text": ["Bo"], "answer_start": [19]}},
        {**lines[1], "answers": []},
    ]
    expected = [("Who 0?", (Answer("Bo", 19),)), ("Who 1?", ())]
    for name, rows in (("a.jsonl", lines), ("b.jsonl", other)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
        found = read(tmp_path / name)
        assert [(each.question, each.answers) for each in found] == expected
    path = squad(tmp_path / "c.json", {"answers": [RIGHT]}, {"answers": [], "is_impossible": True})
    found = read(path)
    assert [(each.question, each.answers) for each in found] == expected
    assert found[0].place == f"{path}, line 10"
    assert {each.group for each in found} == {CONTEXT} == {each.pair for each in found}


def test_a_split_never_tears_a_context(real_data: Path) -> None:
    examples = read(real_data / "xquad" / "xquad.en.json")
    assert len(examples) == 1190
    train, dev = split(
        examples, dev_share=0.1, seed=0, group=[example.group for example in examples]
    )
    assert not {each.context for each in train} & {each.context for each in dev}
    assert len(dev) == pytest.approx(119, abs=5)


@pytest.mark.parametrize("language", ["en", "es", "de", "zh"])
def test_every_answer_of_real_data_stands_where_it_says(real_data: Path, language: str) -> None:
    for example in read(real_data / "xquad" / f"xquad.{language}.json"):
        for answer in example.answers or ():
            assert example.context[answer.start : answer.end] == answer.text


def test_misaligned_answers_are_named_dropped_or_only_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = squad(
        tmp_path / "a.json", {"answers": [WRONG]}, {"answers": [WRONG, RIGHT]}, {"answers": [RIGHT]}
    )
    with pytest.raises(DataError) as raised:
        read(path)
    message = str(raised.value)
    assert "answer_start: 2\n" in message
    assert "--drop-misaligned" in message
    assert f"{path}, line 10: 'noon' at 37, where the context has 'oon.'" in message

    with caplog.at_level(logging.WARNING):
        kept = read(path, AnswerTask(drop_misaligned=True))
    assert [each.answers for each in kept] == [(Answer("Bo", 19),)] * 2
    assert "2 answers" in caplog.text
    assert "with 1 question that had no other" in caplog.text

    # Judging compares texts, so that nothing is left out of a score.
    held_out = read(path, AnswerTask(trained=True))
    assert [each.answers for each in held_out] == [
        (Answer("noon", None),),
        (Answer("noon", None), Answer("Bo", 19)),
        (Answer("Bo", 19),),
    ]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ("Bo", "Expecting value"),
        ([{"answer_start": 3}], "an answer without a text"),
        ([{"text": "Bo"}], "no whole number"),
        ([{"text": "Bo", "answer_start": "19"}], "no whole number"),
        ({"text": ["Bo"], "answer_start": []}, "same length"),
        (7, "neither a list nor an object"),
        (None, "Expecting value"),
    ],
)
def test_answers_of_another_form_are_named(tmp_path: Path, answers: Any, why: str) -> None:
    row = {"question": "Who?", "context": CONTEXT, "answers": answers}
    (tmp_path / "a.jsonl").write_text("\n" + json.dumps(row))
    with pytest.raises(DataError, match="rows whose answers cannot be read: 1") as raised:
        read(tmp_path / "a.jsonl")
    assert "a.jsonl, line 2: " in str(raised.value)
    assert why in str(raised.value)


def test_texts_without_offsets_will_do_for_judging(tmp_path: Path) -> None:
    row = {"question": "Who?", "context": CONTEXT, "answers": {"text": ["Bo"]}}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    (found,) = read(tmp_path / "a.jsonl", AnswerTask(trained=True))
    assert found.answers == (Answer("Bo", None),)


def test_questions_that_nobody_answered_are_not_taken_for_unanswerable(tmp_path: Path) -> None:
    path = squad(tmp_path / "a.json", {"answers": []}, {"answers": [RIGHT], "is_impossible": True})
    with pytest.raises(DataError, match="contradict is_impossible: 2"):
        read(path)
    assert [each.answers for each in read(path, labelled=False)] == [None, None]


def test_columns_of_other_names_and_of_groups(tmp_path: Path) -> None:
    from bothways.tasks.task import Columns

    row = {"q": "Who?", "passage": CONTEXT, "gold": [RIGHT], "page": "7"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    columns = Columns("q", "passage", "gold", "page")
    (found,) = read(tmp_path / "a.jsonl", AnswerTask(columns=columns))
    assert (found.question, found.context, found.group) == ("Who?", CONTEXT, "7")
    with pytest.raises(DataError, match="no column --text 'question', --text-pair 'context'"):
        read(tmp_path / "a.jsonl")


def test_empty_contexts_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """transformers#14277, #18719: an empty context is counted and no crash."""
    path = squad(tmp_path / "a.json", {"answers": [], "is_impossible": True}, context="")
    with caplog.at_level(logging.WARNING):
        read(path)
    assert "1 of 1 context is empty" in caplog.text
