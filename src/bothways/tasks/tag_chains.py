"""Chains of tags: from the words of a batch to a rectangle of texts, and back.

The field itself is in `model/crf.py`; which pieces speak for a word in `tag_pieces.py`.

Dimension letters: P words, N texts, W words of the longest, C tags.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bothways.model.crf import best_path, forbidden_moves, log_partition, marginals, path_score
from bothways.model.layout import Batch

# Texts that are decoded together, so that padding and memory stay small.
CHUNK_TEXTS = 256


def chain_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Sum of -log p(tags of a text), over the texts of a batch.

    Args:
        logits: (tokens, C).
        batch: with the targets of `TagTask` and the head's transitions.
    """
    targets = batch.targets
    rows = (targets["word"] >= 0).nonzero().squeeze(1)
    if not len(rows):
        return logits.sum() * 0.0
    words = targets["word"][rows]
    count = int(words.max()) + 1
    # (pieces, C) -> the mean of each word's
    scores = logits.new_zeros(count, logits.shape[1]).index_add(0, words, logits[rows])
    scores = scores / words.bincount(minlength=count)[:, None]
    tags, texts = (
        words.new_zeros(count).index_put((words,), targets[name][rows]) for name in ("tag", "text")
    )
    lengths = texts.unique_consecutive(return_counts=True)[1]
    rectangle, where = _rectangle(scores, lengths)
    of_words = tags.new_zeros(where.shape).masked_scatter(where, tags)
    transitions = targets["transitions"].float()
    gained = path_score(rectangle, of_words, lengths, transitions)
    return (log_partition(rectangle, lengths, transitions) - gained).sum()


def best_tags(
    scores: Tensor, texts: Sequence[int], transitions: Tensor, allowed: Tensor
) -> tuple[Tensor, Tensor]:
    """The tag of each word in the best allowed chain of its text, and the probability it has.

    Args:
        scores: (P, C) of the words, those of a text one after another.
        texts: which text each word is of.
        transitions: (C + 1, C + 1), as `CrfHead` holds them.
        allowed: the same shape, which of them may be.
    """
    if not texts:
        return torch.empty(0, dtype=torch.long), scores.new_empty(0)
    moves = transitions + forbidden_moves(allowed).to(transitions)
    counts = torch.tensor(texts).unique_consecutive(return_counts=True)[1]
    tags, sure = [], []
    start = 0
    for lengths in counts.split(CHUNK_TEXTS):
        size = int(lengths.sum())
        rectangle, where = _rectangle(scores[start : start + size], lengths)
        start += size
        path = best_path(rectangle, lengths, moves)
        chance = marginals(rectangle, lengths, moves).gather(2, path[:, :, None]).squeeze(2)
        tags.append(path[where])
        sure.append(chance[where])
    return torch.cat(tags), torch.cat(sure)


def _rectangle(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of words as (N, W, C), zero where there is no word, and (N, W) where there is one."""
    where = torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None]
    rectangle = scores.new_zeros(*where.shape, scores.shape[1])
    return rectangle.index_put((where,), scores), where
