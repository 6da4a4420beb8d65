"""`bothways embed`: texts of a file to vectors in a .npy file, streamed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bothways.cli.inputs import ColumnSettings, open_model, texts
from bothways.cli.output import Output
from bothways.cli.progress import counting
from bothways.config import CommonSettings
from bothways.tokenization.encoding import Ledger


@dataclass(frozen=True)
class Settings:
    """Turn texts into vectors.

    Attributes:
        model: folder or hub name.
        input: a data file, or a .txt file with a text a line.
        output: the .npy file to write: float32 (texts, dimension), in input order.
        prompt: name of a prompt of the model, or a text put before each input.
        pooling: how token states become a vector; unset: as the model says, else mean.
        normalize: whether vectors get length 1; unset: as the model says.
        overwrite: replace an output that exists.
    """

    model: str
    input: Path
    output: Path
    prompt: str | None = None
    pooling: Literal["cls", "mean", "max"] | None = None
    normalize: bool | None = None
    overwrite: bool = False
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Embed and write."""
    from bothways.cli.files import claim, npy_writer

    start = time.perf_counter()
    claim(settings.output, overwrite=settings.overwrite, source=settings.input, suffix=".npy")
    model = open_model(settings.model, settings.common)
    ledger = Ledger()
    with npy_writer(settings.output) as write, counting("texts") as count:
        for part in model.embed_stream(
            texts(settings.input, settings.columns, settings.common),
            prompt=settings.prompt,
            pooling=settings.pooling,
            normalize=settings.normalize,
            policy=model.policy(settings.common.max_length, settings.common.policy),
            batch_tokens=settings.common.batch_tokens,
            on_batch=count,
        ):
            write(part.vectors)
            ledger = ledger + part.ledger
    seconds = time.perf_counter() - start
    dimension = model.dimension(settings.pooling)
    return Output(
        f"{settings.output}: {ledger.texts} vectors of {dimension} numbers in {seconds:.1f} s\n"
        + ledger.sentence(),
        {
            "model": settings.model,
            "texts": ledger.texts,
            "dimension": dimension,
            "seconds": seconds,
            "bit_invariant": model.bit_invariant,
            "ledger": ledger.as_dict(),
        },
    )
