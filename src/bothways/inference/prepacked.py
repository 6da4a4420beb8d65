"""Fused and prepacked copies of weights, for inference on a CPU.

oneDNN's linear runs faster on weights laid out for it beforehand, with the activation fused, and
gives each row the same bits however many rows there are (two or more; a single row is doubled).
Layers that have int8 weights (`int8_layers.py`) run on those.
`install` puts a fast path in front of each projection of an encoder or head. The modules and
their parameters stay what they are: `state_dict`, peft and captum see no difference. A copy is
keyed by identity, version and memory of each parameter it was made from, is made again when one
changes or any optimizer has taken a step, and is dropped when its module is called in training.
Wherever the fast path does not
apply (training, gradients, autocast, other devices and types, wrapped or hooked layers, export),
the plain module runs. One change cannot be seen: of values through `.data`, which torch does not
count; change them under `torch.no_grad()`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from bothways.inference.changes import Known
from bothways.inference.int8 import Int8Linear, Int8Weight
from bothways.inference.int8_layers import attached, int8_of
from bothways.model.attention import Attention
from bothways.model.config import Activation
from bothways.model.disentangled import Distances, RelativeScores, RelativeTable
from bothways.model.feedforward import FeedForward
from bothways.model.linear import Linear, has_onednn

# Name and algorithm of each activation in oneDNN's fused linear.
_FUSED: dict[Activation, tuple[str, str]] = {
    "gelu": ("gelu", "none"),
    "relu": ("relu", ""),
    "tanh": ("tanh", ""),
    "identity": ("none", ""),
}

Module = TypeVar("Module", bound=nn.Module)


def available() -> bool:
    """Whether the torch at hand has oneDNN's prepacked linear."""
    return has_onednn() and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


