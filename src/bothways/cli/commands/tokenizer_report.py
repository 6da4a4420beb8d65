"""`bothways tokenizer report`: how a tokenizer breaks the words of a text."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from bothways.cli.output import Output
from bothways.errors import DataError, UsageError


@dataclass(frozen=True)
class Settings:
    """Count pieces per word, what is unknown, and the words of most pieces.

    Attributes:
        tokenizer: folder of a tokenizer or model, or a hub name.
        input: text, jsonl or parquet files, or data sets on the hub (owner/name:subset:split).
        text: column of the text in files of rows; unset: text, or the only one.
        encoding: of the characters of the files.
        longest: how many of the words of most pieces to show.
    """

    tokenizer: str
    input: tuple[str, ...]
    text: str | None = None
    encoding: str = "utf-8"
    longest: int = 10


def run(settings: Settings) -> Output:
    """Read and count."""
    from bothways.checkpoints.hub import find_folder
    from bothways.data.corpus import Corpus
    from bothways.tokenization.fragmentation import fragmentation
    from bothways.tokenization.tokenizer import load_tokenizer

    if settings.longest < 0:
        raise UsageError(f"--longest is {settings.longest}; it must be at least 0")
    tokenizer = load_tokenizer(find_folder(settings.tokenizer))
    lines = Corpus(settings.input, document="line", text=settings.text, encoding=settings.encoding)
    found = fragmentation(tokenizer, lines, num_longest=settings.longest)
    if not found.words:
        raise DataError(f"{', '.join(settings.input)}: there is no text in it")
    rates = {
        "pieces_per_word": found.pieces_per_word,
        "unknown_rate": found.unknown_rate,
        "split_rate": found.split_rate,
        "characters_per_piece": found.characters / max(found.pieces, 1),
    }
    told = [
        f"{found.words:,} words and {found.pieces:,} pieces in {found.texts:,} lines",
        f"pieces per word        {found.pieces_per_word:.3f}",
        f"words split            {found.split_rate:.1%}",
        f"unknown pieces         {found.unknown_rate:.2%}, in {found.words_unknown:,} words",
        f"characters per piece   {rates['characters_per_piece']:.2f}",
    ]
    if found.special_in_text:
        told.append(f"special tokens in the text, read as plain text: {found.special_in_text:,}")
    if found.dropped_characters:
        told.append(f"characters that became no piece: {found.dropped_characters:,}")
    if found.longest:
        told += ["", "words of most pieces"]
        told += [f"  {word.pieces:>4}  {word.word}" for word in found.longest]
    return Output(
        "\n".join(told),
        {"tokenizer": settings.tokenizer, **dataclasses.asdict(found), **rates},
    )
