"""The language of texts, and the one that a vocabulary was made for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from bothways.tokenization.tokenizer import Tokenizer

# Texts or pieces that are looked at together; languages of single words are guesses.
CHUNK = 50
# Of the chunks, how many must agree.
AGREEING = 0.6
# What is looked at of a long list.
MOST_TEXTS, MOST_PIECES = 400, 10_000
SHORTEST_PIECE = 4
# What begins a word in vocabularies of WordPiece, byte pairs and SentencePiece.
INSIDE, BEGINS = "##", ("Ġ", "▁")
WORD_END = "</w>"

NAMES = {
    "en": "English",
    "fr": "French",
    "de": "German",
    "es": "Spanish",
    "it": "Italian",
    "nl": "Dutch",
    "pt": "Portuguese",
}


def language_of(texts: Sequence[str]) -> str | None:
    """The language of most texts, as ISO 639-1; None where they do not agree.

    Args:
        texts: any number; some of them are read.

    Example:
        >>> language_of(["le film est une belle histoire", "je ne sais pas pourquoi"])
        'fr'
    """
    step = max(len(texts) // MOST_TEXTS, 1)
    some = texts[::step][:MOST_TEXTS]
    size = max(min(len(some) // 10, 20), 1)
    return _agreed(" ".join(some[at : at + size]) for at in range(0, len(some), size))


def language_of_vocabulary(tokenizer: Tokenizer) -> str | None:
    """The language of most whole words of a vocabulary; None where there are many languages.

    Args:
        tokenizer: of a model.
    """
    pieces = list(tokenizer.vocabulary())
    words = [word for word in map(_word, _beginning(pieces)) if word.isalpha()]
    words = [word for word in words if len(word) >= SHORTEST_PIECE][:MOST_PIECES]
    if len(words) < CHUNK:
        return None
    return _agreed(" ".join(words[at : at + CHUNK]) for at in range(0, len(words), CHUNK))


def mismatch(text_language: str | None, model_language: str | None) -> str | None:
    """A sentence where a model was made for another language than the texts are in; else None."""
    if None in (text_language, model_language) or text_language == model_language:
        return None
    texts, model = (NAMES.get(code or "", code) for code in (text_language, model_language))
    return f"the texts look {texts}, and its vocabulary {model}"


def _agreed(chunks: Iterable[str]) -> str | None:
    from py3langid import classify

    counts = Counter(classify(chunk)[0] for chunk in chunks if chunk.strip())
    if not counts:
        return None
    language, count = counts.most_common(1)[0]
    return str(language) if count >= AGREEING * counts.total() else None


def _beginning(pieces: Sequence[str]) -> list[str]:
    """The pieces that begin a word, where the vocabulary marks them; else all."""
    marked = [piece for piece in pieces if piece.startswith(BEGINS)]
    if 2 * len(marked) > len(pieces) // 4:
        return marked
    return [piece for piece in pieces if not piece.startswith(INSIDE)]


def _word(piece: str) -> str:
    return piece.lstrip("".join(BEGINS)).removesuffix(WORD_END)
