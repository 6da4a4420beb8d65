"""Words and sentences by characters alone, in scripts with and without spaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.tokenization.words import (
    sentences,
    text_words,
    unspaced_words,
    words_and_marks,
)

TEXTS = st.text(
    alphabet=st.sampled_from(list("aé.! \n中文。ไทยำ้カナー々のខ្មែរ\u200d🙂'-")), max_size=40
)


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in text_words(text)]


def cut(text: str, places: list[int]) -> list[str]:
    return [text[a:b] for a, b in zip(places, [*places[1:], len(text)], strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("to be, or not", ["to", "be", "or", "not"]),
        ("don't", ["don", "t"]),
        ("中文字 and 北京", ["中", "文", "字", "and", "北", "京"]),
        ("カタカナとコーヒー", ["カタカナ", "と", "コーヒー"]),
        # A consonant with its vowel and tone mark; the vowel of น้ำ is a letter by category.
        ("น้ำดี", ["น้ำ", "ดี"]),
        ("เกม", ["เ", "ก", "ม"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ខ្មែរ", ["ខ្", "មែ", "រ"]),
        ("한국어 텍스트", ["한국어", "텍스트"]),
        ("good 🙂 day", ["good", "day"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_words_of_texts(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("to be, or not?!", ["to", "be", ",", "or", "not", "?", "!"]),
        ("don't l’homme 'tis", ["don't", "l’homme", "'", "tis"]),
        ("U.S.A. 1,000.5 at 12:30.", ["U.S.A", ".", "1,000.5", "at", "12:30", "."]),
        ("@ann #tag a@b.com C#", ["@ann", "#tag", "a", "@", "b.com", "C", "#"]),
        ("(https://t.co/x_9?a=1).", ["(", "https://t.co/x_9?a=1", ")", "."]),
        ("中文 ok。", ["中", "文", "ok", "。"]),
        ("हिन्दी है।", ["हिन्दी", "है", "।"]),
        # A picture with its variation, skin, joiners or pair of letters is one mark.
        ("ok😂❤️👍🏽👨‍👩‍👧🇩🇪", ["ok", "😂", "❤️", "👍🏽", "👨‍👩‍👧", "🇩🇪"]),
        ("a\x00b \x07", ["a", "b"]),
        (" \n ", []),
    ],
)
def test_words_and_the_marks_between_them(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in words_and_marks(text)] == expected


@given(TEXTS)
def test_words_and_marks_leave_nothing_but_space(text: str) -> None:
    spans = words_and_marks(text)
    places = [place for start, end in spans for place in range(start, end)]
    assert places == sorted(set(places))
    left = [text[place] for place in set(range(len(text))) - set(places)]
    assert "".join(left).strip() == ""


def test_words_of_unspaced_scripts_alone() -> None:
    assert unspaced_words("go 中文 ok") == [(3, 4), (4, 5)]
    assert unspaced_words("plain") == []
    assert unspaced_words("naïve Привет") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ("Pi is 3.14, e.g. this.", ["Pi is 3.14, e.g. this."]),
        ('He said "No." She left.', ['He said "No." ', "She left."]),
        ("第一句。第二句！", ["第一句。", "第二句！"]),
        ("A title\nA text", ["A title\n", "A text"]),
        ("a line that\ngoes on", ["a line that\ngoes on"]),
        ("مرحبا؟ نعم.", ["مرحبا؟ ", "نعم."]),
        ("", [""]),
        ("End. ", ["End. "]),
    ],
)
def test_sentences_of_texts(text: str, expected: list[str]) -> None:
    assert cut(text, sentences(text).tolist()) == expected


@given(TEXTS)
def test_places_increase_and_lie_in_the_text(text: str) -> None:
    for spans in (unspaced_words(text), text_words(text)):
        flat = [place for span in spans for place in span]
        assert flat == sorted(flat)
        assert all(start < end <= len(text) for start, end in spans)
    starts = sentences(text).tolist()
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert all(start == 0 or start < len(text) for start in starts)
    # What is in no word is space, punctuation or a symbol.
    inside = {index for start, end in spans for index in range(start, end)}
    assert not any(text[index].isalnum() for index in range(len(text)) if index not in inside)
