"""The classification task: reading, labels, loss, decoding, scores."""

from __future__ import annotations

import dataclasses
import logging
import math
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bothways.data.collate import Source, collate
from bothways.data.readers import read_rows
from bothways.data.rows import Row
from bothways.errors import DataError, TaskError, UsageError
from bothways.metrics.classification import accuracy, f1_macro
from bothways.model.config import EncoderConfig, build_config
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch, Layout
from bothways.tasks.classify import ClassifyExample, ClassifyTask, label_result, label_results
from bothways.tasks.results import LabelResult, Result, ScoreResult
from bothways.tasks.task import Columns, Task
from bothways.tokenization.encoding import Encoding
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer

# Probabilities that went through float32 logits.
SINGLE = 1e-6


def rows(*cells: tuple[str, str], file: str = "train.csv") -> list[Row]:
    return [
        Row({"text": text, "label": label}, file, line)
        for line, (text, label) in enumerate(cells, 2)
    ]


def labelled(*labels: str) -> list[ClassifyExample]:
    return [ClassifyExample(f"text {n}", label=label) for n, label in enumerate(labels)]


def encoding(length: int) -> Encoding:
    return Encoding(
        [5] * length, [0] * length, [(0, 0)] * length, [None] * length, [False] * length
    )


def batch(*examples: int) -> Batch:
    """One sequence of three tokens an example; an example that comes again has windows."""
    windows = [examples[:place].count(example) for place, example in enumerate(examples)]
    return collate(
        [Source(e, window, encoding(3)) for e, window in zip(examples, windows, strict=True)]
    )


@pytest.fixture(scope="module")
def config() -> EncoderConfig:
    return build_config(vocab_size=20, hidden_size=8, num_heads=2, num_layers=1)


@pytest.fixture(scope="module")
def tokenizer(minilm: Path) -> Tokenizer:
    return load_tokenizer(minilm)


def test_it_is_a_task() -> None:
    task: Task[ClassifyExample] = ClassifyTask()
    assert task.metric_directions[task.main_metric] == 1
    assert task.metric_directions["loss"] == -1


# --- reading ------------------------------------------------------------------------------------


def test_rows_become_examples_with_their_places() -> None:
    first, _ = ClassifyTask().read(rows(("good", "yes"), ("bad", "no")))
    assert first == ClassifyExample("good", None, "yes", "train.csv, line 2")


def test_pairs_and_groups_are_read_from_their_columns() -> None:
    columns = Columns(text="q", text_pair="a", label="ok", group="author")
    row = Row({"q": "why?", "a": "because", "ok": "1", "author": "ann"}, "f.tsv", 1)
    (example,) = ClassifyTask(columns=columns).read([row])
    assert example == ClassifyExample("why?", "because", "1", "f.tsv, line 1", "ann")


def test_labels_that_look_like_nothing_or_like_numbers_are_text(tmp_path: Path) -> None:
    """The texts "NA", "None" and "null" and the label 01 stay what they are."""
    file = tmp_path / "odd.csv"
    file.write_text("text,label\nNA,01\nNone,NA\nnull,1.0\n", encoding="utf-8")
    examples = ClassifyTask().read(read_rows(file))
    assert [(e.text, e.label) for e in examples] == [("NA", "01"), ("None", "NA"), ("null", "1.0")]
    assert ClassifyTask().fit(examples).labels == ("01", "1.0", "NA")


def test_rows_without_a_label_are_one_error_with_their_lines() -> None:
    with pytest.raises(DataError, match=r"column 'label'\): 2") as error:
        ClassifyTask().read(rows(("a", "x"), ("b", ""), ("c", "x"), ("d", " \t")))
    assert "train.csv, line 3\n" in str(error.value)
    assert "train.csv, line 5\n" in str(error.value)


def test_rows_without_the_text_field_are_named() -> None:
    some = [*rows(("a", "x")), Row({"label": "x"}, "train.csv", 9)]
    with pytest.raises(DataError, match=r"rows without 'text': 1\n  train.csv, line 9"):
        ClassifyTask().read(some)


def test_a_label_unseen_in_training_is_refused_with_every_line() -> None:
    task = ClassifyTask().fit(labelled("yes", "no"))
    with pytest.raises(DataError, match="training data does not have: 2") as error:
        task.read(rows(("a", "yes"), ("b", "yess"), ("c", "maybe"), file="dev.csv"))
    message = str(error.value)
    assert "dev.csv, line 3: 'yess'" in message
    assert "dev.csv, line 4: 'maybe'" in message
    assert "no, yes (did you mean 'yes'?). Mend the rows" in message


