"""The names of a head's outputs and what kind of problem it solves, as config.json keeps them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bothways.errors import CheckpointError, nearest

PROBLEM_TYPES = ("single_label_classification", "multi_label_classification", "regression")
_KEYS = ("id2label", "label2id", "problem_type", "num_labels")


def read_labels(raw: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """Label names in the order of the logits; empty when config.json names none.

    A side that holds nothing but LABEL_0, LABEL_1, ... was filled in by a library and claims
    nothing; the other side then counts.

    Args:
        raw: the content of config.json.
        place: the file, for messages.

    Raises:
        CheckpointError: when an index is absent or twice, or both sides contradict each other.
    """
    forward = _pairs(raw.get("id2label"), place, "id2label")
    backward = [(index, name) for name, index in _pairs(raw.get("label2id"), place, "label2id")]
    sides = {"id2label": forward, "label2id": backward}
    orders = {
        key: _in_order(pairs, place, key)
        for key, pairs in sides.items()
        if pairs and not _filled_in(pairs)
    }
    if len(orders) == 2 and orders["id2label"] != orders["label2id"]:
        raise CheckpointError(
            f"{place}: id2label says {_shown(orders['id2label'])} and label2id says "
            f"{_shown(orders['label2id'])}; every prediction would have the wrong name under one "
            "of them. Correct the one that is wrong"
        )
    for order in orders.values():
        return order
    return _in_order(forward, place, "id2label") if forward else ()


def read_problem_type(raw: Mapping[str, Any], place: str) -> str | None:
    """What the head solves; None when config.json does not say.

    Raises:
        CheckpointError: when the word is unknown.
    """
    value = raw.get("problem_type")
    if value is not None and value not in PROBLEM_TYPES:
        raise CheckpointError(
            f"{place}: problem_type is {value!r}; {nearest(str(value), PROBLEM_TYPES)}"
        )
    return value


def write_labels(
    raw: Mapping[str, Any], labels: Sequence[str], problem_type: str | None
) -> dict[str, Any]:
    """The keys of a config.json with these labels in place of its own.

    Args:
        raw: the keys.
        labels: in the order of the logits; empty for none.
        problem_type: None for none.
    """
    keys = {key: value for key, value in raw.items() if key not in _KEYS}
    if labels:
        keys["id2label"] = {str(index): name for index, name in enumerate(labels)}
        keys["label2id"] = {name: index for index, name in enumerate(labels)}
    if problem_type is not None:
        keys["problem_type"] = problem_type
    return keys


def default_labels(count: int) -> tuple[str, ...]:
    """The names that outputs have when nobody named them."""
    return tuple(f"LABEL_{index}" for index in range(count))


def _pairs(value: Any, place: str, key: str) -> list[tuple[Any, Any]]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise CheckpointError(f"{place}: {key} is {value!r}; expected an object")
    return list(value.items())


def _filled_in(pairs: Sequence[tuple[Any, Any]]) -> bool:
    return all(re.fullmatch(r"LABEL_\d+", str(name)) for _, name in pairs)


def _in_order(pairs: Sequence[tuple[Any, Any]], place: str, key: str) -> tuple[str, ...]:
    try:
        order = sorted((int(index), str(name)) for index, name in pairs)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{place}: {key} has an index that is no number: {error}") from error
    if [index for index, _ in order] != list(range(len(order))):
        raise CheckpointError(
            f"{place}: {key} has the indices {[index for index, _ in order]}; "
            f"expected each of 0 to {len(order) - 1} once"
        )
    return tuple(name for _, name in order)


def _shown(labels: Sequence[str], limit: int = 6) -> str:
    return "[" + ", ".join(labels[:limit]) + ", ..." * (len(labels) > limit) + "]"
