"""Names of outputs travel with the weights; contradictions are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bothways.checkpoints.labels import (
    default_labels,
    read_labels,
    read_problem_type,
    write_labels,
)
from bothways.checkpoints.load import load_parts
from bothways.checkpoints.save import save_parts
from bothways.checkpoints.settings import SETTINGS_NAME, read_settings, settings_content
from bothways.errors import CheckpointError
from bothways.files import write_json
from tests.checkpoints.models import edit_json, save_theirs


def test_labels_are_in_the_order_of_their_numbers() -> None:
    # As text, "10" comes before "2".
    names = {str(n): f"name {n}" for n in (10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9)}
    assert read_labels({"id2label": names}, "c") == tuple(f"name {n}" for n in range(11))


def test_one_side_is_enough() -> None:
    assert read_labels({"id2label": {"0": "no", "1": "yes"}}, "c") == ("no", "yes")
    assert read_labels({"label2id": {"yes": 1, "no": 0}}, "c") == ("no", "yes")
    assert read_labels({}, "c") == ()


def test_a_permuted_pair_is_an_error() -> None:
    """transformers#13298, #2487, #15474: label names lost or permuted."""
    raw = {"id2label": {"0": "no", "1": "yes"}, "label2id": {"yes": 0, "no": 1}}
    with pytest.raises(
        CheckpointError, match=r"id2label says \[no, yes\] and label2id says \[yes, no\]"
    ):
        read_labels(raw, "c")


def test_a_pair_of_different_labels_is_an_error() -> None:
    raw = {"id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1}}
    with pytest.raises(CheckpointError, match="would have the wrong name"):
        read_labels(raw, "c")


def test_a_label_twice_is_an_error_where_the_other_side_tells() -> None:
    raw = {"id2label": {"0": "a", "1": "a"}, "label2id": {"a": 1}}
    with pytest.raises(CheckpointError, match="label2id has the indices"):
        read_labels(raw, "c")


def test_names_that_a_library_filled_in_claim_nothing() -> None:
    """transformers fills in the side that a user did not give (#28589, #4669)."""
    named, filled = {"0": "no", "1": "yes"}, {"LABEL_0": 0, "LABEL_1": 1}
    assert read_labels({"id2label": named, "label2id": filled}, "c") == ("no", "yes")
    numbers, back = {"0": "LABEL_0", "1": "LABEL_1"}, {"no": 0, "yes": 1}
    assert read_labels({"id2label": numbers, "label2id": back}, "c") == ("no", "yes")
    assert read_labels({"id2label": numbers, "label2id": filled}, "c") == default_labels(2)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"id2label": {"0": "a", "2": "b"}}, r"indices \[0, 2\]; expected each of 0 to 1 once"),
        ({"id2label": {"zero": "a"}}, "an index that is no number"),
        ({"label2id": {"a": None}}, "an index that is no number"),
        ({"id2label": ["a", "b"]}, r"id2label is \['a', 'b'\]; expected an object"),
    ],
)
def test_broken_lists_are_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_labels(raw, "c")


def test_the_problem_type_is_read_and_never_guessed() -> None:
    """transformers#10232, #38219: softmax or sigmoid guessed from the number of labels."""
    assert read_problem_type({}, "c") is None
    name = "multi_label_classification"
    assert read_problem_type({"problem_type": name, "num_labels": 1}, "c") == name
    with pytest.raises(CheckpointError, match="did you mean 'multi_label_classification'"):
        read_problem_type({"problem_type": "multilabel_classification"}, "c")


def test_written_labels_take_the_place_of_old_ones() -> None:
    old = {"id2label": {"0": "x"}, "label2id": {"x": 0}, "num_labels": 1, "kept": True}
    keys = write_labels(old, ["a", "b"], "single_label_classification")
    assert keys == {
        "kept": True,
        "id2label": {"0": "a", "1": "b"},
        "label2id": {"a": 0, "b": 1},
        "problem_type": "single_label_classification",
    }
    assert write_labels(old, [], None) == {"kept": True}


def test_labels_come_back_from_a_folder(tmp_path: Path) -> None:
    labels = {0: "tables", 1: "chairs & ščř", 2: ""}
    save_theirs(tmp_path / "theirs", "BertForSequenceClassification", id2label=labels)
    edit_json(
        tmp_path / "theirs" / "config.json",
        label2id={name: index for index, name in labels.items()},
        problem_type="multi_label_classification",
    )
    parts = load_parts(tmp_path / "theirs")
    assert parts.labels == tuple(labels.values())
    save_parts(parts, tmp_path / "ours")
    again = load_parts(tmp_path / "ours")
    assert again.labels == parts.labels
    assert again.problem_type == "multi_label_classification"


def test_both_files_must_name_the_same_labels(tmp_path: Path) -> None:
    labels = {0: "a", 1: "b"}
    save_theirs(tmp_path / "theirs", "BertForSequenceClassification", id2label=labels)
    edit_json(tmp_path / "theirs" / "config.json", label2id={"a": 0, "b": 1})
    save_parts(load_parts(tmp_path / "theirs"), tmp_path / "ours")
    edit_json(tmp_path / "ours" / SETTINGS_NAME, labels=["b", "a"])
    with pytest.raises(CheckpointError, match=r"names the labels \['a', 'b'\], bothways\.json"):
        load_parts(tmp_path / "ours")


def test_settings_have_a_version_and_no_empty_keys(tmp_path: Path) -> None:
    content = settings_content({"task": {"name": "classify"}, "labels": [], "mine": 1})
    assert content == {"version": 1, "task": {"name": "classify"}, "mine": 1}
    write_json(tmp_path / SETTINGS_NAME, content)
    assert read_settings(tmp_path) == content
    assert settings_content(content) == content
    assert read_settings(tmp_path / "elsewhere") == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"version": 2}, "reads up to 1; install a newer bothways"),
        ({"version": "1"}, "has version '1'"),
        ({}, "has version None"),
        ({"version": 1, "labels": "a", "task": []}, "labels is 'a'; expected a JSON list"),
    ],
)
def test_settings_of_another_form_are_refused(
    tmp_path: Path, content: dict[str, Any], message: str
) -> None:
    write_json(tmp_path / SETTINGS_NAME, content)
    with pytest.raises(CheckpointError, match=message):
        read_settings(tmp_path)
