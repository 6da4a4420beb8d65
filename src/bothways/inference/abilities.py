"""What a model can be asked for, and the refusals where it cannot."""

from __future__ import annotations

from typing import Any

from torch import nn

from bothways.checkpoints.parts import Parts
from bothways.errors import TaskError, UntrainedHeadError
from bothways.inference.exported import ExportedEncoder
from bothways.model.heads import MaskedLMHead
from bothways.tasks.embed import EmbedTask
from bothways.tasks.task import Task


def abilities(parts: Parts, task: Task[Any] | None) -> list[str]:
    """The methods of a model that work; none without a tokenizer."""
    if parts.tokenizer is None:
        return []
    found = ["embed", "embed_tokens", "similarity"]
    if isinstance(parts.encoder, ExportedEncoder):
        found = ["embed", "similarity"] if parts.head is None else []
    if reader_of(parts, task) is not None and task is not None and parts.head_trained:
        found.append(f"predict ({task.name})")
    if parts.head_names and parts.head_trained:
        of = parts.settings["heads"].items()
        told = ", ".join(f"{name}: {each['task']['name']}" for name, each in of)
        found.append(f"predict ({told})")
    if parts.masked_lm is not None and "head" not in parts.report.untrained:
        found += ["fill", "embed_sparse"]
    return found


def ability_words(parts: Parts, task: Task[Any] | None) -> str:
    """The same for a message."""
    return ", ".join(abilities(parts, task)) or "nothing, because it has no tokenizer"


def reader_of(parts: Parts, task: Task[Any] | None) -> nn.Module | None:
    """What makes the numbers that the task reads: the head, or for an embedder the vectors."""
    return parts.sentence if isinstance(task, EmbedTask) else parts.head


def trained_task(parts: Parts, task: Task[Any] | None) -> tuple[Task[Any], nn.Module]:
    """The task and the head, where there is something to predict with.

    Raises:
        TaskError: when there is no task, or the head is of a kind that no task reads.
        UntrainedHeadError: when the head's weights are random.
    """
    reader = reader_of(parts, task)
    if parts.head_names:
        raise TaskError(
            f"this model has several heads: {', '.join(parts.head_names)}; name one (--head, or "
            "`Model.heads` in Python)"
        )
    if task is None or reader is None:
        kind = parts.problem_type or parts.architecture
        head = "no head for a task" if parts.head is None else f"a head that no task reads ({kind})"
        raise TaskError(
            f"this model has {head}; it can: {ability_words(parts, task)}. Train one with "
            "`bothways finetune`, or judge its vectors with `bothways evaluate --task embed`"
        )
    if not parts.head_trained:
        raise UntrainedHeadError(
            "the head's weights are random, so its predictions mean nothing; train it with "
            "`bothways finetune` first"
        )
    return task, reader


def trained_masked_lm(parts: Parts, task: Task[Any] | None) -> MaskedLMHead:
    """The head that fills masks.

    Raises:
        TaskError: when there is none.
        UntrainedHeadError: when its weights are random.
    """
    if parts.masked_lm is None:
        raise TaskError(
            f"{parts.folder or 'this model'} has no masked-language-model head, so it cannot fill "
            "masks; it can: "
            f"{ability_words(parts, task)}"
        )
    if "head" in parts.report.untrained:
        raise UntrainedHeadError("the masked-LM head's weights are random: it cannot fill masks")
    return parts.masked_lm
