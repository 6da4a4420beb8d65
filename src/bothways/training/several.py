"""Several heads over one encoder, trained together: data, batches, loss, scores, judgement.

Each head keeps a task, data and settings of its own, as if it were trained alone; here they are put
together for one run. Batches hold texts of one head and alternate in proportion to how many each
has. What is chosen by is the mean of the heads' own main metrics. Predicting is in
`inference/several.py`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from bothways.checkpoints.parts import Parts
from bothways.errors import DataError
from bothways.evaluation.result import Figure, Metric, Report, Table
from bothways.inference.model import Model
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch
from bothways.tasks.task import Columns, Task
from bothways.tokenization.encoding import Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.training.batching import steps_of_epochs
from bothways.training.examples import (
    EncodedExamples,
    Splits,
    TrainingData,
    file_options,
    new_task,
    read_splits,
)
from bothways.training.freezing import HeadObjective
from bothways.training.objectives import Objective, Part, TaskObjective
from bothways.training.settings import FinetuneSettings

MEAN = "mean"
Shown = TypeVar("Shown", Figure, Table)


@dataclass(frozen=True)
class SeveralTask:
    """Tasks by the names of their heads: what a run asks of a task, asked of them all.

    Reading, loss and decoding are those of each.
    """

    tasks: Mapping[str, Task[Any]]

    name = "several"
    labels = ()
    columns = Columns()
    main_metric = MEAN

    @property
    def metric_directions(self) -> dict[str, int]:
        """The mean of the main metrics, and each head's own by `head.metric`."""
        own = {
            f"{name}.{metric}": direction
            for name, task in self.tasks.items()
            for metric, direction in task.metric_directions.items()
        }
        return {MEAN: 1, **own}

    def scores(self, found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Scores of every head under one roof."""
        own = {
            f"{name}.{key}": value for name, each in found.items() for key, value in each.items()
        }
        main = [found[name][task.main_metric] for name, task in self.tasks.items()]
        return {MEAN: statistics.fmean(main), **own}

    def finish(self, parts: Parts) -> Parts:
        """The trained parts, each head as its task leaves it, in place."""
        assert isinstance(parts.head, nn.ModuleDict)
        for name, task in self.tasks.items():
            if hasattr(task, "finish"):
                task.finish(dataclasses.replace(parts, head=parts.head[name]))
        return parts

    def state(self) -> dict[str, Any]:
        """Nothing: bothways.json has the tasks under "heads"."""
        return {}


class SeveralExamples:
    """The encoded examples of every head, numbered one head after another.

    Args:
        parts: of each head.
    """

    def __init__(self, parts: Mapping[str, EncodedExamples]) -> None:
        self.parts = parts
        self._names = list(parts)
        self._starts = [0, *accumulate(len(part.examples) for part in parts.values())]
        self.examples = [example for part in parts.values() for example in part.examples]
        self.ledger = Ledger.total(part.ledger for part in parts.values())

    def lists(self) -> list[list[int]]:
        """Examples that one step must read together."""
        return [
            [start + index for index in each]
            for start, part in zip(self._starts, self.parts.values(), strict=False)
            for each in part.lists()
        ]

    def batch(self, indices: Sequence[int]) -> Batch:
        """A batch of examples of one head, which it names."""
        number = bisect_right(self._starts, indices[0]) - 1
        name, start = self._names[number], self._starts[number]
        own = self.parts[name].batch([index - start for index in indices])
        return dataclasses.replace(own, head=name)

    def fingerprint(self) -> str:
        """A hash of all, as of one."""
        words = "".join(name + part.fingerprint() for name, part in self.parts.items())
        return hashlib.blake2b(words.encode(), digest_size=16).hexdigest()


class SeveralObjective(Objective):
    """The losses of several heads over one encoder, a part each; a batch is of one of them.

    Args:
        encoder: shared; None where it does not learn.
        heads: by name.
        each: the objective of each head alone, over the same modules.
    """

    def __init__(
        self,
        encoder: Encoder | None,
        heads: nn.ModuleDict,
        each: Mapping[str, TaskObjective | HeadObjective],
    ) -> None:
        super().__init__()
        self.encoder, self.heads = encoder, heads
        self.each = dict(each)  # no module of this one: the parameters are in it already
        self.parts = tuple(Part(f"{name}.loss") for name in each)

    def forward(self, batch: Batch) -> Tensor:
        """The sum of the losses of the batch's head, and nothing of the others, (heads,)."""
        own = self.each[batch.head](batch)
        nothing = own.new_zeros(())
        return torch.stack([own if name == batch.head else nothing for name in self.each])

    def counts(self, batch: Batch) -> tuple[int, ...]:
        """The units of the batch's head."""
        own = self.each[batch.head].count(batch)
        return tuple(own if name == batch.head else 0 for name in self.each)

    def flops(self, batch: Batch) -> float:
        """Of the batch's head."""
        return self.each[batch.head].flops(batch)


def several_task(settings: FinetuneSettings) -> SeveralTask:
    """The tasks of all heads, before they have seen examples."""
    return SeveralTask({name: new_task(alone) for name, alone in settings.alone.items()})


def together(heads: Mapping[str, TrainingData], policy: CutPolicy) -> TrainingData:
    """The data of all heads as one; `policy` is of who asks for no head."""
    dev = {name: data.dev for name, data in heads.items() if data.dev is not None}
    splits = [data.splits for data in heads.values()]
    task: Any = SeveralTask({name: data.splits.task for name, data in heads.items()})
    test = [example for each in splits for example in each.test or ()]
    train: Any = SeveralExamples({name: data.train for name, data in heads.items()})
    held_out: Any = SeveralExamples(dev) if dev else None
    return TrainingData(
        Splits(task, train.examples, held_out and held_out.examples, test or None),
        train,
        held_out,
        policy,
        heads,
    )


def read_several(settings: FinetuneSettings, task: SeveralTask, model: Model) -> TrainingData:
    """Read and encode what every head learns from, cut as each would be alone.

    Raises:
        DataError: for whatever is wrong with the files of a head, with its name.
    """
    found = {}
    for name, alone in settings.alone.items():
        policy = policy_of(alone, task.tasks[name], model)
        try:
            splits = read_splits(alone, task.tasks[name])
        except DataError as error:
            raise DataError(f"[[task]] {name}: {error}") from error
        found[name] = TrainingData.encode(splits, model.tokenizer, policy)
    return together(found, model.policy(settings.common.max_length))


def policy_of(settings: FinetuneSettings, task: Any, model: Model) -> CutPolicy:
    """What is kept of long texts: as the settings say, else as the task wants it."""
    common = settings.common
    kept = common.policy or getattr(task, "default_policy", None)
    return model.policy(common.max_length, kept, common.overlap)


def steps_of_several(
    settings: FinetuneSettings, data: TrainingData, *, seed: int, num_ranks: int
) -> Callable[[int], Sequence[Sequence[int]]]:
    """The steps of an epoch: those of each head, spread evenly over it.

    A head with a weight of 2 is read twice in each epoch; of one with 0.5, an epoch reads half of
    the batches, in another order each time.
    """
    weights = {head.name: head.weight for head in settings.heads}
    plans, start = [], 0
    for name, alone in settings.alone.items():
        own = data.heads[name].train
        count = len(own.examples)
        plan = steps_of_epochs(alone, own, seed=seed, count=count, num_ranks=num_ranks)
        plans.append((plan, weights[name], start))
        start += len(own.lists())

    def steps(epoch: int) -> list[list[int]]:
        found: list[tuple[float, int, list[int]]] = []
        for number, (plan, weight, first) in enumerate(plans):
            passes = math.ceil(weight)
            whole = [step for each in range(passes) for step in plan(epoch * passes + each)]
            some = whole[: max(1, round(len(whole) * weight / passes))]
            found += [
                ((place + 0.5) / len(some), number, [first + index for index in step])
                for place, step in enumerate(some)
            ]
        return [step for _, _, step in sorted(found)]

    return steps


def name_heads(parts: Parts, settings: FinetuneSettings, data: TrainingData) -> Parts:
    """The parts with what bothways.json says of each head; as they are where there is one."""
    if not data.heads:
        return parts
    heads = {
        name: {
            "task": own.splits.task.state(),
            "labels": list(own.splits.task.labels),
            "columns": dataclasses.asdict(own.splits.task.columns),
            "files": file_options(settings.alone[name]).state(),
            "policy": own.policy.keep,
            "overlap": own.policy.overlap,
        }
        for name, own in data.heads.items()
    }
    return dataclasses.replace(parts, settings={**parts.settings, "heads": heads})


def one_report(reports: Mapping[str, Report]) -> Report:
    """The reports of all heads as one, whose first metric is the mean of their first ones."""
    named = [
        dataclasses.replace(
            report,
            metrics=_prefixed(name, report.metrics),
            findings=tuple(
                dataclasses.replace(each, text=f"{name}: {each.text}") for each in report.findings
            ),
            tables=tuple(_titled(name, each) for each in report.tables),
            figures=tuple(_titled(name, each) for each in report.figures),
        )
        for name, report in reports.items()
    ]
    first = [next(iter(report.metrics.values())) for report in named if report.metrics]
    mean = {MEAN: Metric(statistics.fmean(each.value for each in first))} if first else {}
    rivals = dict.fromkeys(rival for report in named for rival in report.baselines)
    return dataclasses.replace(
        named[0],
        task=SeveralTask.name,
        data="; ".join(dict.fromkeys(report.data for report in named)),
        metrics=mean | {key: value for report in named for key, value in report.metrics.items()},
        baselines={
            rival: {
                key: value
                for name, report in reports.items()
                for key, value in _prefixed(name, report.baselines.get(rival, {})).items()
            }
            for rival in rivals
        },
        findings=tuple(each for report in named for each in report.findings),
        figures=tuple(each for report in named for each in report.figures),
        tables=tuple(each for report in named for each in report.tables),
        ledger=Ledger.total(report.ledger for report in named),
        count=sum(report.count for report in named),
        seconds=sum(report.seconds for report in named),
    )


def _prefixed(name: str, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    return {f"{name}.{metric}": value for metric, value in metrics.items()}


def _titled(name: str, shown: Shown) -> Shown:
    return dataclasses.replace(shown, name=f"{name}.{shown.name}", title=f"{name}: {shown.title}")
