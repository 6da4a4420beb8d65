"""What an evaluation of answers adds: baselines, tables by kind of question, mistakes."""

from __future__ import annotations

import pytest

from bothways.evaluation.answering import (
    answering_parts,
    length_of_answer,
    likeliest_sentence,
    question_word,
    sentences,
)
from bothways.evaluation.evaluate import judge
from bothways.inference.results import Results
from bothways.tasks.answer import AnswerTask
from bothways.tasks.answer_reading import Answer, AnswerExample
from bothways.tasks.results import AnswerResult

CONTEXT = "Bo slept. Ann saw the long Rhine in 1990! It rained."


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("How many are there?", "how many"),
        ("How is it?", "how"),
        ("In what year and where?", "what"),
        ("WHO's there?", "who"),
        ("Whose is it?", "whose"),
        ("Name the river.", "other"),
        ("Somewhat odd", "other"),  # no word of its own
        ("¿Quién vio el Rin?", "other"),
    ],
)
def test_question_words(question: str, word: str) -> None:
    assert question_word(question) == word


@pytest.mark.parametrize(
    ("answers", "length"),
    [
        ((), "no answer"),
        (("Rhine",), "1 word"),
        (("the Rhine", "Rhine"), "2 words"),
        (("a b c d e",), "3 to 5 words"),
        (("a b c d e f",), "6 to 10 words"),
        (("a " * 11,), "11 and more"),
    ],
)
def test_lengths_of_answers(answers: tuple[str, ...], length: str) -> None:
    given = tuple(Answer(text, None) for text in answers)
    assert length_of_answer(AnswerExample("q", "c", given)) == length


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CONTEXT, ["Bo slept.", "Ann saw the long Rhine in 1990!", "It rained."]),
        ("About 1.5 m.\nSo", ["About 1.5 m.", "So"]),
        ("长江很长。雨停了！", ["长江很长。", "雨停了！"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences(text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text)] == found


def test_the_likeliest_sentence_has_most_words_of_the_question() -> None:
    found = likeliest_sentence(AnswerExample("Who saw it in 1990?", CONTEXT))
    assert found.text == "Ann saw the long Rhine in 1990!"
    assert CONTEXT[found.start : found.end] == found.text
    assert likeliest_sentence(AnswerExample("Why?", CONTEXT)).text == "Bo slept."
    assert (
        likeliest_sentence(AnswerExample("谁看见长江？", "雨停了。长江很长。")).text == "长江很长。"
    )
    assert likeliest_sentence(AnswerExample("Why?", "")).text == ""


def test_the_report_of_five_questions_by_hand() -> None:
    examples = [
        AnswerExample("Who saw it?", CONTEXT, (Answer("Ann", 10),), "a.json, line 1"),
        AnswerExample("What did Ann see?", CONTEXT, (Answer("Rhine", 27),), "a.json, line 2"),
        AnswerExample("What fell?", CONTEXT, (Answer("the rain", None),), "a.json, line 3"),
        AnswerExample("Who swam?", "Bo.", (), "a.json, line 4"),
        AnswerExample("Who ran?", "Bo.", (), "a.json, line 5"),
    ]
    said = ["Ann", "long Rhine", "", "Bo", ""]
    chances = [0.9, 0.5, 0.7, 0.8, 0.6]
    results = [AnswerResult(t, 0, len(t), p, 0.1) for t, p in zip(said, chances, strict=True)]
    report = judge(AnswerTask(trained=True), examples, Results(results), resamples=50)
    assert report.metrics["f1"].value == pytest.approx((1 + 2 / 3 + 0 + 0 + 1) / 5)
    # Ann is one of five words of its sentence, Rhine one of five; articles do not count.
    sentence = report.baselines["likeliest_sentence"]
    assert sentence["f1"].value == pytest.approx((2 * 1 / 7 + 2 * 1 / 7) / 5)
    assert report.baselines["no_answer"]["f1"].value == pytest.approx(0.4)
    tables = {table.name: table for table in report.tables}
    words, third = tables["question_words"].rows, pytest.approx(1 / 3)
    assert [row[:2] for row in words] == [("what", 2), ("who", 3)]
    assert [row[2] for row in words] == [0.0, pytest.approx(2 / 3)]
    assert [row[3] for row in words] == [third, pytest.approx(2 / 3)]
    assert [row[:2] for row in tables["answer_lengths"].rows] == [
        ("1 word", 2),
        ("2 words", 1),
        ("no answer", 2),
    ]
    assert tables["mistakes"].rows == (
        ("a.json, line 4", "'Who swam?'", "no answer", "'Bo'", 0.8),
        ("a.json, line 3", "'What fell?'", "'the rain'", "no answer", 0.7),
    )
    (errors,) = [finding for finding in report.findings if finding.question == "errors"]
    assert errors.numbers == {
        "right": 2,
        "overlapping": 1,
        "elsewhere": 0,
        "missed": 1,
        "made_up": 1,
    }


def test_no_answer_is_no_baseline_where_every_question_has_one() -> None:
    examples = [AnswerExample("¿Quién?", CONTEXT, (Answer("Ann", 10),))]
    parts = answering_parts(AnswerTask(), examples, [AnswerResult("Ann", 10, 13, 0.9, 0.1)])
    assert set(parts.rivals) == {"likeliest_sentence"}
    assert [table.name for table in parts.tables] == ["answer_lengths"]
