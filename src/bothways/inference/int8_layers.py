"""Which layers of an encoder run in int8.

A layer in int8 keeps its float weight; its codes hang beside it, and the fast path for inference
(`prepacked.py`) takes them. Training, gradients, hooks and other devices see the float weight.
The file that holds the codes is in `int8_files.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from bothways.inference.changes import Known
from bothways.inference.int8 import Int8Weight
from bothways.model.attention import Attention
from bothways.model.encoder import Encoder
from bothways.model.feedforward import FeedForward

_NAME = "int8"  # of the attribute of a layer


@dataclass(frozen=True, eq=False)  # the same only as itself
class _Attached:
    """Codes, and the weight that they were made of."""

    weight: Int8Weight
    known: Known


@dataclass(frozen=True)
class Group:
    """Layers that read the same numbers, and so are in int8 together or not at all.

    Attributes:
        name: as in layers.0.attention.query, of the first of them.
        layers: by their names in the encoder.
    """

    name: str
    layers: Mapping[str, nn.Linear]


def groups(encoder: Encoder) -> list[Group]:
    """Everything in an encoder that can be in int8: the layers of attention and feed-forward."""
    found = []
    for name, module in encoder.named_modules():
        together: tuple[tuple[str, ...], ...] = ()
        if isinstance(module, Attention):
            together = (("query", "key", "value"), ("output",))
        elif isinstance(module, FeedForward):
            together = (("input",) if module.gate is None else ("input", "gate"), ("output",))
        for names in together:
            layers = {f"{name}.{each}": module.get_submodule(each) for each in names}
            plain = {key: each for key, each in layers.items() if isinstance(each, nn.Linear)}
            if len(plain) == len(layers):  # an adapter may stand in the place of a layer
                found.append(Group(next(iter(plain)), plain))
    return found


def layers_of(encoder: Encoder) -> dict[str, nn.Linear]:
    """All layers that can be in int8, by name."""
    return {name: layer for group in groups(encoder) for name, layer in group.layers.items()}


def attach(layer: nn.Linear, weight: Int8Weight) -> None:
    """Let a layer run in int8."""
    exact = layer.weight
    assert isinstance(exact, nn.Parameter)
    vars(layer)[_NAME] = _Attached(weight, Known(exact))


def detach(layer: nn.Linear) -> None:
    """Let a layer run in float again."""
    vars(layer).pop(_NAME, None)


def attached(layer: nn.Module) -> object | None:
    """What hangs beside a layer: the same object as long as nothing was attached anew."""
    return vars(layer).get(_NAME)


def int8_of(layer: nn.Module) -> Int8Weight | None:
    """A layer's weight in int8; None where it has none, or the float weight has changed since."""
    found = attached(layer)
    if not isinstance(found, _Attached) or not isinstance(layer.weight, nn.Parameter):
        return None
    return found.weight if found.known.is_still(layer.weight) else None


def quantised(encoder: Encoder) -> dict[str, Int8Weight]:
    """The weights in int8, by the names of their layers."""
    of_all = {name: int8_of(layer) for name, layer in layers_of(encoder).items()}
    return {name: weight for name, weight in of_all.items() if weight is not None}


@contextmanager
def in_float(encoder: Encoder) -> Iterator[None]:
    """All layers in float, for as long as this lasts."""
    layers = [layer for layer in layers_of(encoder).values() if _NAME in vars(layer)]
    kept = [(layer, vars(layer).pop(_NAME)) for layer in layers]
    try:
        yield
    finally:
        for layer, weight in kept:
            vars(layer)[_NAME] = weight
