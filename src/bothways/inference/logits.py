"""One head over many texts: predictions, and the logits behind them in input order.

Several heads over one encoder are in `several.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bothways.data.collate import Source
from bothways.inference.abilities import trained_task
from bothways.inference.predictor import evaluating, run
from bothways.inference.results import Results
from bothways.model.crf import with_head
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch
from bothways.tokenization.encoding import Encoding
from bothways.tokenization.policy import CutPolicy

if TYPE_CHECKING:
    from bothways.inference.model import Model


def head_stream(
    model: Model,
    parts: Iterable[Sequence[Any]],
    *,
    policy: CutPolicy,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Iterator[Results]:
    """What the head of a model says of examples, part by part.

    Raises:
        TaskError: when the model has no task.
        UntrainedHeadError: when the head's weights are random.
    """
    task, head = trained_task(model.parts, model.task)
    for chunk in parts:
        given = task.examples(chunk)
        encodings, ledger = task.encode_all(given, model.tokenizer, policy)
        logits, batch = head_logits(
            model.encoder,
            head,
            encodings,
            examples=given,
            reads=getattr(task, "reads", None),
            batch_tokens=batch_tokens,
            on_batch=on_batch,
        )
        lost = [windows[0].tokens_cut for windows in encodings]
        yield Results(task.decode(logits, batch), ledger, lost)


def head_logits(
    encoder: Encoder,
    head: nn.Module,
    encodings: Sequence[Sequence[Encoding]],
    *,
    examples: Sequence[Any] | None = None,
    reads: Callable[[Sequence[Source]], dict[str, Tensor]] | None = None,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> tuple[Tensor, Batch]:
    """Logits of a head a sequence or a token, in input order, and the batch they belong to.

    Args:
        encoder: that the head reads.
        head: called as head(output, batch).
        encodings: of each example; several are windows.
        examples: what was encoded, for tasks whose results quote it.
        reads: what the head needs besides tokens, as targets of a batch.
        batch_tokens: budget of a batch; None for the device's default.
        on_batch: called with the number of encodings done.
    """
    sources = sources_of(encodings, examples)
    ids = [source.encoding.ids for source in sources]
    types = [source.encoding.type_ids for source in sources]
    per_token = getattr(head, "unit", "sequence") == "token"
    found: dict[int, Tensor] = {}
    with evaluating(head):
        for indices, output, batch in run(
            encoder,
            head,
            ids,
            type_ids=types if any(any(kind) for kind in types) else None,
            rows=getattr(head, "rows", None),
            targets=reads and (lambda indices: reads([sources[index] for index in indices])),
            batch_tokens=batch_tokens,
            on_batch=on_batch,
        ):
            logits = output.float().cpu()
            parts = batch.layout.split(logits) if per_token else logits.split(1)
            found.update(zip(indices, parts, strict=True))
    return in_order(found, sources, head)


def sources_of(
    encodings: Sequence[Sequence[Encoding]], examples: Sequence[Any] | None
) -> list[Source]:
    """Where each sequence comes from, the windows of an example one after another."""
    return [
        Source(example, window, encoding, None if examples is None else examples[example])
        for example, windows in enumerate(encodings)
        for window, encoding in enumerate(windows)
    ]


def in_order(
    found: Mapping[int, Tensor], sources: Sequence[Source], head: nn.Module | None
) -> tuple[Tensor, Batch]:
    """The logits of all sequences as one tensor, and the batch that decoding reads.

    Args:
        found: logits of each sequence, by its number.
        sources: where each comes from.
        head: that made them.
    """
    whole = Batch.packed([source.encoding.ids for source in sources], sources=tuple(sources))
    return torch.cat([found[index] for index in range(len(sources))]), with_head(whole, head)
