"""Scores of held-out examples while a run goes on.

Each batch is decoded as soon as it is computed, so that logits of the whole set are never held;
ranks share the batches, and every example is scored once. Judging a finished model, with intervals
and baselines, is in `evaluation/`.
"""

from __future__ import annotations

import torch

from bothways.inference.batches import CPU_BATCH_TOKENS, GPU_BATCH_TOKENS, plan_batches
from bothways.inference.predictor import evaluating
from bothways.model.crf import with_head
from bothways.tasks.results import Result
from bothways.training.examples import EncodedExamples
from bothways.training.freezing import HeadObjective
from bothways.training.objectives import TaskObjective
from bothways.training.runtime import Runtime


def score(
    objective: TaskObjective | HeadObjective,
    data: EncodedExamples,
    *,
    runtime: Runtime,
    batch_tokens: int | None = None,
) -> dict[str, float]:
    """The task's metrics of labelled examples, dropout off.

    Args:
        objective: makes logits and knows the task.
        data: the examples.
        runtime: device and ranks.
        batch_tokens: budget of a batch; None for the device's default.
    """
    if batch_tokens is None:
        batch_tokens = CPU_BATCH_TOKENS if runtime.device.type == "cpu" else GPU_BATCH_TOKENS
    batches = plan_batches(data.lengths, batch_tokens)
    task, found = objective.task, dict[int, Result]()
    with evaluating(objective), torch.inference_mode():
        for indices in batches[runtime.rank :: runtime.num_ranks]:
            batch = data.batch(indices).to(runtime.device)
            with runtime.forward():
                logits = objective.logits(batch)
            batch = with_head(batch, objective.head)
            found.update(zip(indices, task.decode(logits.float(), batch), strict=True))
    results = dict(runtime.gather(list(found.items())))
    ordered = [results[index] for index in range(len(data.examples))]
    return task.metrics(ordered, data.examples)
