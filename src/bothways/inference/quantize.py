"""Which layers of a model can be in int8: all of them, less those that have to go back to float.

What is good enough, the caller says (`training/quantize.py` hands in the judging of the task). The
groups of layers are ordered by what each alone in int8 does to the last states of some texts; if a
model with all groups in int8 is not good enough, the worst of them return to float, and a bisection
finds how many.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from bothways.checkpoints.parts import Parts
from bothways.errors import TaskError, UsageError
from bothways.inference import prepacked
from bothways.inference.int8 import (
    EIGHT_BITS,
    SEVEN_BITS,
    Int8Weight,
    instruction_set,
    largest_exact,
)
from bothways.inference.int8_layers import Group, attach, detach, groups
from bothways.inference.predictor import evaluating
from bothways.model.layout import Batch

Judgement = TypeVar("Judgement")
_LARGEST = {8: EIGHT_BITS, 7: SEVEN_BITS}


@dataclass(frozen=True)
class Found(Generic[Judgement]):
    """A model that is good enough.

    Attributes:
        parts: a copy of the model's; some of its layers run in int8.
        weight_bits: 8 or 7.
        groups: how many there are.
        in_float: those of them that went back, worst first; all, where no model was good enough.
        judgement: of these parts; of the last that was not good enough, where none was.
    """

    parts: Parts
    weight_bits: int
    groups: int
    in_float: tuple[str, ...]
    judgement: Judgement


def weight_bits(wanted: int | None = None) -> int:
    """How many bits weights may have on this machine.

    Args:
        wanted: None for what this processor multiplies exactly.

    Raises:
        UsageError: for another number than 8 or 7, or more than this processor can.
        TaskError: when there is no exact product of int8 here.
    """
    exact = largest_exact()
    if not exact:
        raise TaskError(
            f"this machine ({instruction_set()}) has no exact product of 8-bit integers in torch "
            f"{torch.__version__}, so int8 would be slower than float or wrong; run it in float"
        )
    can = next(bits for bits, largest in _LARGEST.items() if largest <= exact)
    if wanted is not None and wanted not in _LARGEST:
        raise UsageError(f"--weight-bits is {wanted}; it must be 8 or 7")
    if wanted is not None and wanted > can:
        raise UsageError(
            f"--weight-bits is {wanted}, and this processor ({instruction_set()}) adds two "
            f"products in 16 bits: with weights above {exact} the sums saturate; use {can}"
        )
    return wanted or can


def looks(count: int) -> int:
    """The most models that a search over so many groups judges."""
    return 1 + math.ceil(math.log2(max(count, 1)))


def search(
    parts: Parts,
    judge: Callable[[Parts], tuple[bool, Judgement]],
    batches: Sequence[Batch],
    *,
    bits: int,
) -> Found[Judgement]:
    """Put layers into int8, as many as stay good enough.

    Args:
        parts: in float32 on the CPU; left as they are.
        judge: whether a model is good enough, and what else is to be known about it.
        batches: of texts like those that the model is for; looked at only where not all groups
            can be in int8.
        bits: of the weights.

    Raises:
        TaskError: when the model has no such layers.
    """
    made = dataclasses.replace(parts, encoder=copy.deepcopy(parts.encoder).eval())
    prepacked.install(made.encoder)
    every = groups(made.encoder)
    if not every:
        raise TaskError("the encoder has no layers of attention and feed-forward to quantize")
    weights = {
        name: Int8Weight.of(layer.weight, _LARGEST[bits])
        for group in every
        for name, layer in group.layers.items()
    }

    def put(chosen: Sequence[Group]) -> None:
        for group in every:
            for name, layer in group.layers.items():
                attach(layer, weights[name]) if group in chosen else detach(layer)

    put(every)
    good, judgement = judge(made)
    if good:
        return Found(made, bits, len(every), (), judgement)
    order = _worst_first(every, made, batches, put)
    # With `bad` groups in float a model was not good enough; with `enough` it is.
    bad, enough, best = 0, len(order), None
    while enough - bad > 1:
        middle = (bad + enough) // 2
        put(order[middle:])
        good, judgement = judge(made)
        if good:
            enough, best = middle, judgement
        else:
            bad = middle
    put(order[enough:])
    back = tuple(group.name for group in order[:enough])
    return Found(made, bits, len(every), back, judgement if best is None else best)


def _worst_first(
    every: Sequence[Group],
    parts: Parts,
    batches: Sequence[Batch],
    put: Callable[[Sequence[Group]], None],
) -> list[Group]:
    """Groups by how far each alone moves the last states."""
    put(())
    exact = list(_last_states(parts, batches))
    moved = {}
    for group in every:
        put((group,))
        moved[group.name] = sum(
            float((states - wanted).square().sum())
            for states, wanted in zip(_last_states(parts, batches), exact, strict=True)
        )
    return sorted(every, key=lambda group: -moved[group.name])


def _last_states(parts: Parts, batches: Sequence[Batch]) -> Iterator[Tensor]:
    with evaluating(parts.encoder), torch.inference_mode():
        for batch in batches:
            yield parts.encoder(batch).last_hidden