def test_without_labels_any_file_with_texts_is_read() -> None:
    task = ClassifyTask().fit(labelled("yes", "no"))
    (example,) = task.read([Row({"text": "a", "label": "else"}, "new.csv", 2)], labelled=False)
    assert example.label is None


def test_empty_texts_are_kept_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        examples = ClassifyTask().read(rows(("", "x"), ("fine", "y"), (" \t ", "x")))
    assert [e.text for e in examples] == ["", "fine", " \t "]
    assert (
        "2 of 3 texts are empty; empty texts are kept (the first: train.csv, line 2)" in caplog.text
    )


def test_no_rows_give_no_examples() -> None:
    assert ClassifyTask().read([]) == []


def test_a_group_column_is_needed_for_training_and_not_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = ClassifyTask(columns=Columns(group="author"))
    with pytest.raises(DataError, match="--group 'author'"):
        task.read(rows(("a", "x")))
    fitted = task.fit(labelled("x", "y"))
    (example,) = fitted.read(rows(("a", "x"), file="new.csv"))
    assert example.group is None
    assert "new.csv has no column 'author': every example stands alone" in caplog.text


def test_values_for_predict_are_texts_pairs_or_examples() -> None:
    task = ClassifyTask()
    example = ClassifyExample("known", label="x")
    assert task.examples([example]) == [example]
    assert task.examples(["a"]) == [ClassifyExample("a")]
    assert task.examples([("a", "b")]) == [ClassifyExample("a", "b")]
    assert task.examples([]) == []
    with pytest.raises(UsageError, match=r"numbers \[1, 2\] are something else.*int"):
        task.examples(["a", 3, None])


# --- labels -------------------------------------------------------------------------------------


def test_label_order_is_sorted_counted_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    """transformers#13298, #2487: label names lost or permuted."""
    with caplog.at_level(logging.INFO):
        task = ClassifyTask().fit(labelled("b", "a", "b", "C"))
    assert task.labels == ("C", "a", "b")
    assert task.label_counts == {"C": 1, "a": 1, "b": 2}
    assert "3 labels, in this order: C, a, b" in caplog.text


@given(st.permutations(["b", "a", "c", "b"]))
def test_label_order_does_not_depend_on_the_order_of_the_examples(labels: list[str]) -> None:
    assert ClassifyTask().fit(labelled(*labels)).labels == ("a", "b", "c")


def test_one_label_only_is_refused() -> None:
    with pytest.raises(DataError, match=r"train\.csv: 2 examples and one label, 'x'"):
        ClassifyTask().fit(ClassifyTask().read(rows(("a", "x"), ("b", "x"))))


def test_nothing_to_train_on_is_refused() -> None:
    with pytest.raises(DataError, match="no training examples"):
        ClassifyTask().fit([])
    with pytest.raises(DataError, match="examples without a label: 1\n  example 1"):
        ClassifyTask().fit([*labelled("a"), ClassifyExample("b")])


# --- encoding -----------------------------------------------------------------------------------


def test_texts_and_pairs_are_encoded_with_what_was_cut(tokenizer: Tokenizer) -> None:
    task = ClassifyTask()
    texts = [ClassifyExample("a short text"), ClassifyExample("word " * 50), ClassifyExample("")]
    encodings, ledger = task.encode_all(texts, tokenizer, CutPolicy(16))
    assert [len(windows[0]) for windows in encodings] == [5, 16, 2]
    assert (ledger.texts, ledger.texts_cut, ledger.tokens_cut) == (3, 1, 36)
    (pair,) = task.encode(ClassifyExample("one", "two three"), tokenizer, CutPolicy(16))
    assert pair.type_ids == [0, 0, 0, 1, 1, 1]


def test_windows_hold_the_whole_text(tokenizer: Tokenizer) -> None:
    windows = ClassifyTask().encode(
        ClassifyExample("word " * 50), tokenizer, CutPolicy(16, "windows", overlap=2)
    )
    assert len(windows) > 1
    assert all(len(window) <= 16 for window in windows)
    assert windows[-1].offsets[-2] == (245, 249)


def test_pairs_and_single_texts_are_not_mixed(tokenizer: Tokenizer) -> None:
    mixed = [ClassifyExample("a"), ClassifyExample("b", "c")]
    with pytest.raises(UsageError, match="1 of 2 examples are pairs"):
        ClassifyTask().encode_all(mixed, tokenizer, CutPolicy(16))


