"""A few texts a label: the encoder learns which belong together, then a linear head is fitted.

Every batch has texts of several labels, and each text is drawn to those of its own label and away
from all others in it; so n texts teach with about n squared pairs. The head is a logistic
regression on the vectors that come out, and an ordinary classifier's.

Source: Khosla et al. 2020 (the loss); Tunstall et al. 2022 (the two steps, for few examples).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.checkpoints.parts import Parts
from bothways.data.randomness import keyed_random
from bothways.inference.predictor import run
from bothways.model.encoder import Encoder
from bothways.model.heads import ClassificationHead, Pooling
from bothways.model.layout import Batch
from bothways.training.balanced import members
from bothways.training.examples import EncodedExamples
from bothways.training.objectives import Objective

# Passes over the texts that one of `--epochs` stands for.
PASSES = 10
TEMPERATURE = 0.1
# Inverse of the head's regularisation, on features of unit size.
INVERSE_REGULARISATION = 1.0


class TogetherObjective(Objective):
    """Texts of one label near each other, others apart: supervised contrast in a batch.

    Args:
        encoder: what learns.
        head: its `pool` makes the vectors; the rest of it is not used.
    """

    def __init__(self, encoder: Encoder, head: ClassificationHead) -> None:
        super().__init__()
        self.encoder = encoder
        # Not a child: only the encoder learns here.
        self._pool, self._rows = head.pool, head.rows

    def forward(self, batch: Batch) -> Tensor:
        """The sum over the texts that have a partner in the batch."""
        pooled = self._pool(self.encoder(batch, rows=self._rows(batch)), batch)
        return contrast(pooled, batch.targets["label"])

    def count(self, batch: Batch) -> int:
        """Texts that have a partner."""
        return int(_partners(batch.targets["label"]).any(1).sum())


def contrast(vectors: Tensor, labels: Tensor) -> Tensor:
    """Sum over texts of the mean over their partners of -log softmax of the cosines.

    Args:
        vectors: (N, H).
        labels: (N,); a text without a partner of its label counts nothing.
    """
    normed = F.normalize(vectors.float(), dim=-1)
    alike = normed @ normed.T / TEMPERATURE
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    scores = alike.masked_fill(itself, -torch.inf).log_softmax(-1)
    partners = _partners(labels)
    charged = scores.masked_fill(~partners, 0.0).sum(1) / partners.sum(1).clamp(min=1)
    return -charged.sum()


def _partners(labels: Tensor) -> Tensor:
    same = labels[:, None] == labels[None]
    return same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)


def few_shot_plan(
    labels: Sequence[str], *, batch_size: int, seed: int
) -> Callable[[int], list[list[int]]]:
    """The batches of an epoch: each has two texts or more of as many labels as fit.

    Args:
        labels: of all texts.
        batch_size: most texts of a batch.
        seed: of the run.
    """
    places = list(members(labels).values())
    most = max(min(len(places), batch_size // 2), 1)
    steps = PASSES * -(-len(labels) // min(batch_size, len(labels)))

    def plan(epoch: int) -> list[list[int]]:
        random = keyed_random(seed, epoch=epoch, use="few-shot")
        batches = []
        for _ in range(steps):
            chosen = random.permutation(len(places))[:most]
            drawn = [random.permutation(places[n])[: max(batch_size // most, 2)] for n in chosen]
            batches.append(np.concatenate(drawn).tolist())
        return batches

    return plan


def few_shot_head(parts: Parts, num_labels: int, pooling: str) -> ClassificationHead:
    """A head over the vectors that contrast shapes; auto is how the folder makes sentences.

    Args:
        parts: the encoder.
        num_labels: width of the logits.
        pooling: of the settings.
    """
    if pooling == "auto":
        modes = parts.sentence.pool.modes if parts.sentence is not None else ("mean",)
        pooling = modes[0] if modes[0] in ("cls", "mean") else "mean"
    chosen: Pooling = pooling  # type: ignore[assignment]
    return ClassificationHead(parts.config.hidden_size, num_labels, pooling=chosen, dropout=0.0)


def fit_head(
    encoder: Encoder, head: ClassificationHead, data: EncodedExamples, labels: Sequence[str]
) -> None:
    """Fit the head's output to the encoder's vectors by logistic regression.

    Args:
        encoder: as it is used.
        head: its output layer is set.
        data: to learn from, one encoding an example.
        labels: in the order of the logits.
    """
    from sklearn.linear_model import LogisticRegression

    ids = [windows[0].ids for windows in data.encodings]
    types = [windows[0].type_ids for windows in data.encodings]
    vectors = np.empty((len(ids), head.output.in_features))
    for indices, rows, _ in run(encoder, head.pool, ids, type_ids=types, rows=head.rows):
        vectors[indices] = rows.double().cpu().numpy()
    index = {label: number for number, label in enumerate(labels)}
    truth = [index[example.label] for example in data.examples]
    middle = vectors.mean(0)
    size = max(float(np.linalg.norm(vectors - middle, axis=1).mean()), 1e-12)
    model = LogisticRegression(C=INVERSE_REGULARISATION * len(labels), max_iter=1000)
    model.fit((vectors - middle) / size, truth)
    weight, bias = model.coef_ / size, model.intercept_
    if len(labels) == 2:  # one row says how much the second label is ahead
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    with torch.no_grad():
        head.output.weight.copy_(torch.from_numpy(weight))
        head.output.bias.copy_(torch.from_numpy(bias - weight @ middle))
