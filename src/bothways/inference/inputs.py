"""What a model takes: the task that its folder names, prompts, and texts as columns."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from bothways.checkpoints.parts import Parts
from bothways.errors import UsageError, nearest
from bothways.model.heads import ClassificationHead
from bothways.model.sentence import SentenceVector
from bothways.tasks.registry import task_from_state
from bothways.tasks.task import Task
from bothways.tasks.texts import texts_of
from bothways.tokenization.encoding import Policy
from bothways.tokenization.policy import CutPolicy

logger = logging.getLogger(__name__)

Pair = tuple[str, str]
Text = str | Pair


def task_of(parts: Parts) -> Task[Any] | None:
    """The task that the folder names; a published head says it by its class and its labels."""
    if "task" in parts.settings:
        return task_from_state(parts.settings["task"])
    published = parts.family.heads.get(parts.architecture)
    if published is not None and published.kind == "token" and parts.labels:
        return task_from_state({"name": "tag", "labels": parts.labels})
    if parts.head is not None and published is not None and published.kind == "answer":
        return task_from_state({"name": "answer"})
    single = parts.problem_type in (None, "single_label_classification")
    several = parts.problem_type == "multi_label_classification"
    classifies = isinstance(parts.head, ClassificationHead) and bool(parts.labels)
    if classifies and several:
        return task_from_state({"name": "multi-label", "labels": parts.labels})
    if not (classifies and single and len(parts.labels) > 1):
        return None
    if parts.problem_type is None:
        logger.warning(
            "config.json does not say the problem_type; the %d labels are read as excluding each "
            "other (softmax)",
            len(parts.labels),
        )
    return task_from_state({"name": "classify", "labels": parts.labels})


def cut_policy(
    stored: Mapping[str, Any],
    usable: int,
    longest: int,
    max_length: int | None,
    keep: Policy | None,
    overlap: int | None,
) -> CutPolicy:
    """The policy that is asked for, else the one that the folder stores; see `Model.policy`.

    Args:
        stored: content of bothways.json.
        usable: positions of the encoder.
        longest: tokens of a text where nothing is asked.
        max_length, keep, overlap: as asked, or None.
    """
    if max_length is not None and max_length > usable:
        raise UsageError(f"max_length is {max_length}; this model reads at most {usable} tokens")
    length = longest if max_length is None else max_length
    stored_keep = stored.get("policy", "head")
    keep = keep or stored_keep
    if keep != "windows":
        if overlap:
            raise UsageError(f"an overlap of {overlap} needs windows; the policy is {keep!r}")
        return CutPolicy(length, keep)
    if overlap is None:
        # What is stored beside another policy is no overlap of windows.
        quarter = length // 4
        overlap = stored.get("overlap", quarter) if stored_keep == "windows" else quarter
    return CutPolicy(length, keep, overlap)


def one_window(policy: CutPolicy) -> CutPolicy:
    """The policy, where each text is read once.

    Raises:
        UsageError: for windows, which only tasks put together again.
    """
    if policy.keep == "windows":
        raise UsageError(
            "each text is read once here, so policy 'windows' does not fit; use head, tail or "
            "head+tail"
        )
    return policy


def prompt_text(sentence: SentenceVector, prompt: str | None) -> str:
    """What is put before each text.

    Args:
        sentence: knows prompts by name.
        prompt: a name, or the text itself; None for the default prompt.

    Raises:
        UsageError: for what looks like a mistyped name.
    """
    prompts = sentence.prompts
    name = prompt if prompt is not None else sentence.default_prompt
    if name is None or name in prompts:
        return prompts.get(name or "", "")
    hint = nearest(name, prompts)
    if hint.startswith("did you mean"):
        raise UsageError(f"there is no prompt {name!r}; {hint}")
    return name


def text_columns(chunk: Sequence[Text], prompt: str) -> tuple[list[str], list[str] | None]:
    """Texts with the prompt before them, and second texts where there are pairs.

    Raises:
        UsageError: when texts and pairs are mixed, or something is neither.
    """
    given = texts_of(chunk)
    seconds = [second for _, second in given if second is not None]
    if seconds and len(seconds) < len(given):
        raise UsageError(
            f"{len(seconds)} of {len(given)} inputs are pairs of texts; give all of one kind"
        )
    return [prompt + first for first, _ in given], seconds or None
