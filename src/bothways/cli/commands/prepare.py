"""`bothways prepare`: raw text to shards for pretraining."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bothways.cli.output import Output
from bothways.cli.progress import counting
from bothways.data.prepare import PrepareSettings


@dataclass(frozen=True, kw_only=True)
class Settings(PrepareSettings):
    """Tokenise raw text into shards.

    Attributes:
        tokenizer: folder of a tokenizer or model, or a hub name.
    """

    tokenizer: str


def run(settings: Settings) -> Output:
    """Prepare, and say what became of the text."""
    from bothways.checkpoints.hub import find_folder
    from bothways.data.prepare import prepare
    from bothways.tokenization.tokenizer import load_tokenizer

    start = time.perf_counter()
    tokenizer = load_tokenizer(find_folder(settings.tokenizer))
    with counting("documents") as count:
        manifest = prepare(settings, tokenizer, on_unit=lambda unit: count(len(unit.documents)))
    seconds = time.perf_counter() - start
    counts = manifest.counts
    told = (
        f"{settings.output}: {counts['tokens_train']:,} tokens of "
        f"{counts['documents_train']:,} documents, and {counts['tokens_heldout']:,} of "
        f"{counts['documents_heldout']:,} held out, in {seconds:.1f} s"
    )
    notes = [f"  {counts[name]:,} {what}" for name, what in _NOTED.items() if counts.get(name)]
    if unknown := counts["unknown_pieces"]:
        share = f"{unknown / counts['tokens']:.1%}"
        notes.append(f"  {unknown:,} tokens ({share}) stand for what the vocabulary lacks")
    return Output(
        "\n".join([told, *notes]),
        {
            "output": str(settings.output),
            "tokenizer": settings.tokenizer,
            "fingerprint": manifest.fingerprint,
            "counts": dict(counts),
            "seconds": seconds,
        },
    )


_NOTED = {
    "documents_empty": "documents became no token",
    "documents_of_one_token": "documents are one token",
    "documents_near_duplicate": "documents are much like an earlier one and were left out",
    "documents_split": "very long documents are kept in several rows",
    "special_in_text": "special tokens in the text were read as plain text",
    "dropped_characters": "characters became no token",
}
