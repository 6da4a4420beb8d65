"""More words for a vocabulary that is there: each becomes one piece, at the end of the ids.

What becomes of a model's tables is in `training/networks.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tokenizers import AddedToken
from tokenizers import Tokenizer as Engine

from bothways.errors import TokenizerError
from bothways.tokenization.tokenizer import Tokenizer


def with_words(
    tokenizer: Tokenizer, words: Iterable[str]
) -> tuple[Tokenizer, dict[int, list[int]]]:
    """A tokenizer that reads these words as one piece each, where they stand as words.

    A word that is one piece already is left as it is. The space before a word belongs to it where
    pieces carry their space.

    Args:
        tokenizer: stays as it is.
        words: without white space inside.

    Returns:
        The new tokenizer, and for each new id the ids that its word was read as before.

    Raises:
        TokenizerError: for words with white space, or that the tokenizer cannot read; all of them.

    Example:
        >>> bigger, pieces = with_words(tokenizer, ["metformin"])  # doctest: +SKIP
        >>> tokenizer.tokens(pieces[bigger.vocabulary()["metformin"]])  # doctest: +SKIP
        ['met', '##form', '##in']
    """
    listed = list(dict.fromkeys(word.strip() for word in words if word.strip()))
    wrong = [word for word in listed if len(word.split()) > 1]
    # As in running text, where a space stands before a word.
    before, _, _ = tokenizer.encode_ids([f" {word}" for word in listed], policy=None)
    specials = tokenizer.special_ids
    read = {
        word: [piece for piece in ids if piece not in specials]
        for word, ids in zip(listed, before, strict=True)
    }
    unreadable = [word for word, pieces in read.items() if not pieces]
    if wrong or unreadable:
        raise TokenizerError(
            "these cannot be added as words: "
            + ", ".join(map(repr, [*wrong, *unreadable][:10]))
            + "; expected one word a line, without white space, of characters that the tokenizer "
            "knows"
        )
    new = [word for word, pieces in read.items() if len(pieces) > 1]
    _, (files,) = tokenizer.__reduce__()
    engine = Engine.from_str(files.engine.to_str())
    engine.add_tokens([AddedToken(word, single_word=True, lstrip=True) for word in new])
    made = Tokenizer(replace(files, engine=engine))
    vocabulary = made.vocabulary()
    return made, {vocabulary[word]: read[word] for word in new}
