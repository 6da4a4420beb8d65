"""`bothways tokenizer train`: a vocabulary from raw text."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bothways.cli.output import Output
from bothways.errors import CheckpointError, UnsupportedModelError, nearest
from bothways.files import names_in

# The algorithm that the published tokenizers of each kind were trained with.
_USUAL: dict[str, Literal["wordpiece", "bpe", "unigram"]] = {
    "wordpiece": "wordpiece",
    "byte_bpe": "bpe",
    "sentencepiece": "unigram",
}


@dataclass(frozen=True)
class Settings:
    """Learn a tokenizer from raw text.

    Attributes:
        input: text, jsonl or parquet files, or data sets on the hub (owner/name:subset:split).
        output: the folder to write; transformers reads it too.
        vocab_size: pieces, special tokens included.
        type: the algorithm; unset: the one of the family.
        family: whose special tokens and template are used.
        lowercase: turn capitals into small letters before anything else.
        text: column of the text in files of rows; unset: text, or the only one.
        encoding: of the characters of the files.
        overwrite: replace a tokenizer that is there.
    """

    input: tuple[str, ...]
    output: Path
    vocab_size: int
    type: Literal["wordpiece", "bpe", "unigram"] | None = None
    family: str = "bert"
    lowercase: bool = False
    text: str | None = None
    encoding: str = "utf-8"
    overwrite: bool = False


def run(settings: Settings) -> Output:
    """Read, learn and write."""
    from bothways.data.corpus import Corpus
    from bothways.families.registry import FAMILIES
    from bothways.tokenization.train import train_tokenizer

    known = {name: spec.tokenizer for name, spec in FAMILIES.items() if spec.tokenizer is not None}
    recipe = known.get(settings.family)
    if recipe is None:
        raise UnsupportedModelError(
            f"there is no family {settings.family!r} with a tokenizer to learn; "
            f"{nearest(settings.family, known)}"
        )
    if names_in(settings.output) and not settings.overwrite:
        raise CheckpointError(
            f"{settings.output} is not empty; give another folder, or --overwrite"
        )
    algorithm = settings.type or _USUAL.get(recipe.kind, "bpe")
    # Lines, whatever the documents: a vocabulary does not depend on where they end.
    lines = Corpus(settings.input, document="line", text=settings.text, encoding=settings.encoding)
    start = time.perf_counter()
    tokenizer = train_tokenizer(
        lines,
        algorithm=algorithm,
        vocab_size=settings.vocab_size,
        recipe=recipe,
        lowercase=settings.lowercase,
    )
    tokenizer.save(settings.output)
    seconds = time.perf_counter() - start
    return Output(
        f"{settings.output}: {tokenizer.vocab_size:,} pieces ({algorithm}, special tokens of "
        f"{settings.family}) in {seconds:.1f} s",
        {
            "output": str(settings.output),
            "type": algorithm,
            "family": settings.family,
            "vocabulary": tokenizer.vocab_size,
            "special_tokens": dict(tokenizer.special_tokens),
            "fingerprint": tokenizer.fingerprint,
            "seconds": seconds,
        },
    )
