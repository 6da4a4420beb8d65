"""Which examples each step of an epoch reads, as the settings ask for it.

How lengths become batches is in `data/sampling.py`, how batches become parts of a step in
`feed.py`, which texts are drawn where labels are balanced in `balanced.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from bothways.data.sampling import plan_batches
from bothways.errors import UsageError, agreeing, counted
from bothways.tasks.embed import EmbedTask
from bothways.training.balanced import balanced_epoch
from bothways.training.examples import EncodedExamples
from bothways.training.few_shot import few_shot_plan
from bothways.training.settings import DEFAULT_BATCH_SIZE, FinetuneSettings

logger = logging.getLogger(__name__)


def smallest_batch(settings: FinetuneSettings, data: EncodedExamples, num_ranks: int) -> int:
    """Examples that every step needs, so that each part on each rank has what to compare.

    Raises:
        UsageError: when the batch size or the data are below that.
    """
    task, loop = data.task, settings.loop
    if not isinstance(task, EmbedTask):
        return 1
    smallest = task.smallest_batch * loop.accumulate * num_ranks
    size, count = settings.batch_size or smallest, len(data.examples)
    if min(size, count) < smallest:
        parts, ranks = counted(loop.accumulate, "part"), counted(num_ranks, "rank")
        raise UsageError(
            f"the loss compares the texts of a batch, so a step needs at least {smallest} "
            f"examples ({task.smallest_batch} for each of {parts} on {ranks}); --batch-size is "
            f"{size}, and there {agreeing(count, 'are')} {counted(count, 'training example')}"
        )
    return smallest


def steps_of_epochs(
    settings: FinetuneSettings, data: EncodedExamples, *, seed: int, count: int, num_ranks: int
) -> Callable[[int], Sequence[Sequence[int]]]:
    """The steps of an epoch, as a function of its number: which lists of examples each has.

    Args:
        settings: of the command.
        data: what is learned from, copies of rare labels among it where labels are balanced.
        seed: of the run.
        count: examples without copies.
        num_ranks: that share a step.
    """
    smallest, lists = smallest_batch(settings, data, num_ranks), data.lists()
    labels = [getattr(example, "label", "") for example in data.examples]
    size = settings.batch_size
    if settings.tuning.few_shot:
        size = size or DEFAULT_BATCH_SIZE
        return few_shot_plan(labels, batch_size=size, seed=seed)
    lengths = [sum(data.lengths[index] for index in each) for each in lists]

    def plan(epoch: int, smallest: int = smallest) -> list[list[int]]:
        places = list(range(len(lists)))
        if settings.tuning.sampling == "balanced":  # each list is then one example
            places = balanced_epoch(labels, count, seed=seed, epoch=epoch)
        batches = plan_batches(
            [lengths[place] for place in places],
            batch_size=size and max(1, size * len(lists) // len(data.lengths)),
            batch_tokens=settings.common.batch_tokens,
            seed=seed,
            epoch=epoch,
            smallest=smallest,
        )
        return [[places[index] for index in batch] for batch in batches]

    first = [] if smallest == 1 else plan(0, 1)
    joined = len(first) and len(first) - len(plan(0))
    if joined:
        logger.info(
            "in the first epoch %d of %s would have fewer than %d examples, too few to compare: "
            "joined with a neighbour",
            *(joined, counted(len(first), "batch", "batches"), smallest),
        )
    return plan
