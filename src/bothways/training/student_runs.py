"""Runs in which a teacher is asked too: those of fine-tuning and of pretraining, taught.

Only what differs is here: how a student begins, what it minimises, what decides its numbers. What
comes before and after is in `distill.py`.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from bothways.checkpoints.parts import Parts
from bothways.evaluation.intervals import Units
from bothways.inference import prepacked
from bothways.inference.predictor import evaluating
from bothways.model.heads import MaskedLMHead, describe_head
from bothways.model.layout import Batch
from bothways.training.comparison import Score, Scores
from bothways.training.distill_settings import DistillSettings
from bothways.training.dropout import with_dropout
from bothways.training.grid import RunSpec
from bothways.training.imitation import ImitatedMaskedLM, ImitatedTask
from bothways.training.loop import LoopPlan
from bothways.training.masked_lm import MASKED, ORIGINALS
from bothways.training.networks import Networks
from bothways.training.output import resume_command
from bothways.training.pretrain import PretrainRun
from bothways.training.runs import Runner
from bothways.training.runtime import Runtime


class StudentRunner(Runner):
    """Runs of fine-tuning in which a teacher is asked too."""

    teacher: Parts
    whole: DistillSettings

    def taught(self, teacher: Parts, whole: DistillSettings) -> StudentRunner:
        """Set who teaches, and how."""
        self.teacher, self.whole = _at_work(teacher, self.runtime), whole
        return self

    def start(self, spec: RunSpec) -> Parts:
        """The student as it begins, with the head that it has where it can answer already."""
        base = self.base
        if not answers_alike(base, self.teacher):
            return super().start(spec)
        encoder, head, sentence = copy.deepcopy((base.encoder, base.head, base.sentence))
        parts = dataclasses.replace(
            base, encoder=with_dropout(encoder, {}), head=head, sentence=sentence
        )
        return _at_work(parts, self.runtime)

    def deciding(self, spec: RunSpec) -> dict[str, Any]:
        """What decides the numbers of a run: how it is taught too."""
        return super().deciding(spec) | _taught(self.whole)

    def _objective(self, parts: Parts) -> ImitatedTask:
        task = self.data.splits.task
        over_ranks = self._comparing().get("over_ranks", False)
        imitation = self.whole.imitation
        return ImitatedTask(parts, task, self.teacher, imitation, over_ranks=over_ranks)

    def _plan(self, spec: RunSpec, steps: int) -> LoopPlan:
        command = resume_command(self.settings.output, "distill")
        return dataclasses.replace(super()._plan(spec, steps), resume_command=command)


class StudentTextRun(PretrainRun):
    """A run of pretraining in which a teacher is asked too."""

    teacher: Parts
    whole: DistillSettings

    def taught(self, teacher: Parts, whole: DistillSettings) -> StudentTextRun:
        """Set who teaches, and how."""
        self.teacher, self.whole = _at_work(teacher, self.runtime), whole
        return self

    def networks(self) -> Networks:
        """New networks on the device, the same each time."""
        made = super().networks()
        assert made.parts.masked_lm is not None
        objective = ImitatedMaskedLM(
            made.parts.encoder, made.parts.masked_lm, self.teacher, self.whole.imitation
        )
        return dataclasses.replace(made, objective=objective.to(self.runtime.device))

    def deciding(self) -> dict[str, Any]:
        """What decides the numbers of the run: how it is taught too."""
        return super().deciding() | _taught(self.whole)

    def _plan(self, steps: int) -> LoopPlan:
        command = resume_command(self.settings.output, "distill")
        return dataclasses.replace(super()._plan(steps), resume_command=command)

    def scores(self, student: Parts) -> Scores:
        """The mean loss of hidden tokens of both on held-out text, whose sequences are drawn."""
        counts = np.concatenate([_hidden_tokens(batch) for batch in self.held_out])

        def score(parts: Parts) -> Score:
            losses = np.concatenate([self._losses(parts, batch) for batch in self.held_out])
            return lambda some: float(losses[some].sum() / max(counts[some].sum(), 1))

        units = Units.of(len(counts))
        return Scores.of("loss", teacher=score(self.teacher), student=score(student), units=units)

    def _losses(self, parts: Parts, batch: Batch) -> NDArray[np.float64]:
        """The sum over the hidden tokens of each sequence."""
        head, batch = parts.masked_lm, batch.to(self.runtime.device)
        assert head is not None
        masked, originals = batch.targets[MASKED], batch.targets[ORIGINALS]
        with evaluating(parts.encoder), torch.inference_mode(), self.runtime.forward():
            states = parts.encoder(batch, rows=masked).last_hidden
            logits = head.output(head.features(states)).float()
            losses = F.cross_entropy(logits, originals, reduction="none").double()
        sums = losses.new_zeros(batch.layout.num_sequences)
        found: NDArray[np.float64] = (
            sums.index_add(0, batch.layout.sequence_of_token[masked], losses).cpu().numpy()
        )
        return found


def answers_alike(student: Parts, teacher: Parts) -> bool:
    """Whether a student's head is made like its teacher's, so that it need not begin anew."""
    if student.head is None or teacher.head is None:
        return student.head is teacher.head and student.sentence is not None
    return student.labels == teacher.labels and describe_head(student.head) == describe_head(
        teacher.head
    )


def without_relation(parts: Parts) -> Parts:
    """The same without the output that says how two texts go together."""
    head = parts.masked_lm
    if head is None or head.relation is None:
        return parts
    made = MaskedLMHead(**vars(head)["settings"] | {"num_relations": 0})
    state = {
        name: value
        for name, value in head.state_dict(keep_vars=True).items()
        if not name.startswith("relation.")
    }
    made.load_state_dict(state, assign=True)
    return dataclasses.replace(parts, head=made.eval())


def _hidden_tokens(batch: Batch) -> NDArray[np.int64]:
    """How many each sequence has."""
    sequences = batch.layout.sequence_of_token[batch.targets[MASKED]]
    counts: NDArray[np.int64] = sequences.bincount(minlength=batch.layout.num_sequences).numpy()
    return counts


def _at_work(parts: Parts, runtime: Runtime) -> Parts:
    """The same on the device, over the fast path for inference."""
    for module in (parts.encoder, parts.reader):
        assert module is not None
        prepacked.install(module.to(runtime.device))
    return parts


def _taught(settings: DistillSettings) -> dict[str, Any]:
    """What decides how a student is taught, by key path."""
    return {f"distill.{key}": value for key, value in settings.deciding().items()}
