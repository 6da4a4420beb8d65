"""Multiple choice: reading questions, the softmax over choices, cutting, scores."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from bothways.data.collate import Source, collate
from bothways.data.readers import read_rows
from bothways.errors import DataError, UsageError
from bothways.model.layout import Batch
from bothways.tasks.choice import ChoiceTask
from bothways.tasks.choice_reading import ChoiceExample, choices_of, right_choice
from bothways.tasks.results import ChoiceResult
from bothways.tasks.task import Task
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import load_tokenizer
from tests.tasks.tiny import encoding

TWO = ChoiceExample("sky?", ("red", "blue"), label=1)
THREE = ChoiceExample("grass?", ("red", "blue", "green"), label=2)


def read(folder: Path, *lines: dict[str, Any], labelled: bool = True) -> list[ChoiceExample]:
    file = folder / "a.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return ChoiceTask().read(read_rows(file), labelled=labelled)


def batch(task: ChoiceTask, examples: list[ChoiceExample]) -> Batch:
    sources = [
        Source(index, place, encoding(), example)
        for index, example in enumerate(examples)
        for place in range(len(example.choices))
    ]
    return collate(sources, task.targets(examples, sources))


def test_it_is_a_task() -> None:
    task: Task[ChoiceExample] = ChoiceTask()
    assert task.metric_directions == {"accuracy": 1, "loss": -1}


def test_the_right_choice_by_number_by_text_and_by_name(tmp_path: Path) -> None:
    named = {"text": ["red", "blue"], "label": ["A", "B"]}
    examples = read(
        tmp_path,
        {"question": "sky?", "choices": ["red", "blue"], "label": 1},
        {"question": "sky?", "choices": ["red", "blue"], "label": "blue"},
        {"question": "sky?", "choices": named, "label": "B"},
    )
    assert [example.label for example in examples] == [1, 1, 1]
    assert examples[0].choices == ("red", "blue")
    assert examples[0].place.endswith("a.jsonl, line 1")


def test_contexts_are_read_beside_question_and_choice(tmp_path: Path) -> None:
    (example,) = read(
        tmp_path,
        {"context": "It rains.", "question": "Wet?", "options": ["no", "yes"]},
        labelled=False,
    )
    assert example.pairs == [("It rains.", "Wet? no"), ("It rains.", "Wet? yes")]
    assert TWO.pairs == [("sky?", "red"), ("sky?", "blue")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"question": "a", "choices": ["x"], "label": 0}, r"no list of texts: 1\n  .*line 2"),
        ({"question": "a", "choices": "x, y", "label": 0}, "no list of texts: 1"),
        ({"question": "a", "choices": ["x", "y"], "label": 2}, "not clear: 1\n.*'2' among 'x, y'"),
        ({"question": "a", "choices": ["x", "x"], "label": "x"}, "not clear: 1"),
        ({"question": "a", "choices": ["1", "2"], "label": 1}, "not clear: 1"),
        ({"question": "a", "choices": ["x", "y"], "label": ""}, "not clear: 1"),
    ],
)
def test_rows_that_make_no_sense(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    good = {"question": "a", "choices": ["x", "y"], "label": 0}
    with pytest.raises(DataError, match=message):
        read(tmp_path, good, line)


def test_columns_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column for choices, --label; it has: 'question', 'a'"):
        read(tmp_path, {"question": "q", "a": "x"})


def test_a_number_that_is_also_a_choice_is_clear_when_both_agree() -> None:
    assert right_choice("1", ["0", "1"]) == 1
    assert right_choice("1", ["1", "0"]) is None
    assert choices_of("[1, 2]") == (["1", "2"], [])


def test_what_callers_hand_over() -> None:
    examples = ChoiceTask().examples(
        [
            ("sky?", ["red", "blue"]),
            {"question": "wet?", "context": "rain", "choices": ["a", "b"]},
            TWO,
        ]
    )
    assert examples[0] == ChoiceExample("sky?", ("red", "blue"))
    assert examples[1].pair == "rain"
    with pytest.raises(UsageError, match=r"numbers \[0, 1\] are something else"):
        ChoiceTask().examples(["text", ("sky?", ["red"])])


def test_the_loss_is_over_the_choices_of_each_question() -> None:
    task = ChoiceTask().fit([TWO, THREE])
    assert task.positions == (0, 1, 1)
    logits = torch.tensor([[1.0], [3.0], [0.0], [0.0], [2.0]])
    made = batch(task, [TWO, THREE])
    loss, count = task.loss(logits, made)
    first = math.log1p(math.exp(-2))
    second = math.log(2 + math.exp(2)) - 2
    assert [float(loss), count] == pytest.approx([first + second, 2])
    found = task.decode(logits, made)
    assert [result.choice for result in found if isinstance(result, ChoiceResult)] == [
        "blue",
        "green",
    ]
    assert task.metrics(found, [TWO, THREE]) == {
        "accuracy": 1.0,
        "loss": pytest.approx((first + second) / 2),
    }


def test_what_is_cut_is_counted_by_example(minilm: Path) -> None:
    tokenizer = load_tokenizer(minilm)
    long = ChoiceExample("word " * 40, ("yes", "no"), pair="word " * 40)
    encodings, ledger = ChoiceTask().encode_all([TWO, long], tokenizer, CutPolicy(32))
    assert [len(each) for each in encodings] == [2, 2]
    assert (ledger.texts, ledger.texts_cut) == (2, 1)
    assert ledger.tokens_cut == 2 * (81 - 29)
    with pytest.raises(UsageError, match="policy 'windows' does not fit"):
        ChoiceTask().encode(TWO, tokenizer, CutPolicy(32, "windows"))


def test_the_state_makes_the_task_again() -> None:
    task = ChoiceTask().fit([TWO])
    assert ChoiceTask.from_state(task.state()) == task
