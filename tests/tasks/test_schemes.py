"""Schemes of tags, beside seqeval and beside each other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB2, IOBES, Entities

from bothways.tasks.schemes import SCHEMES, find_scheme

THEIRS: dict[str, Any] = {"bio": IOB2, "bioes": IOBES, "bilou": BILOU}
NAMES = st.sampled_from(sorted(SCHEMES))


@st.composite
def named_tags(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A scheme and tags of it in any order."""
    name = draw(NAMES)
    tags = SCHEMES[name].tags(["A", "B"])
    return name, draw(st.lists(st.sampled_from(tags), max_size=7))


@given(named_tags())
def test_spans_are_those_of_seqeval(given_tags: tuple[str, list[str]]) -> None:
    """Its strict mode and its default one; it has no strict IO and no lenient BILOU."""
    name, tags = given_tags
    scheme = SCHEMES[name]
    if name in THEIRS:
        strict = [(e.start, e.end, e.tag) for e in Entities([tags], THEIRS[name]).entities[0]]
        assert scheme.strict(tags) == strict
    if name != "bilou":
        lenient = [(start, end + 1, kind) for kind, start, end in get_entities(tags)]
        assert scheme.lenient(tags) == lenient


@given(named_tags())
def test_what_is_written_is_read_again(given_tags: tuple[str, list[str]]) -> None:
    name, tags = given_tags
    scheme = SCHEMES[name]
    spans = scheme.lenient(tags)
    written = scheme.write(spans, len(tags))
    assert scheme.lenient(written) == scheme.strict(written)
    if name != "io":  # which cannot tell two neighbours of a type
        assert scheme.lenient(written) == spans


@given(named_tags())
def test_tags_are_well_formed_where_each_may_follow_the_one_before(
    given_tags: tuple[str, list[str]],
) -> None:
    name, tags = given_tags
    scheme = SCHEMES[name]
    well_formed = scheme.write(scheme.lenient(tags), len(tags)) == tags
    steps = pairwise([None, *tags, None])
    assert well_formed == all(scheme.may_follow(tag, following) for tag, following in steps)


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        (["O", "I-PER", "I-PER"], "io"),
        (["O", "B-PER"], "bio"),
        (["B-PER", "I-PER", "I-LOC"], "bio"),
        (["S-PER", "O"], "bioes"),
        (["B-PER", "I-PER", "E-PER"], "bioes"),
        (["U-PER", "O"], "bilou"),
        (["B-PER", "L-PER"], "bilou"),
        (["NOUN", "VERB", "O"], "none"),
        (["-LRB-", "NN", "HYPH"], "none"),
        (["O", "O"], "none"),
        # One wrong tag does not change what the others are.
        (["B-PER", "I-PER", "PER", "O"], "bio"),
        (["B-PER", "I-PER"] * 20 + ["S-PER"], "bio"),
        (["I-PER"] * 99 + ["B-PER"], "bio"),
    ],
)
def test_the_scheme_is_found(tags: list[str], name: str) -> None:
    assert find_scheme(tags) == name


@pytest.mark.parametrize(
    ("tag", "right"),
    [("O", True), ("B-PER", True), ("I-a-b", True), ("E-PER", False), ("B-", False), ("PER", False),
     ("b-PER", False), ("", False)],
)  # fmt: skip
def test_tags_of_a_scheme(tag: str, right: bool) -> None:
    assert SCHEMES["bio"].has(tag) is right
