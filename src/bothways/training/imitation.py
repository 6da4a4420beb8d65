"""What a student minimises: labels, the teacher's predictions, the teacher's last states.

Each is a part of the loss with its own weight and its own count, so parts of steps and ranks add up
exactly. Predictions are compared as the task reads them: windows of a text together, labels that
exclude each other by softmax, others by sigmoid, numbers by their distance. Dimension letters: T
texts, N sequences, C labels.

Source: Hinton, Vinyals and Dean 2015 (soft targets); Sanh et al. 2019 (the three parts).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bothways.checkpoints.parts import Parts
from bothways.model.crf import with_head
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.heads import MaskedLMHead
from bothways.model.layout import Batch
from bothways.model.vocabulary import CHUNK_LOGITS
from bothways.tasks.windows import (
    largest_of_windows,
    log_shares,
    mean_of_windows,
    num_texts,
    pool_label_logits,
    pool_windows,
)
from bothways.training.masked_lm import MASKED, ORIGINALS, MaskedLMObjective
from bothways.training.objectives import Part, TaskObjective
from bothways.training.pieces import loss_over_ranks

_UNLABELLED = -100


@dataclass(frozen=True)
class ImitationSettings:
    """What a student learns from.

    Attributes:
        temperature: that predictions of teacher and student are divided by before they are
            compared, so that unlikely labels count too.
        hard_weight: of the loss on labels, or on hidden tokens.
        soft_weight: of the distance to the teacher's predictions.
        hidden_weight: of the distance to the teacher's last states, 1 - cosine; unset: 1 where
            teacher and student are equally wide, else 0.
    """

    temperature: float = 2.0
    hard_weight: float = 1.0
    soft_weight: float = 1.0
    hidden_weight: float | None = None


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Sum over all of p (log p - log q), times the squared temperature so that gradients stay.

    Args:
        student, teacher: log-probabilities log q and log p of the same shape.
        temperature: that logits were divided by.
    """
    return temperature**2 * F.kl_div(student, teacher, reduction="sum", log_target=True)


def _of_labels(student: Tensor, teacher: Tensor, batch: Batch, t: float, task: Any) -> Tensor:
    """Labels of which each text has one."""
    pooling = getattr(task, "classification", task).window_pooling
    one, other = (pool_windows(logits / t, batch, pooling) for logits in (student, teacher))
    return divergence(one, other, t)


def _of_sets(student: Tensor, teacher: Tensor, batch: Batch, t: float, task: Any) -> Tensor:
    """Labels that stand for themselves: each is there or not."""
    pooling = task.window_pooling
    one, other = (pool_label_logits(logits / t, batch, pooling) for logits in (student, teacher))
    there = divergence(F.logsigmoid(one), F.logsigmoid(other), t)
    return there + divergence(F.logsigmoid(-one), F.logsigmoid(-other), t)


def _of_tokens(student: Tensor, teacher: Tensor, batch: Batch, t: float, task: Any) -> Tensor:
    """Tags of the tokens that stand for words."""
    del task
    rows = batch.targets["tag"] != _UNLABELLED
    one, other = ((logits[rows] / t).log_softmax(-1) for logits in (student, teacher))
    return divergence(one, other, t)


def _of_places(student: Tensor, teacher: Tensor, batch: Batch, t: float, task: Any) -> Tensor:
    """Where an answer starts and ends, among the tokens of a window that may be one."""
    del task
    may = batch.targets["may_answer"]
    total = student.new_zeros(())
    for one, other, allowed in zip(*map(batch.layout.split, (student, teacher, may)), strict=True):
        places = [(logits[allowed] / t).log_softmax(0) for logits in (one, other)]
        total = total + divergence(places[0], places[1], t)
    return total / 2


def _of_choices(student: Tensor, teacher: Tensor, batch: Batch, t: float, task: Any) -> Tensor:
    """Which of several texts is right."""
    del task
    return divergence(log_shares(student / t, batch), log_shares(teacher / t, batch), t)


def _of_numbers(student: Tensor, teacher: Tensor, batch: Batch, t: float, task: Any) -> Tensor:
    """Squared distances of numbers; there is no temperature in them."""
    del t
    pool = largest_of_windows if task.name == "rerank" else mean_of_windows
    return (pool(student, batch) - pool(teacher, batch)).square().sum()


def _of_vectors(student: Tensor, teacher: Tensor, batch: Batch, t: float, task: Any) -> Tensor:
    """Distances of sentence vectors."""
    del batch, t, task
    return (1.0 - F.cosine_similarity(student, teacher, dim=-1)).sum()


def _labelled_tokens(batch: Batch) -> int:
    return int((batch.targets["tag"] != _UNLABELLED).sum())


def _sequences(batch: Batch) -> int:
    return batch.layout.num_sequences


Soft = Callable[[Tensor, Tensor, Batch, float, Any], Tensor]
# Task -> the distance of predictions, and over how many units it sums.
SOFT: dict[str, tuple[Soft, Callable[[Batch], int]]] = {
    "classify": (_of_labels, num_texts),
    "relate": (_of_labels, num_texts),
    "multi-label": (_of_sets, num_texts),
    "tag": (_of_tokens, _labelled_tokens),
    "answer": (_of_places, _sequences),
    "multiple-choice": (_of_choices, num_texts),
    "regress": (_of_numbers, num_texts),
    "rerank": (_of_numbers, num_texts),
    "embed": (_of_vectors, _sequences),
}


