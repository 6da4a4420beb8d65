"""Filling masks: the most probable tokens where a text has a mask token."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from bothways.errors import TaskError, UsageError
from bothways.inference.predictor import evaluating, run
from bothways.inference.results import FillCandidate, Filled
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.heads import MaskedLMHead
from bothways.model.layout import Batch
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer


def fill_masks(
    encoder: Encoder,
    head: MaskedLMHead,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    policy: CutPolicy,
    top: int,
    batch_tokens: int | None = None,
) -> Filled:
    """For each text, for each of its masks, candidates with probabilities, best first.

    Only the masks' states are computed in the last layer, and only theirs meet the vocabulary.

    Raises:
        UsageError: when `top` is below 1 or `texts` is a single text.
        TaskError: when a text has no mask, or loses one where it is cut.
    """
    if top < 1:
        raise UsageError(f"top is {top}; it must be at least 1")
    if isinstance(texts, str):
        raise UsageError(f"expected several texts, got one: {texts[:40]!r}; put it into a list")
    if tokenizer.mask_id is None:
        raise TaskError("the tokenizer has no mask token, so there is nothing to fill")
    mask_id = tokenizer.mask_id
    whole, _, _ = tokenizer.encode_ids(texts, policy=None, special_tokens_in_text="parse")
    ids, type_ids, ledger = tokenizer.encode_ids(
        texts, policy=policy, special_tokens_in_text="parse"
    )
    token = tokenizer.tokens([mask_id])[0]
    without = [text for text, pieces in zip(texts, whole, strict=True) if mask_id not in pieces]
    if without:
        raise TaskError(
            f"{len(without)} of {len(texts)} texts have no {token}, the first: "
            f"{without[0][:60]!r}; write {token} where a word is to be filled in"
        )
    lost = [
        text
        for text, before, after in zip(texts, whole, ids, strict=True)
        if before.count(mask_id) > after.count(mask_id)
    ]
    if lost:
        raise TaskError(
            f"{len(lost)} of {len(texts)} texts lose a {token} where they are cut to "
            f"{policy.max_length} tokens, the first: {lost[0][:60]!r}; shorten them, or keep "
            "another part (policy)"
        )

    def masks(batch: Batch) -> Tensor:
        return (batch.ids == mask_id).nonzero()[:, 0]

    def read_out(output: EncoderOutput, batch: Batch) -> Tensor:
        del batch
        return F.softmax(head.output(head.features(output.last_hidden)).float(), dim=-1)

    found: dict[int, list[list[FillCandidate]]] = {}
    with evaluating(head):
        for indices, rows, _ in run(
            encoder, read_out, ids, type_ids=type_ids, rows=masks, batch_tokens=batch_tokens
        ):
            best = rows.topk(min(top, rows.shape[1]), dim=-1)
            candidates = iter(zip(best.values.tolist(), best.indices.tolist(), strict=True))
            for index in indices:
                found[index] = [
                    [
                        FillCandidate(tokenizer.tokens([piece])[0], piece, probability)
                        for probability, piece in zip(*next(candidates), strict=True)
                    ]
                    for _ in range(ids[index].count(mask_id))
                ]
    return Filled((found[index] for index in range(len(texts))), ledger)
