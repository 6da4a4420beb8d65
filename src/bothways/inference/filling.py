"""Filling masks: the most probable tokens where a text has a mask token."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from bothways.errors import TaskError
from bothways.inference.predictor import evaluating, run
from bothways.inference.results import FillCandidate
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
) -> list[list[list[FillCandidate]]]:
    """For each text, for each of its masks, candidates with probabilities, best first.

    Only the masks' states are computed in the last layer, and only theirs meet the vocabulary.

    Raises:
        TaskError: when a text has no mask.
    """
    mask_id = tokenizer.mask_id
    if mask_id is None:
        raise TaskError("the tokenizer has no mask token, so there is nothing to fill")
    ids, type_ids, _ = tokenizer.encode_ids(texts, policy=policy, special_tokens_in_text="parse")
    without = [number for number, pieces in enumerate(ids, start=1) if mask_id not in pieces]
    if without:
        token = tokenizer.tokens([mask_id])[0]
        raise TaskError(
            f"texts without {token}: numbers {', '.join(map(str, without[:10]))}; write {token} "
            "where a word is to be filled in"
        )

    def masks(batch: Batch) -> Tensor:
        return (batch.ids == mask_id).nonzero()[:, 0]

    def read_out(output: EncoderOutput, batch: Batch) -> Tensor:
        del batch
        return F.softmax(head.output(head.features(output.last_hidden)).float(), dim=-1)

    found: dict[int, list[list[FillCandidate]]] = {}
    with evaluating(head):
        for indices, rows, _ in run(encoder, read_out, ids, type_ids=type_ids, rows=masks):
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
    return [found[index] for index in range(len(texts))]
