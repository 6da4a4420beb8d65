"""Rewritten texts say the same as plain functions on strings, and know where they come from."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bothways.tokenization.aligned import (
    Aligned,
    LowerFirst,
    compose,
    lower,
    plain_quotes,
    prepare_around,
)
from tests.tokenization.test_alignment import texts

RULES = [(r" +", " "), (r",\"", "\","), (r"(\d) %", r"\1%"), (r"[aeiou]", ""), (r"$", "!"), ("", "-")]  # fmt: skip  # noqa: E501


def check(text: Aligned, source: str) -> None:
    """Ranges go forward and lie in the source."""
    assert len(text.text) == len(text.starts) == len(text.ends)
    ranges = list(zip(text.starts, text.ends, strict=True))
    assert all(0 <= start <= end <= len(source) for start, end in ranges)
    assert all(before <= after for before, after in pairwise(text.starts))


@given(texts, st.lists(st.sampled_from(RULES), max_size=4))
@example('1 %, "a,"  ,"', RULES)
def test_replacing_is_re_sub(text: str, rules: list[tuple[str, str]]) -> None:
    aligned, plain = Aligned.of(text), text
    for pattern, template in rules:
        compiled = re.compile(pattern)
        aligned = aligned.replace(compiled, lambda match, new=template: match.expand(new))  # type: ignore[misc]
        plain = compiled.sub(template, plain)
        assert aligned.text == plain
        check(aligned, text)


@given(texts)
@example("\u0130\u0130 \u03a3\u039f\u03a3 \u1e9e")
@example("q\u0307\u0323 \u1112\u1161\u11ab \ud558\u11ab \u212b \u0344 \u0958 \u09c7\u09be")
def test_lower_case_and_composition_are_those_of_strings(text: str) -> None:
    for function, plain in (
        (lower, str.lower),
        (compose, lambda text: unicodedata.normalize("NFC", text)),
        (plain_quotes, lambda text: text.replace("``", '"').replace("''", '"')),
        (Aligned.strip, str.strip),
    ):
        result = function(Aligned.of(text))
        assert result.text == plain(text)
        check(result, text)


@given(texts, texts)
def test_what_is_not_changed_keeps_its_place(before: str, after: str) -> None:
    text = f"{before}=><={after}"
    changed = Aligned.of(text).replace(re.compile("=><="), lambda _: "=>12<=")
    place = changed.text.index("=>12<=")
    assert changed.source(0, place) == (0, len(before))
    assert changed.source(place, place + 2) == (len(before), len(before) + 2)
    assert changed.source(place + 2, place + 4) == (len(before) + 2, len(before) + 2)
    assert changed.part(place + 6, len(changed.text)).text == after


@pytest.mark.parametrize(
    ("old", "new", "ranges"),
    [
        ("e\u0301", "\u00e9", [(0, 2)]),
        ("\ufb01", "fi", [(0, 1), (0, 1)]),
        (',"', '",', [(0, 2), (0, 2)]),
        ("a b", "ab", [(0, 1), (2, 3)]),
        ("ab", "a b", [(0, 1), (1, 1), (1, 2)]),
        ("\x00", "", []),
    ],
)
def test_new_characters_stand_for_all_that_they_replace(
    old: str, new: str, ranges: list[tuple[int, int]]
) -> None:
    changed = Aligned.of(old).edit([(0, len(old), new)])
    assert changed.text == new
    assert list(zip(changed.starts, changed.ends, strict=True)) == ranges


def test_pieces_lose_the_spaces_before_them_and_bytes_get_their_character() -> None:
    text = Aligned.of("ab  \u4e2d\u6587").replace(re.compile(" +"), lambda _: " ")
    # "ab", " 中文" as six bytes of one range without the space, and an empty range at the end
    assert text.ranges([(0, 2), *[(3, 5)] * 6, (5, 5)]) == [
        (0, 2), *[(4, 5)] * 3, *[(5, 6)] * 3, (6, 6),
    ]  # fmt: skip
    assert text.ranges([(2, 4), (2, 3)]) == [(4, 5), (2, 3)]
    assert Aligned.of("").ranges([(0, 0)]) == [(0, 0)]


def test_names_that_stand_for_themselves_divide_a_text() -> None:
    apart = re.compile("<E>")
    rewritten = prepare_around("A  <E> B", LowerFirst(Aligned.strip), apart)
    assert rewritten.text == "a<E>b"
    assert rewritten.source(1, 4) == (3, 6)
    assert rewritten.source(4, 5) == (7, 8)
    assert prepare_around("A <E>", lower, None).text == "a <e>"
