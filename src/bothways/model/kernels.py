"""softmax(q k) v behind one signature.

`attend` picks a kernel; `attend_eager` is the definition, and every other kernel is tested
against it. On a packed layout the eager and grouped kernels work through groups of sequences of
equal length, so that no score is computed against padding. On a CUDA device in half precision
torch's variable-length kernel takes the whole row at once. A rectangular layout has one kernel,
with a mask, for export, compile and static shapes. Who wants the weights calls `attend_eager`.

Dimension letters: T tokens, n sequences of a group, L their length, h heads, d head size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bothways.model.dropout import dropout as drop
from bothways.model.layout import Layout

# A function of the group's queries and keys, (n, h, L, d) each, to scores that are added before
# the softmax, (n, h, L, L) or a shape that broadcasts to it. Rectangles are one group.
ScoreBias = Callable[[Tensor, Tensor], Tensor]


# Local layers go block by block when a sequence is longer than this many windows; in shorter ones
# the blocks' overlap costs more than it saves.
_BANDED_FROM = 4


# Windows and a fixed split came to torch's variable-length kernel with this version.
_VARLEN_THERE = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)


@dataclass(frozen=True)
class Attended:
    """What attention returns.

    Attributes:
        values: (T, h, d) mixed values.
        weights: per sequence (h, length, length), before dropout; None from kernels that do not
            make them.
    """

    values: Tensor
    weights: tuple[Tensor, ...] | None = None


def attend(
    query: Float[Tensor, "T h d"],
    key: Float[Tensor, "T h d"],
    value: Float[Tensor, "T h d"],
    layout: Layout,
    *,
    scale: float,
    window: int | None = None,
    bias: ScoreBias | None = None,
    dropout: float = 0.0,
) -> Attended:
    """Attention within each sequence of the layout.

    Args:
        query, key, value: projected tokens, split into heads.
        layout: which tokens belong together.
        scale: factor on q k, usually head_size ** -0.5.
        window: i attends to j where |i - j| <= window; None for all.
        bias: scores added before the softmax.
        dropout: rate on the weights; 0 outside training.
    """
    if not layout.is_packed:
        return Attended(_rectangular(query, key, value, layout, scale, window, bias, dropout))
    if _varlen_fits(query, bias, dropout):
        return Attended(_varlen(query, key, value, layout, scale, window))
    if dropout > 0.0:
        # torch's fused CPU kernel has no dropout; its fallback is slower than these few lines.
        return attend_eager(
            query, key, value, layout, scale=scale, window=window, bias=bias, dropout=dropout
        )
    return Attended(_grouped(query, key, value, layout, scale, window, bias))


def attend_eager(
    query: Float[Tensor, "T h d"],
    key: Float[Tensor, "T h d"],
    value: Float[Tensor, "T h d"],
    layout: Layout,
    *,
    scale: float,
    window: int | None = None,
    bias: ScoreBias | None = None,
    dropout: float = 0.0,
) -> Attended:
    """The definition: softmax(scale q k + bias) v, written out. Arguments as in `attend`."""
    if not layout.is_packed:
        return _eager_rectangle(query, key, value, layout, scale, window, bias, dropout)
    outputs = []
    weights: dict[int, Tensor] = {}
    for group in layout.groups:
        q, k, v = (group.take(x).transpose(1, 2) for x in (query, key, value))  # (n, h, L, d)
        probabilities = _probabilities(q, k, scale, bias, band(group.length, window, q.device))
        weights.update(zip(group.sequences, probabilities, strict=True))
        mixed = drop(probabilities, dropout) @ v
        outputs.append(mixed.transpose(1, 2))  # (n, L, h, d)
    ordered = tuple(weights[sequence] for sequence in range(layout.num_sequences))
    return Attended(layout.merge(outputs), ordered)


def band(length: int, window: int | None, device: torch.device) -> Tensor | None:
    """(L, L) True where |i - j| <= window; None when that is everywhere."""
    if window is None or length <= window + 1:
        return None
    index = torch.arange(length, device=device)
    return (index[:, None] - index[None, :]).abs() <= window


def _probabilities(
    q: Tensor, k: Tensor, scale: float, bias: ScoreBias | None, mask: Tensor | None
) -> Tensor:
    scores = (q * scale) @ k.transpose(-1, -2)  # (n, h, L, L)
    if bias is not None:
        scores = scores + bias(q, k)
    if mask is not None:
        # The lowest finite number and not -inf: a row that keeps nothing stays finite.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1)


def _grouped(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Layout,
    scale: float,
    window: int | None,
    bias: ScoreBias | None,
) -> Tensor:
    """Fused attention over each group of equal length."""
    outputs = []
    for group in layout.groups:
        q, k, v = (group.take(x).transpose(1, 2) for x in (query, key, value))  # (n, h, L, d)
        if window is not None and bias is None and group.length > _BANDED_FROM * window:
            outputs.append(_banded(q, k, v, scale, window).transpose(1, 2))
            continue
        mask = band(group.length, window, q.device)
        if bias is not None:
            added = bias(q, k)
            if mask is not None:
                added = added.masked_fill(~mask, torch.finfo(added.dtype).min)
            mask = added
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        outputs.append(mixed.transpose(1, 2))  # (n, L, h, d)
    return layout.merge(outputs)


def _banded(q: Tensor, k: Tensor, v: Tensor, scale: float, window: int) -> Tensor:
    """Local attention in blocks of `window` queries, each against the 3 windows about it.

    Work and memory grow with the length, not with its square.
    """
    n, heads, length, size = q.shape
    count = -(-length // window)
    missing = count * window - length
    blocks = F.pad(q, (0, 0, 0, missing)).view(n, heads, count, window, size)

    def around(x: Tensor) -> Tensor:
        wide = F.pad(x, (0, 0, window, window + missing))
        return wide.unfold(2, 3 * window, window).transpose(-1, -2)  # (n, h, count, 3 window, d)

    def flat(x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(n * count, heads, x.shape[3], size)

    first = torch.arange(count, device=q.device)[:, None, None] * window
    row = first + torch.arange(window, device=q.device)[None, :, None]
    column = first + torch.arange(-window, 2 * window, device=q.device)[None, None, :]
    mask = ((row - column).abs() <= window) & (column >= 0) & (column < length)
    # A padded query at the end may see nothing; let it see itself, its row is cut off below.
    mask = (mask | (row == column))[None].expand(n, -1, -1, -1).reshape(n * count, 1, window, -1)
    mixed = F.scaled_dot_product_attention(
        flat(blocks), flat(around(k)), flat(around(v)), attn_mask=mask, scale=scale
    )
    mixed = mixed.view(n, count, heads, window, size).transpose(1, 2)
    return mixed.reshape(n, heads, count * window, size)[:, :, :length]


def _varlen_fits(query: Tensor, bias: ScoreBias | None, dropout: float) -> bool:
    return (
        query.is_cuda
        and _VARLEN_THERE
        and query.dtype in (torch.float16, torch.bfloat16)
        and bias is None
        and dropout == 0.0
        # What flash attention asks for: an Ampere device or later, and these head sizes.
        and torch.cuda.get_device_capability(query.device) >= (8, 0)
        and query.shape[-1] <= 256
        and query.shape[-1] % 8 == 0
    )


def _varlen(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, scale: float, window: int | None
) -> Tensor:
    """Variable-length attention of torch (CUDA, half precision)."""
    from torch.nn.attention.varlen import varlen_attn

    size = (-1, -1) if window is None else (window, window)
    mixed = varlen_attn(
        query,
        key,
        value,
        layout.starts,
        layout.starts,
        layout.longest,
        layout.longest,
        scale=scale,
        window_size=size,
        num_splits=1,  # a text's bits then do not depend on the longest one beside it
    )
    assert isinstance(mixed, Tensor)
    return mixed


def _rectangle_mask(layout: Layout, window: int | None) -> Tensor:
    """(B, 1, L, L) or (B, 1, 1, L): True where a key may be seen."""
    assert layout.mask is not None
    mask = layout.mask[:, None, None, :]
    if window is None:
        return mask
    # Distances count kept tokens, so that a rectangle with holes equals the packed row.
    index = layout.positions.view(layout.mask.shape)
    near = (index[:, :, None] - index[:, None, :]).abs() <= window
    return mask & near[:, None]


def _to_rectangle(x: Tensor, layout: Layout) -> Tensor:
    assert layout.mask is not None
    batch, length = layout.mask.shape
    return x.view(batch, length, *x.shape[1:]).transpose(1, 2)  # (B, h, L, d)


def _rectangular(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Layout,
    scale: float,
    window: int | None,
    bias: ScoreBias | None,
    dropout: float,
) -> Tensor:
    """One fused call over the whole rectangle, with a mask."""
    q, k, v = (_to_rectangle(x, layout) for x in (query, key, value))
    mask = _rectangle_mask(layout, window)
    if bias is not None:
        added = bias(q, k)
        mask = added.masked_fill(~mask, torch.finfo(added.dtype).min)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)
    return mixed.transpose(1, 2).reshape(query.shape)


def _eager_rectangle(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Layout,
    scale: float,
    window: int | None,
    bias: ScoreBias | None,
    dropout: float,
) -> Attended:
    q, k, v = (_to_rectangle(x, layout) for x in (query, key, value))
    probabilities = _probabilities(q, k, scale, bias, _rectangle_mask(layout, window))
    mixed = drop(probabilities, dropout) @ v
    values = mixed.transpose(1, 2).reshape(query.shape)
    assert layout.mask is not None
    # Only kept rows and columns, so that weights do not depend on the form.
    kept = [
        weights[:, row][:, :, row] for weights, row in zip(probabilities, layout.mask, strict=True)
    ]
    return Attended(values, tuple(kept))
