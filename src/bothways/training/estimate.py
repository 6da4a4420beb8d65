"""How much arithmetic a step takes and how much the machine can do.

`peak_share` of a log line is the first over the second: FLOPs of the matrix products of forward
and backward, a second, as a share of what `matrix_peak` measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache

import torch

from bothways.model.config import EncoderConfig
from bothways.model.linear import has_onednn, product

# Wide enough that a product runs at the machine's best, small enough to take milliseconds.
_CPU_SIZE, _GPU_SIZE = 1024, 8192
_ROUNDS = 6


def forward_flops(
    config: EncoderConfig, lengths: Sequence[int], *, last_rows: int | None = None
) -> float:
    """FLOPs of the matrix products of one forward pass of the encoder.

    A product of (a, b) with (b, c) counts 2abc. Embedding look-ups, norms and activations are
    left out, as is usual; so are the heads, whose share is small outside of language modelling.

    Args:
        config: the encoder.
        lengths: tokens of each sequence.
        last_rows: tokens whose states the last layer is asked for; None for all.
    """
    hidden, inner = config.hidden_size, config.feedforward.size
    width = config.attention.num_heads * config.attention.head_size
    tokens = float(sum(lengths))
    after_mixing = hidden * width + (3 if config.feedforward.gated else 2) * hidden * inner
    projections = 3 * hidden * width + after_mixing
    depth = sum(len(blocks) for blocks in config.block_order)
    total = 2.0 * projections * tokens * depth
    if last_rows is not None:
        total -= 2.0 * after_mixing * (tokens - last_rows)
    kinds = [
        kind
        for kind, blocks in zip(config.layer_kinds, config.block_order, strict=True)
        for _ in blocks
    ]
    reach = 2 * config.attention.window + 1
    for kind in kinds:
        # Scores and mixing: two products of (length, width) with (width, length).
        pairs = sum(n * (n if kind == "global" else min(n, reach)) for n in lengths)
        total += 4.0 * width * pairs
    if config.embeddings.size != hidden:
        total += 2.0 * config.embeddings.size * hidden * tokens
    return total


def head_flops(config: EncoderConfig, rows: int) -> float:
    """FLOPs of the matrix products of a masked-LM head over so many tokens, one forward pass."""
    hidden, size = config.hidden_size, config.embeddings.size
    return 2.0 * rows * size * (hidden + config.embeddings.vocab_size)


def matrix_peak(device: torch.device, dtype: torch.dtype = torch.float32) -> float:
    """FLOP/s of the best of a few large square matrix products, in about a tenth of a second.

    On a CPU the faster of torch's own product and oneDNN's, which are far apart on some processors.

    Measured once a process for each number of threads.

    Args:
        device: where to multiply.
        dtype: of the factors.
    """
    return _measure_peak(device, dtype, torch.get_num_threads())


@lru_cache
def _measure_peak(device: torch.device, dtype: torch.dtype, threads: int) -> float:
    del threads  # only tells measurements apart
    size = _CPU_SIZE if device.type == "cpu" else _GPU_SIZE
    # Values do not matter to the speed; ones draw nothing from the global generator.
    left = torch.ones(size, size, device=device, dtype=dtype)
    right, out = torch.ones_like(left), torch.empty_like(left)
    works: list[Callable[[], object]] = [lambda: torch.mm(left, right, out=out)]
    if device.type == "cpu" and dtype == torch.float32 and has_onednn():
        works.append(lambda: product(left, right))
    best = float("inf")
    for work in works * _ROUNDS:
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best
