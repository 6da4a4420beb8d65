"""Several heads over one encoder: each as parts of its own, and all of them in one pass.

What each head is for stands in bothways.json under "heads". A text that several heads read alike
runs once; where one reads it otherwise (words of a tagger, windows of another task), its sequences
run in the same batches. Training is in `training/several.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bothways.checkpoints.parts import Parts, head_class
from bothways.data.collate import Source
from bothways.data.rows import Row
from bothways.errors import DataError, UntrainedHeadError
from bothways.inference.logits import in_order, sources_of
from bothways.inference.predictor import evaluating, run
from bothways.inference.results import Results
from bothways.model.encoder import EncoderOutput
from bothways.model.layout import Batch, Layout
from bothways.tasks.registry import task_from_state
from bothways.tasks.results import SeveralResult
from bothways.tasks.task import Columns, Task
from bothways.tokenization.encoding import Policy
from bothways.tokenization.policy import CutPolicy

if TYPE_CHECKING:
    from bothways.inference.model import Model


def one_head(parts: Parts, name: str) -> Parts:
    """The encoder under one of its heads, as a folder of that head alone would hold it."""
    stored = dict(parts.settings["heads"][name])
    labels, problem = tuple(stored.pop("labels", ())), stored["task"].get("problem_type")
    assert isinstance(parts.head, nn.ModuleDict)
    head = parts.head[name]
    kind = getattr(task_from_state(stored["task"]), "head_kind", None)
    return dataclasses.replace(
        parts,
        head=head,
        labels=labels,
        problem_type=problem,
        settings={key: value for key, value in parts.settings.items() if key != "heads"} | stored,
        architecture=head_class(parts.family, head, parts.config, parts.raw, kind=kind)
        or parts.family.bare,
    )


def policies(
    model: Model,
    max_length: int | None = None,
    keep: Policy | None = None,
    overlap: int | None = None,
) -> CutPolicy | dict[str, CutPolicy]:
    """How long texts may be and what is kept, as `Model.policy` says it: of each head by its name.

    A model that has no named heads has one policy.
    """
    asked = (max_length, keep, overlap)
    return {name: one.policy(*asked) for name, one in model.heads.items()} or model.policy(*asked)


@dataclass(frozen=True)
class Together:
    """A row as each head reads it: examples by name of the head."""

    examples: Mapping[str, Any]


@dataclass(frozen=True)
class RowsOfAll:
    """Reads the rows of a file for every head.

    Attributes:
        tasks: of the heads, by name.
        columns: that were asked for; a head's own stand for the others, where the file has them.
    """

    tasks: Mapping[str, Task[Any]]
    columns: Columns

    def read(self, rows: Sequence[Row], *, labelled: bool = False) -> list[Together]:
        """A `Together` a row.

        Raises:
            DataError: for what a head cannot read, with its name.
        """
        names = {name for row in rows for name in row.cells}
        found: dict[str, list[Any]] = {}
        for name, task in self.tasks.items():
            own = {field: c for field, c in vars(task.columns).items() if c in names}
            asked = {field: c for field, c in vars(self.columns).items() if c is not None}
            reader = dataclasses.replace(task, columns=Columns(**{**own, **asked}))  # type: ignore[type-var]
            try:
                found[name] = reader.read(rows, labelled=labelled)
            except DataError as error:
                raise DataError(f"the head {name!r} ({task.name}): {error}") from error
        return [
            Together(dict(zip(found, each, strict=True)))
            for each in zip(*found.values(), strict=True)
        ]


def several_stream(
    model: Model,
    parts: Iterable[Sequence[Any]],
    *,
    policy: CutPolicy | Mapping[str, CutPolicy],
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Iterator[Results]:
    """What every head says of examples, part by part.

    The ledger is that of the head that lost most: all read the same texts.

    Args:
        model: with several heads.
        parts: lists of what every head takes, such as texts; or of `Together`.
        policy: for all heads, or of each, as `policies` gives them.
        batch_tokens, on_batch: as `Model.predict` has them.

    Raises:
        UntrainedHeadError: when the weights of the heads are random.
    """
    if not model.parts.head_trained:
        raise UntrainedHeadError(
            "the weights of the heads are random, so their predictions mean nothing; train them "
            "with `bothways finetune` first"
        )
    for chunk in parts:
        sources, ledgers, lost = {}, [], []
        for name, one in model.heads.items():
            assert one.task is not None
            own = [each.examples[name] if isinstance(each, Together) else each for each in chunk]
            given = one.task.examples(own)
            cut = policy[name] if isinstance(policy, Mapping) else policy
            encodings, ledger = one.task.encode_all(given, model.tokenizer, cut)
            sources[name] = sources_of(encodings, given)
            ledgers.append(ledger)
            lost.append([windows[0].tokens_cut for windows in encodings])
        decoded = {
            name: model.heads[name].task.decode(logits, batch)  # type: ignore[union-attr]
            for name, (logits, batch) in _run(
                model, sources, batch_tokens=batch_tokens, on_batch=on_batch
            ).items()
        }
        worst = max(range(len(ledgers)), key=lambda index: ledgers[index].tokens_cut)
        results = [
            SeveralResult(dict(zip(decoded, each, strict=True)))
            for each in zip(*decoded.values(), strict=True)
        ]
        yield Results(results, ledgers[worst], lost[worst])


def _run(
    model: Model,
    sources: Mapping[str, Sequence[Source]],
    *,
    batch_tokens: int | None,
    on_batch: Callable[[int], None] | None,
) -> dict[str, tuple[Tensor, Batch]]:
    """Logits and batch of every head, in input order, each distinct sequence encoded once."""
    places: dict[tuple[Any, ...], dict[str, list[int]]] = {}
    for name, own in sources.items():
        for number, source in enumerate(own):
            pieces = source.encoding
            key = (source.example, tuple(pieces.ids), tuple(pieces.type_ids))
            places.setdefault(key, {}).setdefault(name, []).append(number)
    readers = list(places.values())
    ids, types = [key[1] for key in places], [key[2] for key in places]
    found: dict[str, dict[int, Tensor]] = {name: {} for name in sources}
    with evaluating(model.head):
        for indices, output, batch in run(
            model.encoder,
            lambda output, _: output,
            ids,
            type_ids=types if any(map(any, types)) else None,
            batch_tokens=batch_tokens,
            on_batch=on_batch,
        ):
            for name, own in sources.items():
                mine = [row for row, index in enumerate(indices) if name in readers[index]]
                if not mine:
                    continue
                numbers = [readers[indices[row]][name] for row in mine]
                logits = _logits(
                    model.heads[name], output, batch, mine, [own[each[0]] for each in numbers]
                )
                for each, part in zip(numbers, logits, strict=True):
                    found[name].update(dict.fromkeys(each, part))
    return {
        name: in_order(found[name], own, model.heads[name].head) for name, own in sources.items()
    }


def _logits(
    one: Model, output: EncoderOutput, batch: Batch, mine: Sequence[int], sources: Sequence[Source]
) -> Sequence[Tensor]:
    """What a head makes of some sequences of a batch, one tensor a sequence."""
    head, reads = one.head, getattr(one.task, "reads", None)
    assert head is not None
    layout = batch.layout
    if len(mine) < layout.num_sequences:
        spans = layout.split(output.last_hidden)
        pooled = None if output.pooled is None else output.pooled[mine]
        output = EncoderOutput(torch.cat([spans[row] for row in mine]), pooled=pooled)
        lengths = [layout.lengths[row] for row in mine]
        batch = Batch(
            torch.cat([layout.split(batch.ids)[row] for row in mine]),
            Layout.packed(lengths, batch.ids.device),
        )
    targets = {} if reads is None else reads(sources)
    batch = dataclasses.replace(batch, targets=targets).to(batch.ids.device)
    with torch.inference_mode():
        logits: Tensor = head(output, batch).float().cpu()
    return (
        batch.layout.split(logits)
        if getattr(head, "unit", "sequence") == "token"
        else logits.split(1)
    )
