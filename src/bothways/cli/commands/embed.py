"""`bothways embed`: texts of a file to vectors, streamed: a .npy file, or .npz where sparse."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bothways.cli.inputs import ColumnSettings, open_model, texts
from bothways.cli.output import Output
from bothways.cli.progress import counting
from bothways.config import CommonSettings
from bothways.errors import UsageError, counted
from bothways.tokenization.encoding import Ledger

if TYPE_CHECKING:
    from bothways.inference.model import Model


@dataclass(frozen=True)
class Settings:
    """Turn texts into vectors.

    Attributes:
        model: folder or hub name.
        input: a data file, or a .txt file with a text a line.
        output: the .npy file to write: float32 (texts, dimension), in input order; with --sparse
            an .npz file in compressed rows, as scipy.sparse.load_npz reads it.
        sparse: a weight for each word of the vocabulary, by the masked-LM head.
        prompt: name of a prompt of the model, or a text put before each input.
        pooling: how token states become a vector; unset: as the model says, else mean.
        normalize: whether vectors get length 1; unset: as the model says.
        overwrite: replace an output that exists.
    """

    model: str
    input: Path
    output: Path
    sparse: bool = False
    prompt: str | None = None
    pooling: Literal["cls", "mean", "max"] | None = None
    normalize: bool | None = None
    overwrite: bool = False
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Embed and write."""
    from bothways.cli.files import claim, npy_writer

    if settings.sparse:
        return _sparse(settings)
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
        f"{settings.output}: {counted(ledger.texts, 'vector')} of {dimension} numbers in "
        f"{seconds:.1f} s\n{ledger.sentence()}",
        _facts(settings, model, seconds, ledger, dimension=dimension),
    )


def _facts(
    settings: Settings, model: Model, seconds: float, ledger: Ledger, **more: float
) -> Iterator[dict[str, Any]]:
    """The one object for `--json`, made where it is asked for: the probe for bits takes time."""
    yield {
        "model": settings.model,
        "texts": ledger.texts,
        **more,
        "seconds": seconds,
        "bit_invariant": model.bit_invariant,
        "ledger": ledger.as_dict(),
    }


def _sparse(settings: Settings) -> Output:
    """The same for sparse vectors, which are small enough to be held until all are made."""
    from scipy.sparse import save_npz

    from bothways.cli.files import claim
    from bothways.files import Staged

    start = time.perf_counter()
    given = {"--prompt": settings.prompt, "--pooling": settings.pooling}
    given["--normalize"] = None if settings.normalize is None else str(settings.normalize)
    if wrong := [flag for flag, value in given.items() if value is not None]:
        raise UsageError(
            f"{', '.join(wrong)} shapes dense vectors, and --sparse makes others; leave one out"
        )
    common, output = settings.common, settings.output
    claim(output, overwrite=settings.overwrite, source=settings.input, suffix=".npz")
    model = open_model(settings.model, common)
    with counting("texts") as count:
        made = model.embed_sparse(
            texts(settings.input, settings.columns, common),
            max_length=common.max_length,
            policy=common.policy,
            batch_tokens=common.batch_tokens,
            on_batch=count,
        )
    with Staged(output.parent) as files, files.stream(output.name) as stream:
        save_npz(stream, made.vectors)
    seconds = time.perf_counter() - start
    count_texts, words = made.vectors.shape
    mean = made.vectors.nnz / max(count_texts, 1)
    return Output(
        f"{output}: {counted(count_texts, 'vector')} of {words:,} words, {mean:.0f} above 0 on "
        f"average, in {seconds:.1f} s\n{made.ledger.sentence()}",
        _facts(settings, model, seconds, made.ledger, dimension=words, above_zero=mean),
    )
