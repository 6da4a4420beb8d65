"""How good a model is on text that was held out, while it is pretrained and afterwards.

The batches and their masks are fixed: the same folder gives the same number twice, at any step, on
any number of ranks. Perplexity is e to the mean loss of a masked token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bothways.inference.predictor import evaluating
from bothways.model.layout import Batch
from bothways.training.masked_lm import MASKED, ORIGINALS
from bothways.training.objectives import Objective
from bothways.training.runtime import Runtime, seeded

# Of everything that is drawn in an evaluation; no run's seed, so that runs can be compared.
HELD_OUT_SEED = 0


def score_held_out(
    objective: Objective, batches: Sequence[Batch], runtime: Runtime
) -> dict[str, float]:
    """The means of an objective over batches, dropout off.

    Args:
        objective: its parts are what is scored.
        batches: with masks.
        runtime: its ranks share the batches.

    Returns:
        `loss`, as in training, `perplexity` of the masked tokens, and the objective's parts.
    """
    parts = objective.parts
    totals = torch.zeros(2, len(parts), dtype=torch.float64)
    with evaluating(objective), torch.no_grad():
        for first in range(0, len(batches), runtime.num_ranks):
            number = first + runtime.rank
            counted = number < len(batches)
            # All ranks run the encoder equally often: its weights may be spread over them.
            batch = batches[number if counted else 0].to(runtime.device)
            with (
                seeded(HELD_OUT_SEED, number, device=runtime.device),
                runtime.forward(),
            ):
                sums = objective(batch).double().cpu()
            if counted:
                totals[0] += sums
                totals[1] += torch.tensor(objective.counts(batch), dtype=torch.float64)
    found = runtime.sum(totals.flatten().tolist())
    means = {
        part.name: total / max(count, 1.0)
        for part, total, count in zip(parts, found[: len(parts)], found[len(parts) :], strict=True)
    }
    loss = sum(part.weight * means[part.name] for part in parts)
    perplexity = math.exp(min(means["masked_lm"], 700.0))  # beyond, it is no number
    losses = sum(part.weight > 0.0 for part in parts)
    others = {
        part.name: means[part.name] for part in parts if not (losses == 1 and part.weight > 0.0)
    }
    return {"loss": loss, "perplexity": perplexity, **others}


def unigram_loss(counts: NDArray[np.int64], batches: Sequence[Batch]) -> float:
    """The loss of who knows nothing but how frequent each piece is, on the same masked tokens.

    Args:
        counts: how often each id stands in the training text; one is added to each.
        batches: as scored.
    """
    smooth = counts + 1.0
    losses = -np.log(smooth / smooth.sum())
    originals = [
        batch.targets[ORIGINALS].numpy() for batch in batches if len(batch.targets[MASKED])
    ]
    return float(losses[np.concatenate(originals)].mean()) if originals else math.nan
