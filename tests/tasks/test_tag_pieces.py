"""Which pieces speak for a word: in one window and in several."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.data.collate import Source
from bothways.tasks.tag_pieces import decided_words, unread_words, word_pieces
from bothways.tokenization.encoding import Encoding
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer


@pytest.fixture(scope="module")
def tokenizer(minilm: Path) -> Tokenizer:
    return load_tokenizer(minilm)


def window(*words: int) -> Encoding:
    """Pieces of these words between two special ones."""
    inner = list(words)
    size = len(inner) + 2
    special = [True, *[False] * len(inner), True]
    return Encoding(list(range(size)), [0] * size, [(0, 0)] * size, [None, *inner, None], special)


def test_in_one_window_every_word_is_decided() -> None:
    assert decided_words([window(0, 1, 1, 3)]) == {0: (0, [1]), 1: (0, [2, 3]), 3: (0, [4])}


def test_of_two_windows_the_one_with_more_around_a_word_decides() -> None:
    """Words 2 to 5 are in both; ends of the text count as no end."""
    first, second = window(0, 1, 2, 3, 4, 5), window(2, 3, 4, 5, 6, 7)
    decided = {word: where for word, (where, _) in decided_words([first, second]).items()}
    assert decided == {0: 0, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 1, 7: 1}


def test_a_word_that_begins_in_the_earlier_window_alone_is_decided_there() -> None:
    """Its first piece is in no other window."""
    decided = decided_words([window(0, 0, 1), window(1, 1, 2)])
    assert decided[1] == (0, [3])
    assert decided[2] == (1, [3])


@pytest.mark.parametrize("overlap", [0, 1, 2, 5])
@pytest.mark.parametrize("length", [9, 12])
def test_every_word_of_a_long_text_is_decided_once_and_in_order(
    tokenizer: Tokenizer, overlap: int, length: int
) -> None:
    """transformers#15177, #33579, #10682: nothing is cut, no label is out of place."""
    words = ["Katzenklavier", "is", "unbelievably", "loud", "."] * 6
    policy = CutPolicy(length, "windows", overlap)
    ((windows,), _) = tokenizer.encode_words([words], policy=policy)
    assert len(windows) > 3
    decided = decided_words(windows)
    assert sorted(decided) == list(range(len(words)))
    order = [decided[word] for word in sorted(decided)]
    assert order == sorted(order)
    for word, (number, places) in decided.items():
        assert {windows[number].words[place] for place in places} == {word}
        # The first piece of a word begins at its first letter.
        assert windows[number].offsets[places[0]][0] == 0


def test_rows_count_over_the_whole_batch() -> None:
    """Two windows of text 7, then text 3: rows of tokens, words and texts in order."""
    sources = [Source(7, 0, window(0, 1, 1)), Source(7, 1, window(1, 2)), Source(3, 0, window(0))]
    first = word_pieces(sources, "first")
    assert first.rows.tolist() == [1, 2, 7, 10]
    assert (first.texts, first.numbers) == ([0, 0, 0, 1], [0, 1, 2, 0])
    every = word_pieces(sources, "all")
    assert every.rows.tolist() == [1, 2, 3, 7, 10]
    assert every.words.tolist() == [0, 1, 1, 2, 3]


def test_words_that_are_cut_or_have_no_piece_are_told() -> None:
    assert unread_words(5, [window(0, 2), window(2, 3)]) == {1, 4}


def test_given_words_are_read_as_in_running_text(real_data: Path) -> None:
    """ModernBERT#149, transformers#14305, #12665: a word begins with its space and stays whole."""
    tokenizer = load_tokenizer(real_data / "tokenizers" / "roberta")
    words = ["The", "18th", "of", "May"]
    ((windows,), _) = tokenizer.encode_words([words], policy=None)
    decided = decided_words(windows)
    pieces = {
        word: tokenizer.tokens(windows[0].ids[place] for place in places)
        for word, (_, places) in decided.items()
    }
    assert pieces == {0: ["The"], 1: ["Ġ18", "th"], 2: ["Ġof"], 3: ["ĠMay"]}
