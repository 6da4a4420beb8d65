"""The steps of a choice, from what candidates there are to the first that is good enough.

Each step stores what it finds (`state.py`), so a choice that is begun again goes through the same
steps and takes from the files what it knew. What is made of it at the end is in `ending.py`.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bothways.errors import (
    BadStepError,
    BothwaysError,
    CheckpointError,
    NotAsked,
    TrainingError,
    counted,
)
from bothways.evaluation.intervals import of_many
from bothways.ladder.candidates import Candidate, runs_folder
from bothways.ladder.ceiling import store
from bothways.ladder.climbing import Rung, judge, train
from bothways.ladder.costs import Cost, at_work, over_rounds
from bothways.ladder.deciding import Bar, cheapest_first
from bothways.ladder.dividing import Divided
from bothways.ladder.entries import Entry, best_of, entries_of
from bothways.ladder.evidence import Asked, Evidence, ahead, as_dict, evidence, why_it_cannot_win
from bothways.ladder.languages import language_of, language_of_vocabulary, mismatch
from bothways.ladder.published import recommended
from bothways.ladder.settings import ChooseSettings
from bothways.ladder.state import Memory, as_json, fingerprint
from bothways.training.recorder import OnEvent
from bothways.training.runtime import Runtime

logger = logging.getLogger(__name__)

# Costs are measured in so many rounds over all candidates, so that what else the machine does for a
# while rarely decides the order.
ROUNDS = 5
EVIDENCE, COST, RUNG = "evidence.json", "cost.json", "rung.json"
PROBABILITIES = "probabilities.npy"


class Choice:
    """One command: the data, what is known of each candidate, and what was spent.

    Args:
        settings: of the command.
        divided: the data.
        direction: 1 where more of the target's metric is better, -1 where less is.
        runtime: device and ranks.
        on_event: told what happens.

    Attributes:
        entries: the candidates; after `measure`, cheapest first.
        mismatches: sentences about candidates made for another language, by name.
        not_weighed: why there is no cheap evidence; empty where there is.
    """

    def __init__(
        self,
        settings: ChooseSettings,
        divided: Divided,
        direction: int,
        runtime: Runtime,
        on_event: OnEvent | None = None,
    ) -> None:
        self.settings, self.divided, self.splits = settings, divided, divided.splits
        self.direction, self.runtime, self.on_event = direction, runtime, on_event
        deciding = settings.deciding() | {"data as read": fingerprint(self.splits)}
        self.memory = Memory(as_json(deciding))
        self.rungs = settings.output / "rungs"
        self.entries: list[Entry] = []
        self.mismatches: dict[str, str] = {}
        self.not_weighed = ""

    def folder(self, entry: Entry) -> Path:
        """Where what is known of a candidate is stored."""
        return runs_folder(self.settings.output, entry.number, entry.source)

    def load(self, entry: Entry) -> Candidate:
        """A candidate with the data."""
        return Candidate.load(entry.source, entry.number, self.settings, self.splits)

    def gather(self) -> None:
        """Which candidates there are.

        Raises:
            CheckpointError: when none is named, and none of those recommended is on this machine.
        """
        texts = [example.text for example in self.splits.train]
        found = self.memory.recall(
            self.rungs / "language.json", lambda: {"language": language_of(texts)}
        )
        self.language: str | None = found["language"]
        names = self.settings.candidates
        if not names:
            listed = recommended(self.language, self.settings.task)
            told = ", ".join(
                f"{each.name} ({'here' if each.here else 'not here'})" for each in listed
            )
            logger.info("without --candidates, what the field tries first: %s", told)
            names = tuple(each.name for each in listed if each.here)
            if not names:
                raise CheckpointError(
                    f"no --candidates, and the hub's cache on this machine has none of those that "
                    f"the field tries first: {told}. Nothing is fetched unasked: name with "
                    "--candidates what may be fetched, or folders"
                )
        self.entries = entries_of(names)

    def measure(self) -> None:
        """What each costs, and the order that follows; those that cannot be loaded come last.

        Raises:
            CheckpointError: when none can.
        """
        logger.info("measuring what %s cost", counted(len(self.entries), "candidate"))
        known: dict[str, dict[str, Any]] = {}
        for entry in self.entries:
            path = self.folder(entry) / COST
            ask = partial(self.memory.recall, path, partial(self._estimate, entry))
            found = self._try(entry, ask)
            if found is not None:
                known[entry.source] = found
                self._compare_languages(entry, found.pop("language"))
        ready = [entry for entry in self.entries if entry.source in known]
        if not ready:
            listed = "\n".join(f"  {entry.source}: {entry.why}" for entry in self.entries)
            raise CheckpointError(f"no candidate can be loaded:\n{listed}")
        measured = self.memory.recall(self.rungs / "costs.json", partial(self._at_work, ready))
        costs = [Cost(**known[entry.source], **measured[entry.source]) for entry in ready]
        for entry, cost in zip(ready, costs, strict=True):
            entry.cost = cost
        order = cheapest_first(
            [each.latency_ms for each in costs], [each.size_mb for each in costs]
        )
        failed = [entry for entry in self.entries if entry.cost is None]
        self.entries = [*(ready[place] for place in order), *failed]

    def _try(
        self,
        entry: Entry,
        ask: Callable[[], dict[str, Any]],
        *,
        fatal: tuple[type[Exception], ...] = (),
    ) -> dict[str, Any] | None:
        """What is found of a candidate; None where it fails, which is then its outcome.

        A step that goes wrong is the candidate's fault; a run that cannot be stored is not.
        """
        try:
            return ask()
        except BothwaysError as error:
            others: tuple[type[Exception], ...] = (TrainingError, NotAsked, *fatal)
            if isinstance(error, others) and not isinstance(error, BadStepError):
                raise
            entry.settle("failed", str(error))
            logger.warning("%s is left out: %s", entry.name, error)
            return None

    def _estimate(self, entry: Entry) -> dict[str, Any]:
        candidate = self.load(entry)
        if candidate.data.ledger.lost:
            logger.warning("%s: %s", entry.name, candidate.data.ledger.sentence())
        tokenizer = candidate.base.tokenizer
        return {
            "size_mb": candidate.megabytes,
            "training_seconds": candidate.runner(self.settings, self.runtime).estimated_seconds(),
            "language": None if tokenizer is None else language_of_vocabulary(tokenizer),
        }

    def _compare_languages(self, entry: Entry, language: str | None) -> None:
        told = mismatch(self.language, language)
        if told:
            self.mismatches[entry.name] = told
            logger.warning("%s: %s", entry.name, told)

    def _at_work(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """Time and memory of each, measured in turn."""
        seed = self.settings.common.seed
        candidates = {entry.source: self.load(entry) for entry in entries}
        rounds = [
            {name: at_work(each, self.runtime, seed=seed) for name, each in candidates.items()}
            for _ in range(ROUNDS)
        ]
        return {name: over_rounds([each[name] for each in rounds]) for name in candidates}

    def limit(self) -> None:
        """Take out what is too slow or too large."""
        slowest, largest = self.settings.most_milliseconds, self.settings.most_megabytes
        for entry in self.entries:
            cost = entry.cost
            if cost is None:
                continue
            if slowest is not None and cost.latency_ms > slowest:
                told = f"{cost.latency_ms:.1f} ms a text; --max-latency is {slowest:g} ms"
                entry.settle("over a limit", told)
            elif largest is not None and cost.size_mb > largest:
                told = f"{cost.size_mb:.1f} MB; --max-size is {largest:g} MB"
                entry.settle("over a limit", told)

    def weigh(self) -> None:
        """Ask for cheap evidence, and leave out who cannot win."""
        open_ = [entry for entry in self.entries if entry.is_open]
        if len(open_) < 2:
            self.not_weighed = "there is only one to try"
            return
        logger.info("asking frozen states, before any fine-tuning")
        try:
            for entry in open_:
                entry.evidence = self._evidence(entry)
        except NotAsked as error:
            self.not_weighed = str(error)
            return
        # Every pair may be compared, and each candidate with its untrained twin.
        confidence = of_many(len(open_) * (len(open_) + 1) // 2)
        asked = {entry.source: _asked(entry) for entry in open_}
        for place, entry in enumerate(open_[1:], start=1):
            cheaper = [asked[other.source] for other in open_[:place] if other.is_open]
            other = ahead(asked[entry.source], cheaper, confidence)
            if other is None:
                continue
            untrained = self._evidence(entry, untrained=True)
            why = why_it_cannot_win(asked[entry.source], other, untrained, confidence)
            if why is not None:
                entry.settle("skipped", why)
                logger.info("%s is left out: %s", entry.name, why)

    def _evidence(self, entry: Entry, *, untrained: bool = False) -> Evidence:
        seed = self.settings.common.seed
        name = f"untrained-{EVIDENCE}" if untrained else EVIDENCE

        def find() -> dict[str, Any]:
            found = evidence(self.load(entry), self.runtime, seed=seed, untrained=untrained)
            return as_dict(found)

        return Evidence.from_dict(self.memory.recall(self.folder(entry) / name, find))

    def bar(self) -> Bar:
        """What is good enough, corrected for every look at dev that there may be."""
        metric, target = self.settings.wanted
        runs = self.settings.finetuning("", self.settings.output).num_runs
        looks = sum(entry.is_open for entry in self.entries) * runs * self.settings.loop.epochs
        return Bar(metric, target, self.direction, max(looks, 1))

    def climb(self, bar: Bar) -> None:
        """Fine-tune upwards until one clears the bar, or the budget ends.

        Raises:
            TrainingError: when the budget does not reach for one, or none could be tried.
        """
        for place, entry in enumerate(self.entries, start=1):
            if not entry.is_open or not self._affordable(entry):
                continue
            logger.info("rung %d of %d: %s", place, len(self.entries), entry.name)
            before = self.memory.spent
            path = self.folder(entry) / RUNG
            ask = partial(self.memory.recall, path, partial(self._rung, entry, bar))
            found = self._try(entry, ask, fatal=(CheckpointError,))
            if found is None:
                continue
            entry.rung, entry.seconds = Rung.from_dict(found), self.memory.spent - before
            cleared = entry.rung.cleared(bar)
            told = entry.rung.sentence(bar)
            entry.settle("chosen" if cleared else "below target", told)
            logger.info("%s: %s; target %g", entry.name, told, bar.target)
            self._forget_all_but_the_best(bar)
            if cleared:
                break
        if all(entry.rung is None for entry in self.entries):
            why = "\n".join(f"  {entry.source}: {entry.why}" for entry in self.entries)
            raise TrainingError(f"no candidate could be tried:\n{why}")

    def _forget_all_but_the_best(self, bar: Bar) -> None:
        """Delete the weights of candidates that will not be saved."""
        best = best_of(self.entries, bar.direction)
        for entry in self.entries:
            if entry.rung is not None and entry is not best:
                for folder in self.folder(entry).rglob("checkpoints"):
                    shutil.rmtree(folder, ignore_errors=True)

    def _affordable(self, entry: Entry) -> bool:
        """Whether the budget still has room for a candidate; says so where it has not."""
        budget, cost = self.settings.budget_seconds, entry.cost
        assert cost is not None
        if budget is None or (self.folder(entry) / RUNG).exists():
            return True
        if self.memory.spent + cost.training_seconds <= budget:
            return True
        told = (
            f"needs about {cost.training_seconds:.0f} s, and {self.memory.spent:.0f} s of the "
            f"budget of {budget:.0f} s are spent"
        )
        if all(other.rung is None for other in self.entries):
            raise TrainingError(
                f"the budget is too small for one candidate: the cheapest, {entry.name}, {told}; "
                "give a larger --budget with --resume, or begin anew with fewer --seeds or --epochs"
            )
        entry.settle("no budget", told)
        return False

    def _rung(self, entry: Entry, bar: Bar) -> dict[str, Any]:
        candidate = self.load(entry)
        trained = train(candidate, self.settings, self.runtime, self.on_event)
        rung, probabilities = judge(trained, bar, seed=self.settings.common.seed)
        if probabilities is not None:
            store(self.folder(entry) / PROBABILITIES, probabilities)
        return dataclasses.asdict(rung)


def _asked(entry: Entry) -> Asked:
    assert entry.cost is not None
    assert entry.evidence is not None
    return Asked(entry.name, entry.cost.size_mb, entry.evidence)
