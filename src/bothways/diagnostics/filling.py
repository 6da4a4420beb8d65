"""`evaluate_filling`: how well a masked language model guesses the tokens of raw text.

No question of `diagnose`: what `evaluate` is for a model that fills masks. Losses of tokens are
found in `surprise.py`; training with masks is in `training/`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.surprise import surprise
from bothways.errors import DataError
from bothways.evaluation.evaluate import versions
from bothways.evaluation.findings import baseline_finding, truncation_finding
from bothways.evaluation.intervals import RESAMPLES, Indices, Units, intervals
from bothways.evaluation.result import Report
from bothways.inference.model import Model
from bothways.tokenization.policy import CutPolicy

FREQUENCY = "piece_frequency"


def evaluate_filling(
    model: Model,
    texts: Sequence[str],
    *,
    model_name: str = "model",
    data_name: str = "data",
    max_length: int | None = None,
    batch_tokens: int | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Report:
    """Hide each token of some texts once, and judge what the model says of it.

    `loss` is the mean over all tokens in nats, `perplexity` e to it. What should be beaten is who
    knows how often each piece stands in these very texts, and nothing of what is around it.

    Args:
        model: with a trained masked-LM head.
        texts: raw; those without a token are left out.
        model_name, data_name: for the report.
        max_length: tokens that are read of each text; None for the model's own.
        batch_tokens: budget of a batch; None for the device's default.
        resamples: of the bootstrap over texts.
        seed: of the resampling.

    Raises:
        DataError: when no text has a token.
        TaskError: when the model cannot fill masks.
        UntrainedHeadError: when its head is random.
    """
    start = time.perf_counter()
    policy = CutPolicy(model.policy(max_length).max_length)
    encodings, ledger = model.tokenizer.encode_many(texts, policy=policy)
    pieces = [np.array(each.ids)[~np.array(each.special, bool)] for (each,) in encodings]
    kept = [index for index, ids in enumerate(pieces) if len(ids)]
    if not kept:
        raise DataError(f"{data_name} has no text with a token, so there is nothing to guess")
    losses, counts = surprise(
        model, [texts[index] for index in kept], max_length=max_length, batch_tokens=batch_tokens
    )
    rival = _frequency_losses([pieces[index] for index in kept])

    def scores(some: Indices) -> dict[tuple[str, str], float]:
        tokens = counts[some].sum()
        own, frequent = losses[some].sum() / tokens, rival[some].sum() / tokens
        return {
            ("", "loss"): own,
            ("", "perplexity"): np.exp(own),
            (FREQUENCY, "loss"): frequent,
            (FREQUENCY, "perplexity"): np.exp(frequent),
            ("gain", "loss"): frequent - own,
        }

    found = intervals(scores, Units.of(len(kept)), resamples=resamples, seed=seed)
    ours, theirs = (
        {metric: value for (whose, metric), value in found.items() if whose == owner}
        for owner in ("", FREQUENCY)
    )
    gains = {FREQUENCY: found["gain", "loss"]}
    beaten = baseline_finding("loss", ours["loss"], {FREQUENCY: theirs["loss"]}, gains, len(kept))
    return Report(
        task="fill",
        model=model_name,
        data=data_name,
        metrics=ours,
        baselines={FREQUENCY: theirs},
        findings=(beaten, truncation_finding(ledger)),
        ledger=ledger,
        versions=versions(),
        count=len(kept),
        seconds=time.perf_counter() - start,
    )


def _frequency_losses(pieces: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """(texts,) the summed loss of pieces by their share of all pieces of all texts."""
    together = np.bincount(np.concatenate(pieces))
    shares = together / together.sum()
    return np.array([-np.log(shares[ids]).sum() for ids in pieces])