class _Teacher:
    """A trained model that only answers; not a part of the module that holds it.

    Args:
        parts: on the device of the student, in evaluation mode.
        settings: weights; that of states is filled.
    """

    def __init__(self, parts: Parts, settings: ImitationSettings) -> None:
        self.parts, self.settings = parts, settings
        assert settings.hidden_weight is not None
        self.shows_states = settings.hidden_weight > 0.0
        weights = (settings.hard_weight, settings.soft_weight, settings.hidden_weight)
        self.weights = dict(zip(("hard", "soft", "hidden"), weights, strict=True))

    def states(self, batch: Batch, rows: Tensor | None) -> EncoderOutput:
        """What its encoder makes of a batch."""
        with torch.no_grad():
            output: EncoderOutput = self.parts.encoder(batch, rows=rows)
        return output

    def distance(self, student: Tensor, theirs: Tensor) -> Tensor:
        """Sum over tokens of 1 - cosine; 0 where states are not compared."""
        if not self.shows_states:
            return student.new_zeros(())
        return (1.0 - F.cosine_similarity(student.float(), theirs.float(), dim=-1)).sum()


class ImitatedTask(TaskObjective):
    """The loss of a task, beside the distance to a teacher of the same task.

    Args:
        student: encoder, head and settings of what learns.
        task: of both.
        teacher: whose logits mean the same.
        settings: weights and temperature.
        over_ranks: whether the loss on labels compares the rows of all ranks.
    """

    def __init__(
        self,
        student: Parts,
        task: Any,
        teacher: Parts,
        settings: ImitationSettings,
        *,
        over_ranks: bool = False,
    ) -> None:
        assert student.reader is not None
        super().__init__(student.encoder, student.reader, task, over_ranks=over_ranks)
        self._teacher = _Teacher(teacher, settings)
        self.parts = tuple(Part(name, weight) for name, weight in self._teacher.weights.items())
        self._soft, self._units = SOFT[task.name]

    def forward(self, batch: Batch) -> Tensor:
        """Sums of the losses: on labels, of predictions, of states."""
        teacher, read = self._teacher, self._teacher.parts.reader
        assert read is not None
        own, others = (
            None if teacher.shows_states else getattr(head, "rows", lambda _: None)(batch)
            for head in (self.head, read)
        )
        output, theirs = self.encoder(batch, rows=own), teacher.states(batch, others)
        logits = self.head(output, batch)
        with torch.no_grad():
            wanted = read(theirs, batch).float()
        if self._over_ranks:
            hard = loss_over_ranks(self.task, logits, batch)
        else:
            hard = self.task.loss(logits, with_head(batch, self.head))[0]
        temperature = teacher.settings.temperature
        soft = self._soft(logits.float(), wanted, batch, temperature, self.task)
        hidden = teacher.distance(output.last_hidden, theirs.last_hidden)
        return torch.stack([hard, soft, hidden])

    def counts(self, batch: Batch) -> tuple[int, ...]:
        """The task's units, those of its predictions, tokens."""
        return (self.count(batch), self._units(batch), batch.layout.num_tokens)

    def flops(self, batch: Batch) -> float:
        """Not known: the teacher's are not the student's."""
        del batch
        return 0.0


class ImitatedMaskedLM(MaskedLMObjective):
    """The loss of hidden tokens, beside the distance to a teacher that guesses them too.

    Args:
        encoder, head: of the student.
        teacher: with a head over the same vocabulary.
        settings: weights and temperature.
    """

    def __init__(
        self, encoder: Encoder, head: MaskedLMHead, teacher: Parts, settings: ImitationSettings
    ) -> None:
        super().__init__(encoder, head)
        self._teacher = _Teacher(teacher, settings)
        hard, soft, hidden = self._teacher.weights.values()
        names = {"masked_lm": hard, "accuracy": 0.0, "soft": soft, "hidden": hidden}
        self.parts = tuple(Part(name, weight) for name, weight in names.items())

    def forward(self, batch: Batch) -> Tensor:
        """Sums of the losses, and of the right guesses, of hidden tokens; of states of all."""
        teacher, masked = self._teacher, batch.targets[MASKED]
        guesser = teacher.parts.masked_lm
        assert guesser is not None
        rows = None if teacher.shows_states else masked
        states, theirs = (
            self.encoder(batch, rows=rows).last_hidden,
            teacher.states(batch, rows).last_hidden,
        )
        hidden = teacher.distance(states, theirs)
        if rows is None:
            states, theirs = states[masked], theirs[masked]
        with torch.no_grad():
            theirs = guesser.features(theirs)
        chunks = zip(
            *(
                given.split(max(1, CHUNK_LOGITS // guesser.output.out_features))
                for given in (self.head.features(states), theirs, batch.targets[ORIGINALS])
            ),
            strict=True,
        )
        sums = states.new_zeros(3, dtype=torch.float32)
        for chunk in chunks:  # their logits are computed again in the backward pass, not kept
            sums = sums + checkpoint(self._of_chunk, *chunk, use_reentrant=False)
        return torch.cat([sums, hidden[None]])

    def _of_chunk(self, features: Tensor, theirs: Tensor, originals: Tensor) -> Tensor:
        guesser, t = self._teacher.parts.masked_lm, self._teacher.settings.temperature
        assert guesser is not None
        logits = self.head.output(features).float()
        with torch.no_grad():
            wanted = guesser.output(theirs).float()
        right = (logits.argmax(1) == originals).sum().float()
        soft = divergence((logits / t).log_softmax(1), (wanted / t).log_softmax(1), t)
        return torch.stack([F.cross_entropy(logits, originals, reduction="sum"), right, soft])

    def counts(self, batch: Batch) -> tuple[int, ...]:
        """Hidden tokens, and all."""
        masked = len(batch.targets[MASKED])
        return (masked, masked, masked, batch.layout.num_tokens)

    def flops(self, batch: Batch) -> float:
        """Not known: the teacher's are not the student's."""
        del batch
        return 0.0
