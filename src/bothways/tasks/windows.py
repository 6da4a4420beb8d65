"""Windows of long texts put together again: one row a text from one row a window.

Loss and decoding use the same function, so that what is learned is what is predicted, and a text
of ten windows counts once. Which tokens a window holds is in `tokenization/cutting.py`; the head
that says how much each window counts is in `model/windows.py`.

Dimension letters: N windows, T texts, C labels.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.model.layout import Batch

WindowPooling = Literal["mean", "max", "attention"]


def text_of_window(batch: Batch) -> list[int]:
    """For each sequence, which text of the batch it is of, in order of first appearance."""
    if not batch.sources:
        return list(range(batch.layout.num_sequences))
    numbers: dict[int, int] = {}
    return [numbers.setdefault(source.example, len(numbers)) for source in batch.sources]


def num_texts(batch: Batch) -> int:
    """Texts of a batch; several windows of one are one."""
    return max(text_of_window(batch), default=-1) + 1


def first_windows(batch: Batch) -> list[int]:
    """The first sequence of each text, in order."""
    first: dict[int, int] = {}
    for row, text in enumerate(text_of_window(batch)):
        first.setdefault(text, row)
    return list(first.values())


def pool_windows(logits: Tensor, batch: Batch, pooling: WindowPooling) -> Tensor:
    """Log-probabilities of the texts of a batch, (T, C).

    A text of one window has the logarithm of its softmax, whatever the pooling.

    Args:
        logits: of the windows, (N, C); with attention, (N, C + 1), the last column saying how
            much a window counts among those of its text.
        batch: says which windows are of one text.
        pooling: the mean of the windows' probabilities; the largest logit of each label; or the
            logits weighted by the softmax of the last column.
    """
    texts, count = _texts(logits, batch)
    if pooling == "attention":
        return _attended(logits, texts, count).log_softmax(-1)
    if count == len(texts):
        return logits.log_softmax(-1)
    if pooling == "max":
        return _largest(logits, texts, count).log_softmax(-1)
    windows = texts.bincount(minlength=count)[:, None]
    return _log_sums(logits.log_softmax(-1), texts, count) - windows.to(logits.dtype).log()


def pool_label_logits(logits: Tensor, batch: Batch, pooling: WindowPooling) -> Tensor:
    """Logits of the texts of a batch where each label stands for itself, (T, C).

    Args:
        logits, batch, pooling: as in `pool_windows`; the mean is that of the sigmoids.
    """
    texts, count = _texts(logits, batch)
    if pooling == "attention":
        return _attended(logits, texts, count)
    if count == len(texts):
        return logits
    if pooling == "max":
        return _largest(logits, texts, count)
    # With p the mean of the sigmoids: log p - log (1 - p); the number of windows cancels.
    return _log_sums(F.logsigmoid(logits), texts, count) - _log_sums(
        F.logsigmoid(-logits), texts, count
    )


def _texts(logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
    """The text of each window, and how many texts there are."""
    texts = torch.tensor(text_of_window(batch), dtype=torch.long, device=logits.device)
    return texts, num_texts(batch)


def _attended(logits: Tensor, texts: Tensor, count: int) -> Tensor:
    """Logits weighted by the softmax of their last column over the windows of each text."""
    logits, scores = logits[:, :-1], logits[:, -1:]
    if count == len(texts):
        return logits
    weights = torch.exp(scores - _log_sums(scores, texts, count)[texts])
    return logits.new_zeros(count, logits.shape[1]).index_add(0, texts, weights * logits)


def mean_of_windows(values: Tensor, batch: Batch) -> Tensor:
    """The mean over the windows of each text, (T, C) from (N, C)."""
    texts = torch.tensor(text_of_window(batch), dtype=torch.long, device=values.device)
    count = num_texts(batch)
    if count == len(texts):
        return values
    sums = values.new_zeros(count, values.shape[1]).index_add(0, texts, values)
    return sums / texts.bincount(minlength=count)[:, None]


def largest_of_windows(values: Tensor, batch: Batch) -> Tensor:
    """The largest value among the windows of each text, (T, C) from (N, C)."""
    texts, count = _texts(values, batch)
    return values if count == len(texts) else _largest(values, texts, count)


def log_shares(scores: Tensor, batch: Batch) -> Tensor:
    """The log-softmax of each sequence's score among those of its text, (N,) from (N, 1)."""
    texts, count = _texts(scores, batch)
    return (scores - _log_sums(scores, texts, count)[texts])[:, 0]


def _largest(values: Tensor, texts: Tensor, count: int) -> Tensor:
    """The largest value of each column among the windows of each text."""
    index = texts[:, None].expand_as(values)
    lowest = values.new_full((count, values.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, index, values, "amax")


def _log_sums(values: Tensor, texts: Tensor, count: int) -> Tensor:
    """The logarithm of the sum of exponentials over the windows of each text."""
    largest = _largest(values.detach(), texts, count)
    sums = values.new_zeros(largest.shape).index_add(0, texts, torch.exp(values - largest[texts]))
    return largest + sums.log()
