"""Labels that a model never saw, asked of a classifier of entailment.

Each text is read once beside each label, put into a sentence ("This text is about sports."), and
the label whose sentence follows best from the text wins (Yin et al. 2019). The classifier is one
that `bothways finetune` made of premise and hypothesis pairs, or a published one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bothways.errors import TaskError, UsageError
from bothways.inference.abilities import trained_task
from bothways.inference.inputs import Text
from bothways.inference.logits import head_logits
from bothways.inference.predictor import CHUNK_TEXTS, chunks
from bothways.inference.results import Results
from bothways.tasks.classify import label_result
from bothways.tasks.task import Task
from bothways.tasks.texts import texts_of
from bothways.tasks.windows import text_of_window
from bothways.tokenization.policy import CutPolicy

if TYPE_CHECKING:
    from bothways.inference.model import Model

TEMPLATE = "This text is about {}."


def zero_shot_stream(
    model: Model,
    texts: Iterable[Text],
    labels: Sequence[str],
    *,
    template: str = TEMPLATE,
    multi_label: bool = False,
    policy: CutPolicy | None = None,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Iterator[Results]:
    """One LabelResult a text over the given labels, in parts; see `Model.predict_zero_shot`."""
    hypotheses = _hypotheses(labels, template, multi_label)
    model.verify()
    task, head = trained_task(model.parts, model.task)
    entailment, others = entailment_of(task)
    for chunk in chunks(texts, max(1, CHUNK_TEXTS // len(labels))):
        if any(pair is not None for _, pair in texts_of(chunk)):
            raise UsageError("these are pairs of texts; labels are given to single texts")
        examples = task.examples([(text, said) for text in chunk for said in hypotheses])
        encodings, ledger = task.encode_all(examples, model.tokenizer, policy or model.policy())
        logits, batch = head_logits(
            model.encoder, head, encodings, batch_tokens=batch_tokens, on_batch=on_batch
        )
        scores = logits.double()[:, entailment]
        if multi_label:
            scores = scores - logits.double()[:, others].logsumexp(-1)
        # A text says what one of its windows says.
        pairs = torch.tensor(text_of_window(batch))
        best = scores.new_full((len(examples),), -torch.inf).scatter_reduce(
            0, pairs, scores, "amax"
        )
        lost = torch.tensor([windows[0].tokens_cut for windows in encodings])
        yield Results(
            [label_result(labels, row.numpy()) for row in _shares(best, len(labels), multi_label)],
            ledger,
            lost.view(-1, len(labels)).amax(1).tolist(),
        )


def _shares(scores: Tensor, count: int, multi_label: bool) -> Tensor:
    """(texts, labels): probabilities that exclude each other, or each for itself."""
    table = scores.view(-1, count)
    return table.sigmoid() if multi_label else table.softmax(-1)


def entailment_of(task: Task[Any]) -> tuple[int, list[int]]:
    """Which output says that the second text follows from the first, and which deny it.

    Those that deny it are called contradiction; where none is, they are all others.

    Raises:
        TaskError: when no label, or several, say so.

    Example:
        >>> entailment_of(ClassifyTask(labels=("contradiction", "entailment", "neutral")))
        (1, [0])
    """
    names = [label.lower() for label in task.labels]
    found = [index for index, name in enumerate(names) if name.startswith("entail")]
    if task.name != "classify" or len(found) != 1 or getattr(task, "pairs", None) is False:
        raise TaskError(
            "labels that were not trained need a classifier of pairs that has one label "
            f"'entailment'; this is a model for {task.name} with the labels: "
            f"{', '.join(task.labels) or 'none'}. Train one on premises and hypotheses with "
            "`bothways finetune`, or leave out --labels"
        )
    denying = [index for index, name in enumerate(names) if name.startswith("contradict")]
    others = [index for index in range(len(names)) if index != found[0]]
    return found[0], denying or others


def _hypotheses(labels: Sequence[str], template: str, multi_label: bool) -> list[str]:
    """The sentence for each label.

    Raises:
        UsageError: for a single text as labels, labels that are empty or stand twice, too few of
            them, or a template without its one place.
    """
    problems = []
    if isinstance(labels, str):
        raise UsageError(f"expected several labels, got one text: {labels!r}; put them in a list")
    if len(labels) < 2 - multi_label:
        problems.append(f"{len(labels)} labels are given; expected at least {2 - multi_label}")
    if not all(label.strip() for label in labels):
        problems.append("a label is empty")
    if len(set(labels)) < len(labels):
        twice = sorted({label for label in labels if list(labels).count(label) > 1})
        problems.append(f"labels stand twice: {', '.join(twice)}")
    if template.count("{}") != 1:
        problems.append(f"the template is {template!r}; expected {{}} once, where the label goes")
    if problems:
        raise UsageError("; ".join(problems))
    return [template.replace("{}", label) for label in labels]