def test_a_model_of_pairs_refuses_single_texts(tokenizer: Tokenizer) -> None:
    pairs = [ClassifyExample("a", "b", "x"), ClassifyExample("c", "d", "y")]
    task = ClassifyTask().fit(pairs)
    with pytest.raises(TaskError, match="trained on pairs of texts and got single texts"):
        task.encode_all([ClassifyExample("a")], tokenizer, CutPolicy(16))
    single = ClassifyTask().fit(labelled("a", "b"))
    with pytest.raises(TaskError, match="trained on single texts and got pairs of texts"):
        single.encode_all([ClassifyExample("a", "b")], tokenizer, CutPolicy(16))


# --- head, loss, decoding -----------------------------------------------------------------------


def test_the_head_reads_what_the_setting_says(config: EncoderConfig) -> None:
    output = Encoder(config).eval()(batch(0, 1))
    poolings: tuple[Literal["cls", "mean"], ...] = ("cls", "mean")
    for pooling in poolings:
        head = ClassifyTask(pooling=pooling).head(config, ("a", "b", "c")).eval()
        assert head.pooling == pooling
        assert head(output, batch(0, 1)).shape == (2, 3)
    assert ClassifyTask().head(config, ("a", "b")).pooling == "cls"


def test_the_pooler_is_the_choice_where_the_encoder_has_one(config: EncoderConfig) -> None:
    with_pooler = dataclasses.replace(config, pooler=True)
    assert ClassifyTask().head(with_pooler, ("a", "b")).pooling == "pooler"
    with pytest.raises(UsageError, match="no pooler; use --pooling cls"):
        ClassifyTask(pooling="pooler").head(config, ("a", "b"))


def test_an_unknown_pooling_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'mean'"):
        ClassifyTask(pooling="means")  # type: ignore[arg-type]


def test_a_new_head_has_small_weights_and_no_bias(config: EncoderConfig) -> None:
    weights = ClassifyTask().head(config, [str(n) for n in range(500)]).output
    assert isinstance(weights, nn.Linear)
    deviation = float(weights.weight.detach().std())
    # 4,000 draws: the deviation of a deviation is about 1 %.
    assert deviation == pytest.approx(config.initializer_range, rel=0.05)
    assert not weights.bias.any()


def test_the_loss_is_a_sum_and_adds_up_over_micro_batches() -> None:
    task = ClassifyTask().fit(labelled("a", "b", "c"))
    examples = labelled("a", "c", "b", "a")
    logits = torch.randn(4, 3)

    def loss(indices: list[int]) -> tuple[torch.Tensor, int]:
        sources = [Source(index, 0, encoding(3)) for index in indices]
        part = collate(sources, task.targets(examples, sources))
        return task.loss(logits[indices], part)

    whole, count = loss([0, 1, 2, 3])
    parts = [loss([0]), loss([2, 1, 3])]
    expected = -sum(
        float(logits[i].log_softmax(0)[task.labels.index(examples[i].label or "")])
        for i in range(4)
    )
    assert count == 4 == sum(number for _, number in parts)
    assert float(whole) == pytest.approx(expected, rel=SINGLE)
    assert float(sum(part for part, _ in parts)) == pytest.approx(float(whole), rel=SINGLE)


def test_the_loss_is_in_float32_whatever_the_logits_are() -> None:
    part = Batch(torch.zeros(2, dtype=torch.long), Layout.packed([1, 1]))
    part.targets["label"] = torch.tensor([0, 1])
    total, _ = ClassifyTask().loss(torch.randn(2, 5).bfloat16(), part)
    assert total.dtype == torch.float32


def test_every_window_has_the_target_of_its_text() -> None:
    """transformers#10682: labels wrong on overflow windows."""
    task = ClassifyTask().fit(labelled("a", "b"))
    sources = [Source(1, 0, encoding(2)), Source(1, 1, encoding(2)), Source(0, 0, encoding(2))]
    assert task.targets(labelled("a", "b"), sources)["label"].tolist() == [1, 1, 0]


def test_targets_refuse_a_label_that_training_did_not_have() -> None:
    task = ClassifyTask().fit(labelled("a", "b"))
    with pytest.raises(DataError, match="an example: 'c'"):
        task.targets(labelled("c"), [Source(0, 0, encoding(1))])


def test_decoding_gives_probabilities_in_label_order() -> None:
    task = ClassifyTask().fit(labelled("a", "b", "c"))
    first, second = task.decode(torch.tensor([[0.0, 2.0, 1.0], [5.0, 5.0, 5.0]]), batch(0, 1))
    assert isinstance(first, LabelResult)
    assert first.label == "b"
    total = 1 + math.e**2 + math.e
    assert list(first.probabilities) == ["a", "b", "c"]
    assert first.probabilities["c"] == pytest.approx(math.e / total)
    assert first.probability == first.probabilities["b"]
    # The first of equal labels, always.
    assert isinstance(second, LabelResult)
    assert second.label == "a"


