"""Relations: marks and spans, cutting around entities, what the head reads, scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bothways.data.collate import Source, collate
from bothways.data.options import FileOptions
from bothways.data.rows import Row
from bothways.errors import DataError, UsageError
from bothways.model.encoder import EncoderOutput
from bothways.model.entities import EntityHead
from bothways.tasks.marking import RelateExample, around, parse_marks
from bothways.tasks.relate import RelateTask
from bothways.tasks.results import LabelResult
from bothways.tasks.task import Task
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer

EAR = "The <e1> ear </e1> of the <e2> elephant </e2>."


@pytest.fixture(scope="module")
def tokenizer(minilm: Path) -> Tokenizer:
    return load_tokenizer(minilm)


def rows(*texts: str) -> list[Row]:
    return [Row({"text": text, "label": "x"}, "a.tsv", line) for line, text in enumerate(texts, 2)]


def test_it_is_a_task() -> None:
    task: Task[RelateExample] = RelateTask()
    assert task.metric_directions[task.main_metric] == 1


@pytest.mark.parametrize(
    ("text", "plain", "entities"),
    [
        (EAR, "The ear of the elephant.", ("ear", "elephant")),
        ("<e2>b</e2> <e1>a</e1>", "b a", ("a", "b")),
        ("a <e1> b </e1><e2> c </e2>", "a bc", ("b", "c")),
        ("<e1> granny <e2> flat </e2></e1>", "granny flat", ("granny flat", "flat")),
    ],
)
def test_marks_become_spans(text: str, plain: str, entities: tuple[str, str]) -> None:
    found, first, second = parse_marks(text)
    assert found == plain
    assert (found[slice(*first)], found[slice(*second)]) == entities


def test_what_the_model_reads_and_where_the_entities_begin_in_it() -> None:
    for text, expected in [
        (EAR, "The $ ear $ of the # elephant #."),
        ("<e2>b</e2> <e1>a</e1>", "# b # $ a $"),
        ("<e1> granny <e2> flat </e2></e1>", "$ granny # flat # $"),
        ("x<e1>b</e1><e2>c</e2>", "x$ b $# c #"),
    ]:
        marked, (first, second) = RelateExample(*parse_marks(text)).marked
        assert marked == expected
        assert (marked[first], marked[second]) == ("$", "#")


def test_entities_that_are_not_clear_are_one_error_with_their_lines() -> None:
    wrong = rows(EAR, "no marks", "<e1> a </e1> <e1> b </e1> <e2> c </e2>", "<e1> </e1> <e2>a</e2>")
    with pytest.raises(DataError, match=r"not clear: 3\n  a.tsv, line 3: 0 <e1> and 0 </e1>") as e:
        RelateTask().read(wrong)
    assert "line 4: 2 <e1> and 2 </e1>" in str(e.value)
    assert "line 5: nothing between <e1> and </e1>" in str(e.value)


def test_files_of_the_task_need_no_flags(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    lines = [f"Component-Whole(e1,e2)\t{EAR}", 'Other\t"<e1> a </e1>" and <e2> b </e2>']
    file.write_text("\n".join(lines), encoding="utf-8")
    first, second = RelateTask().read(FileOptions().rows(file))
    assert (first.label, first.place) == ("Component-Whole(e1,e2)", f"{file}, line 1")
    assert second.text == '"a" and b'
    with pytest.raises(DataError, match="training data does not have: 1"):
        RelateTask(("Other", "x")).read(FileOptions().rows(file))


def test_spans_of_jsonl(tmp_path: Path) -> None:
    def read(**line: Any) -> list[RelateExample]:
        file = tmp_path / "a.jsonl"
        file.write_text(json.dumps(line), encoding="utf-8")
        return RelateTask().read(FileOptions().rows(file))

    (example,) = read(text="a big cat", e1=[0, 1], e2=[6, 9], relation="r")
    assert example.marked[0] == "$ a $ big # cat #"
    for wrong in ([6, 10], [3, 3], "cat", [0, 1.5]):
        with pytest.raises(DataError, match=r"e2 is .* of a text of 9 characters"):
            read(text="a big cat", e1=[0, 1], e2=wrong, relation="r")


def test_columns_that_are_missing_are_named() -> None:
    with pytest.raises(DataError, match="no column for --text, --label; it has: 'a', 'b', 'c'"):
        RelateTask().read([Row({"a": "x", "b": "y", "c": "z"}, "a.csv", 2)])


def test_a_long_text_is_cut_around_its_entities(tokenizer: Tokenizer) -> None:
    filler = "word " * 30
    example = RelateExample(*parse_marks(f"{filler}<e1> ear </e1> of <e2> it </e2> {filler}"))
    ((kept,),), ledger = RelateTask().encode_all([example], tokenizer, CutPolicy(16))
    pieces = tokenizer.tokens(kept.ids)
    assert pieces == [
        "[CLS]",
        *["word"] * 5,
        "$",
        "ear",
        "$",
        "of",
        "#",
        "it",
        "#",
        *["word"] * 2,
        "[SEP]",
    ]
    assert (ledger.texts, ledger.texts_cut, ledger.end, ledger.targets_cut) == (1, 1, "mixed", 0)
    assert (ledger.tokens, ledger.tokens_cut) == (67, 67 - 14)
    source = Source(0, 0, kept, example)
    assert RelateTask().reads([source])["entities"].tolist() == [[6, 10]]


def test_an_entity_that_is_cut_away_is_counted_and_read_as_the_first_token(
    tokenizer: Tokenizer,
) -> None:
    filler = "word " * 30
    example = RelateExample(*parse_marks(f"<e1> ear </e1> {filler}<e2> it </e2> end"))
    ((kept,),), ledger = RelateTask().encode_all([example], tokenizer, CutPolicy(16))
    assert tokenizer.tokens(kept.ids)[1:4] == ["$", "ear", "$"]
    assert (ledger.end, ledger.targets_cut) == ("tail", 1)
    assert RelateTask().reads([Source(0, 0, kept, example)])["entities"].tolist() == [[1, 0]]
    assert around(kept, example.marked[1], 16) == (kept, (1, -1))


def test_windows_and_tails_are_not_for_relations(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match="policy 'windows' does not fit"):
        RelateTask().encode_all([], tokenizer, CutPolicy(16, "windows"))
    with pytest.raises(UsageError, match="--pooling mean is for --relation-state cls"):
        RelateTask(pooling="mean")
    with pytest.raises(UsageError, match="numbers \\[0\\] are something else"):
        RelateTask().examples(["no marks"])


def test_the_head_reads_the_states_where_entities_begin(tokenizer: Tokenizer) -> None:
    task = RelateTask(("x", "y"))
    examples = [
        RelateExample(*parse_marks(text), label="x") for text in (EAR, "<e2>b</e2> <e1>a</e1>")
    ]
    encodings, _ = task.encode_all(examples, tokenizer, CutPolicy(32))
    sources = [Source(n, 0, each[0], examples[n]) for n, each in enumerate(encodings)]
    batch = collate(sources, task.targets(examples, sources))
    states = torch.randn(batch.layout.num_tokens, 8)
    head = EntityHead(8, 2).eval()
    first, second = (tokenizer.tokens(source.encoding.ids) for source in sources)
    found = [
        torch.cat([states[first.index("$")], states[first.index("#")]]),
        torch.cat([states[len(first) + second.index(mark)] for mark in "$#"]),
    ]
    logits = head(EncoderOutput(states), batch)
    assert torch.allclose(logits, head.output(torch.stack(found)))


def test_scores_are_the_official_one_and_those_of_labels() -> None:
    labels = ("A(e1,e2)", "A(e2,e1)", "Other")
    task = RelateTask(labels)
    said = ["A(e1,e2)", "A(e2,e1)", "Other"]
    results = [LabelResult(x, 0.8, {y: 0.8 if y == x else 0.1 for y in labels}) for x in said]
    truth = [RelateExample("", (0, 0), (0, 0), x) for x in ("A(e1,e2)", "A(e1,e2)", "Other")]
    found = task.metrics(results, truth)
    assert found["macro_f1_official"] == pytest.approx(2 * 1 / (2 + 2))
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert list(found) == list(task.metric_directions)


def test_the_state_makes_the_task_again() -> None:
    task = RelateTask(relation_state="cls", pooling="cls").fit(
        [RelateExample("ab", (0, 1), (1, 2), label) for label in "xyx"]
    )
    assert RelateTask.from_state(task.state()) == task
