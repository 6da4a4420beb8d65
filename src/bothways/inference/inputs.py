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


# Kind of a published head -> the task that it is read as; `sequence` asks its outputs too.
_TASK_OF_KIND = {"token": "tag", "answer": "answer", "choice": "multiple-choice"}


def task_of(parts: Parts) -> Task[Any] | None:
    """The task that the folder names; a published head says it by its class and its labels."""
    if "task" in parts.settings:
        return task_from_state(parts.settings["task"])
    published = parts.family.heads.get(parts.architecture)
    if parts.head is None:
        return None
    if published is not None and published.kind in _TASK_OF_KIND:
        name: str | None = _TASK_OF_KIND[published.kind]
    else:
        name = _task_of_texts(parts) if isinstance(parts.head, ClassificationHead) else None
    if name is None:
        return None
    labelled = name in ("tag", "classify", "multi-label")
    return task_from_state({"name": name, **({"labels": parts.labels} if labelled else {})})


def _task_of_texts(parts: Parts) -> str | None:
    """What a head over whole texts does; None where its outputs fit no task."""
    outputs, kind = len(parts.labels), parts.problem_type
    if kind == "multi_label_classification" and outputs:
        return "multi-label"
    if outputs == 1 and kind in (None, "regression"):
        # A cross-encoder of sentence-transformers says so in one of two places.
        listing = parts.folder and parts.folder / "modules.json"
        ranks = "sentence_transformers" in parts.raw or bool(listing and listing.exists())
        return "rerank" if ranks else "regress"
    if outputs < 2 or kind not in (None, "single_label_classification"):
        return None
    if kind is None:
        logger.warning(
            "config.json does not say the problem_type; the %d labels are read as excluding each "
            "other (softmax)",
            outputs,
        )
    return "classify"


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