def test_windows_of_a_text_share_their_mean_probability() -> None:
    task = ClassifyTask().fit(labelled("a", "b"))
    logits = torch.tensor([[0.0, math.log(3)], [math.log(4), 0.0], [0.0, math.log(9)]])
    results = label_results(task.decode(logits, batch(7, 2, 7)))
    assert [result.label for result in results] == ["b", "a"]
    assert results[0].probability == pytest.approx((0.75 + 0.9) / 2, rel=SINGLE)
    assert results[1].probability == pytest.approx(0.8, rel=SINGLE)


def test_a_batch_without_sources_is_one_example_a_sequence() -> None:
    task = ClassifyTask().fit(labelled("a", "b"))
    bare = Batch(torch.zeros(4, dtype=torch.long), Layout.packed([3, 1]))
    assert len(task.decode(torch.zeros(2, 2), bare)) == 2


# --- scores -------------------------------------------------------------------------------------


def test_scores_are_those_of_scikit_learn_and_the_mean_cross_entropy() -> None:
    task = ClassifyTask().fit(labelled("a", "b", "c"))
    generator = np.random.default_rng(0)
    logits = torch.tensor(generator.normal(size=(50, 3)))
    examples = labelled(*generator.choice(["a", "b", "c"], 50))
    results = task.decode(logits, batch(*range(50)))
    scores = task.metrics(results, examples)
    truth = [e.label or "" for e in examples]
    said = [result.label for result in label_results(results)]
    assert set(scores) == set(task.metric_directions)
    assert scores["accuracy"] == scores["f1_micro"] == pytest.approx(accuracy(truth, said))
    assert scores["f1_macro"] == pytest.approx(f1_macro(truth, said))
    index = torch.tensor([task.labels.index(label) for label in truth])
    expected = float(torch.nn.functional.cross_entropy(logits, index))
    assert scores["loss"] == pytest.approx(expected)


def test_the_scorer_judges_any_selection() -> None:
    task = ClassifyTask().fit(labelled("a", "b"))
    examples = labelled("a", "b", "a")
    sure = [np.array([0.9, 0.1]), np.array([0.8, 0.2]), np.array([0.3, 0.7])]
    results: list[Result] = [label_result(task.labels, row) for row in sure]
    score = task.scorer(results, examples)
    assert score(np.array([0, 0]))["accuracy"] == 1.0
    assert score(np.array([1, 2]))["accuracy"] == 0.0
    assert score(np.array([0, 1, 2]))["accuracy"] == pytest.approx(1 / 3)
    assert score(np.array([0]))["loss"] == pytest.approx(-math.log(0.9))


def test_a_certain_mistake_has_a_finite_loss() -> None:
    task = ClassifyTask().fit(labelled("a", "b"))
    results: list[Result] = [label_result(task.labels, np.array([1.0, 0.0]))]
    assert 80 < task.metrics(results, labelled("b"))["loss"] < 100


def test_units_are_groups_where_there_are_groups() -> None:
    task = ClassifyTask()
    assert task.units(labelled("a", "b")) is None
    some = [ClassifyExample("a", group="x"), ClassifyExample("b"), ClassifyExample("c", group="x")]
    units = task.units(some)
    assert units is not None
    assert units[0] == units[2] != units[1]


def test_results_of_another_task_are_refused() -> None:
    with pytest.raises(TaskError, match="1 of 2 results are not labels"):
        label_results([ScoreResult(1.0), LabelResult("a", 1.0, {"a": 1.0})])


# --- real files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "encoding", "examples", "labels", "pairs"),
    [
        ("mr/rt-polarity.all", "latin-1", 10_662, 2, False),
        ("banking77/test.csv", "utf-8", 3_080, 77, False),
        ("sib200/tha_Thai/test.tsv", "utf-8", 204, 7, False),
        ("nli_counterfactual/dev.tsv", "utf-8", 1_000, 3, True),
    ],
)
def test_published_files_are_read_without_naming_a_column(
    real_data: Path, file: str, encoding: str, examples: int, labels: int, pairs: bool
) -> None:
    found = ClassifyTask().read(read_rows(real_data / file, encoding=encoding))
    task = ClassifyTask().fit(found)
    assert (len(found), len(task.labels), task.pairs) == (examples, labels, pairs)
    assert sum(task.label_counts.values()) == examples
    assert found[0].place.endswith(("line 1", "line 2"))
