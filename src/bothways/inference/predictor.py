"""Running an encoder over many texts: sort, batch by tokens, run, put back in order.

Pure mechanism: ids in, rows out. What the ids stand for is in `model.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import torch
from torch import Tensor, nn

from bothways.errors import UsageError
from bothways.inference.batches import CPU_BATCH_TOKENS, GPU_BATCH_TOKENS, plan_batches
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.layout import Batch

Item = TypeVar("Item")
Made = TypeVar("Made")

# Texts that are tokenised, sorted and run together; more would cost memory and gain little.
CHUNK_TEXTS = 16_384


def run(
    encoder: Encoder,
    read_out: Callable[[EncoderOutput, Batch], Made],
    ids: Sequence[Sequence[int]],
    *,
    type_ids: Sequence[Sequence[int]] | None = None,
    rows: Callable[[Batch], Tensor | None] | None = None,
    targets: Callable[[list[int]], dict[str, Tensor]] | None = None,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Iterator[tuple[list[int], Made, Batch]]:
    """Outputs batch by batch, longest texts first.

    Args:
        encoder: put into evaluation mode.
        read_out: takes what is wanted from an encoder's output.
        ids: token ids of each text.
        type_ids: segments of each text; None for all zero.
        rows: tokens whose last states `read_out` needs, so that only they are computed.
        targets: of the texts with these indices, what else `read_out` reads in the batch.
        batch_tokens: budget of a batch; None for the device's default.
        on_batch: called with the number of texts done after each batch.

    Yields:
        Indices of the texts, what `read_out` returned, and the batch.
    """
    device = encoder.device
    if batch_tokens is None:
        batch_tokens = CPU_BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS
    with evaluating(encoder):
        for indices in plan_batches([len(piece) for piece in ids], batch_tokens):
            # Not around the yield: whoever takes the outputs, and may stop or fail, is elsewhere.
            with torch.inference_mode():
                batch = Batch.packed(
                    [ids[index] for index in indices],
                    None if type_ids is None else [type_ids[index] for index in indices],
                    targets={} if targets is None else targets(indices),
                ).to(device)
                wanted = None if rows is None else rows(batch)
                result = read_out(encoder(batch, rows=wanted), batch)
            yield indices, result, batch
            if on_batch is not None:
                on_batch(len(indices))


class evaluating:  # noqa: N801 - a context manager, read as a verb
    """Modules in evaluation mode, and back in the mode they were in afterwards."""

    def __init__(self, *modules: nn.Module | None) -> None:
        self.modules = [module for module in modules if module is not None]

    def __enter__(self) -> None:
        """Switch to evaluation; costs nothing where a module already is."""
        self.training = [module for module in self.modules if module.training]
        for module in self.training:
            module.eval()

    def __exit__(self, *error: object) -> None:
        """Switch back."""
        for module in self.training:
            module.train()


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of at most `size` items, in order; reads no further than needed.

    Raises:
        UsageError: for a single text, whose letters are not what was meant.
    """
    if isinstance(items, str):
        raise UsageError(f"expected several texts, got one: {items[:40]!r}; put it into a list")
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
