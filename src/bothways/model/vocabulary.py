"""Cross-entropy over a vocabulary, without the table of all logits.

Rows are taken in chunks: a chunk's logits, their softmax and what each contributes to the
gradients are computed in one go, and the logits are forgotten. So the largest intermediate has
`CHUNK_LOGITS` numbers, whatever the batch and the vocabulary, and nothing is computed twice. The
output layer that goes with it is in `heads.py`. torch's own chunked `linear_cross_entropy` has no
count of right guesses, and on a CPU it was measured to take 2.7 times as long.

Dimension letters: R rows, E features, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bothways.model.linear import ROWS, linear, sum_of_outer

# Logits of one chunk: 64 MiB in float32. Fewer rows at a time make the products slower.
CHUNK_LOGITS = 1 << 24


def vocabulary_loss(
    features: Float[Tensor, "R E"],
    weight: Float[Tensor, "V E"],
    bias: Float[Tensor, " V"],
    targets: Int[Tensor, " R"],
    *,
    chunk_logits: int = CHUNK_LOGITS,
) -> tuple[Tensor, Tensor]:
    """The sum of the cross-entropies of rows, and how many of their largest logits are right.

    Products are computed in the type of autocast where that is on; softmax, logarithm and sums in
    float32.

    Args:
        features: what the output layer reads.
        weight, bias: of the output layer; often the token table.
        targets: the right id of each row.
        chunk_logits: most logits held at once; a single row may have more.

    Returns:
        Two scalars; only the first can be differentiated, and only once.

    Example:
        >>> loss, right = vocabulary_loss(features, weight, bias, targets)  # doctest: +SKIP
    """
    loss, right, _ = _apply(features, weight, bias, targets, chunk_logits, None)
    return loss, right


def vocabulary_loss_and_draw(
    features: Float[Tensor, "R E"],
    weight: Float[Tensor, "V E"],
    bias: Float[Tensor, " V"],
    targets: Int[Tensor, " R"],
    *,
    chunk_logits: int = CHUNK_LOGITS,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `vocabulary_loss`, and for each row an id drawn from the softmax of its logits.

    One number of torch's global generator a row decides, so the loop's seeds do.
    """
    places = torch.rand(len(features), 1, device=features.device)
    loss, right, drawn = _apply(features, weight, bias, targets, chunk_logits, places)
    return loss, right, drawn


def _apply(
    features: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    chunk_logits: int,
    places: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    kind = features.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    rows = max(1, chunk_logits // weight.shape[0])
    rows -= rows % ROWS if rows > ROWS else 0
    plan = (rows, dtype, torch.is_grad_enabled())
    apply: Any = _VocabularyLoss.apply  # torch gives it no types
    loss, right, drawn = apply(features, weight, bias, targets, places, plan)
    return loss, right, drawn


class _VocabularyLoss(torch.autograd.Function):
    """Gradients are made in the forward pass, where the logits are at hand."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor, Tensor]:
        features, weight, bias, targets, places, (rows, dtype, recording) = given
        needed = recording and any(ctx.needs_input_grad)
        summing = torch.promote_types(dtype, torch.float32)
        loss = torch.zeros((), device=features.device, dtype=summing)
        right = torch.zeros((), device=features.device)
        drawn = torch.zeros_like(targets if places is not None else targets[:0])
        ctx.found = None
        if needed:
            ctx.found = (
                torch.empty_like(features),
                torch.zeros_like(weight),
                torch.zeros_like(bias),
            )
        # Under autocast each product would cast anew, and the softmax of a chunk would be kept.
        with torch.autocast(features.device.type, enabled=False):
            factor = weight.to(dtype)
            for start in range(0, len(features), rows):
                part = slice(start, start + rows)
                inner, ids = features[part].to(dtype), targets[part][:, None]
                logits = linear(inner, factor, bias.to(dtype)).to(summing)  # (r, V)
                top = logits.amax(1, keepdim=True)
                wanted = logits.gather(1, ids)
                shares = logits.sub_(top).exp_()
                total = shares.sum(1, keepdim=True)
                loss += (total.log() + top - wanted).sum()
                right += (wanted == top).sum()
                if places is not None:
                    # The first id up to which the shares add up to this part of the whole.
                    reached = shares.cumsum(1)
                    at = torch.searchsorted(reached, places[part] * reached[:, -1:])
                    drawn[part] = at.clamp(max=weight.shape[0] - 1)[:, 0]
                if not needed:
                    continue
                # d loss / d logits: the softmax, less one at the target.
                shares.div_(total).scatter_add_(1, ids, torch.full_like(total, -1.0))
                slope = shares.to(dtype)
                of_features, of_weight, of_bias = ctx.found
                of_features[part] = linear(slope, factor.T)
                of_weight += sum_of_outer(slope, inner)
                of_bias += shares.sum(0)
        ctx.mark_non_differentiable(right, drawn)
        return loss, right, drawn

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        if ctx.found is None:
            raise RuntimeError("the gradients of this loss were taken already; compute it again")
        found = [tensor.mul_(given[0]) for tensor in ctx.found]
        ctx.found = None
        return (*found, None, None, None)