class PackedLinear:
    """One weight matrix, laid out for oneDNN.

    Args:
        weight: (out, in) float32.
        bias: (out,) or None.
        activation: fused after the product.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation) -> None:
        self.bias = None if bias is None else bias.detach()
        self.activation = _FUSED[activation]
        # The hint is a typical number of rows; the layout chosen serves any number.
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 1024)

    def __call__(self, rows: Tensor) -> Tensor:
        """activation(rows weight^T + bias), (..., out)."""
        if rows.numel() == rows.shape[-1]:  # one row takes another kernel, with other bits
            return self._product(rows.reshape(1, -1).repeat(2, 1))[0].view(*rows.shape[:-1], -1)
        return self._product(rows)

    def _product(self, rows: Tensor) -> Tensor:
        name, algorithm = self.activation
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self.weight, self.bias, name, [], algorithm
        )
        return result


Packed = PackedLinear | Int8Linear


def _pack(layers: Sequence[nn.Linear], activation: Activation) -> Packed:
    """Layers that read the same rows as one product, in int8 where all of them are.

    An absent bias is zero where another is there.
    """
    biases: list[Tensor | None] = [layer.bias for layer in layers]
    bias = None
    if any(each is not None for each in biases):
        whole = [
            layer.weight.new_zeros(layer.out_features) if each is None else each.detach()
            for layer, each in zip(layers, biases, strict=True)
        ]
        bias = torch.cat(whole)
    int8 = [weight for weight in map(int8_of, layers) if weight is not None]
    if len(int8) == len(layers):
        return Int8Linear(Int8Weight.joined(int8), bias, activation)
    return PackedLinear(torch.cat([layer.weight.detach() for layer in layers]), bias, activation)


class _FastPath(Generic[Module]):
    """A callable that stands in front of a module's method.

    Subclasses say which linear layers they read, how to run fast and how to run plainly.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._made_from: list[Known] = []
        self._int8: list[object] = []
        self._packed: Any = None

    def linears(self) -> tuple[nn.Module, ...]:
        """The linear layers whose weights are copied."""
        raise NotImplementedError

    def tables(self) -> tuple[nn.Module, ...]:
        """Other modules whose weights are in the copies."""
        return ()

    def pack(self) -> Any:
        """Copies of the weights as they are now."""
        raise NotImplementedError

    def packed(self, states: Tensor) -> Any | None:
        """The copies, made anew where a parameter changed; None where the plain path must run."""
        if self.module.training or torch.compiler.is_compiling():
            self._packed, self._made_from = None, []
            return None
        if torch.is_grad_enabled() or states.dtype != torch.float32 or not states.is_cpu:
            return None
        linears = self.linears()
        if not all(map(_is_plain, linears)) or torch.is_autocast_enabled("cpu"):
            return None
        read = (*linears, *self.tables())
        parameters = [parameter for module in read for parameter in module.parameters()]
        int8 = [attached(linear) for linear in linears]
        if self._packed is None or int8 != self._int8 or not self._unchanged(parameters):
            if any(parameter.dtype != torch.float32 for parameter in parameters):
                return None
            self._packed, self._int8 = self.pack(), int8
            self._made_from = [Known(parameter) for parameter in parameters]
        return self._packed

    def _unchanged(self, parameters: list[nn.Parameter]) -> bool:
        return len(parameters) == len(self._made_from) and all(
            known.is_still(parameter)
            for parameter, known in zip(parameters, self._made_from, strict=True)
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> _FastPath[Module]:
        return type(self)(copy.deepcopy(self.module, memo))

    def __reduce__(self) -> tuple[type, tuple[Module]]:
        return type(self), (self.module,)


class FastLinear(_FastPath[Linear]):
    """In front of `Linear.forward`."""

    def linears(self) -> tuple[nn.Module, ...]:
        """The layer itself."""
        return (self.module,)

    def pack(self) -> Packed:
        """Its weight."""
        return _pack((self.module,), "identity")

    def __call__(self, rows: Tensor) -> Tensor:
        """The layer's output."""
        packed: Packed | None = self.packed(rows)
        return Linear.forward(self.module, rows) if packed is None else packed(rows)


class FastProjection(_FastPath[Attention]):
    """In front of `Attention.project`: query, key and value in one product."""

    def linears(self) -> tuple[nn.Module, ...]:
        """Query, key and value."""
        return self.module.query, self.module.key, self.module.value

    def pack(self) -> Packed:
        """The three weights under one another; an absent bias is zero."""
        return _pack((self.module.query, self.module.key, self.module.value), "identity")

    def __call__(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, (T, heads, head_size) each, views of one tensor."""
        packed = self.packed(states)
        if packed is None:
            return Attention.project(self.module, states)
        rows = packed(states).view(-1, 3, self.module.num_heads, self.module.head_size)
        query, key, value = rows.unbind(1)
        return query, key, value


class FastFeedForward(_FastPath[FeedForward]):
    """In front of `FeedForward.forward`: the activation fused into the first product."""

    def linears(self) -> tuple[nn.Module, ...]:
        """Input, output and, where there is one, gate."""
        layers = (self.module.input, self.module.output)
        return layers if self.module.gate is None else (*layers, self.module.gate)

    def pack(self) -> tuple[Packed, Packed, Packed | None]:
        """Input with its activation, output, gate."""
        module = self.module
        return (
            _pack((module.input,), module.activation),
            _pack((module.output,), "identity"),
            None if module.gate is None else _pack((module.gate,), "identity"),
        )

    def __call__(self, states: Tensor) -> Tensor:
        """The network's output, token by token."""
        packed = self.packed(states) if self.module.activation in _FUSED else None
        if packed is None or self.module.dropout.training:
            return FeedForward.forward(self.module, states)
        first, second, gate = packed
        inner: Tensor = first(states)
        output: Tensor = second(inner if gate is None else inner.mul_(gate(states)))
        return output


class FastRelative(_FastPath[RelativeScores]):
    """In front of `RelativeScores.project`: the table is projected once, then looked up."""

    def __init__(self, module: RelativeScores) -> None:
        super().__init__(module)
        self._linears: tuple[nn.Module | None, ...] = ()
        self._tables: tuple[RelativeTable, ...] = ()

    def linears(self) -> tuple[nn.Module, ...]:
        """The projections of relative keys and queries, of this call."""
        return tuple(linear for linear in self._linears if linear is not None)

    def tables(self) -> tuple[nn.Module, ...]:
        """The table of distances, of this call."""
        return self._tables

    def pack(self) -> tuple[Tensor | None, ...]:
        """Every row of the table, projected."""
        (table,) = self._tables
        rows = table.rows(torch.arange(table.vectors.num_embeddings))
        return tuple(None if linear is None else linear(rows) for linear in self._linears)

    def __call__(
        self, distances: Distances, *, query: nn.Module, key: nn.Module
    ) -> tuple[Tensor | None, Tensor | None]:
        """Relative keys and queries of the distances that occur."""
        self._linears = self.module.projections(query=query, key=key)
        self._tables = (distances.table,)
        packed = self.packed(distances.vectors)
        if packed is None or self.module.dropout.training:
            return RelativeScores.project(self.module, distances, query=query, key=key)
        keys, queries = (
            None if rows is None else rows.index_select(0, distances.index) for rows in packed
        )
        return keys, queries


def install(module: nn.Module) -> None:
    """Put a fast path in front of every projection below a module; harmless to call twice."""
    if not available():
        return
    for child in module.modules():
        if isinstance(child, Attention):
            _override(child, "project", FastProjection)
        elif isinstance(child, RelativeScores):
            _override(child, "project", FastRelative)
        elif isinstance(child, FeedForward):
            _override(child, "forward", FastFeedForward)
        elif type(child) is Linear:
            _override(child, "forward", FastLinear)


def uninstall(module: nn.Module) -> None:
    """Take the fast paths away."""
    for child in module.modules():
        for name in ("project", "forward"):
            if isinstance(child.__dict__.get(name), _FastPath):
                del child.__dict__[name]


def _override(module: nn.Module, method: str, fast: type[_FastPath[Any]]) -> None:
    if method not in module.__dict__:
        module.__dict__[method] = fast(module)


def _is_plain(linear: nn.Module) -> bool:
    """Whether calling a layer does the product and nothing else.

    Not so where an adapter wraps it, a hook watches it or makes its weight, or a library has put a
    forward of its own in its place.
    """
    return (
        type(linear) is Linear
        and not linear._forward_hooks
        and not linear._forward_pre_hooks
        and isinstance(linear.__dict__.get("forward"), FastLinear | None)
    )
