"""The end of a choice: the best is judged once, on what nothing was chosen by, and saved."""

from __future__ import annotations

import dataclasses
import logging
import time

from bothways.evaluation.result import Figure, Finding, Metric, Report, Table
from bothways.files import write_text
from bothways.ladder.candidates import Candidate
from bothways.ladder.ceiling import SHOWN, ceiling, stored
from bothways.ladder.choice import PROBABILITIES, Choice
from bothways.ladder.climbing import Trained, train
from bothways.ladder.deciding import Bar
from bothways.ladder.dividing import DEV_SHARE, TEST_SHARE
from bothways.ladder.entries import best_of, cost_of_all
from bothways.ladder.findings import (
    candidates_finding,
    choice_finding,
    evidence_finding,
    language_finding,
    overlap_finding,
    training_finding,
)
from bothways.ladder.more_labels import SHARES, curve_of, more_labels
from bothways.ladder.page import ladder_tables, pareto_figures
from bothways.training.curve import CurvePoint, curve_figure, curve_table
from bothways.training.grid import grid
from bothways.training.output import RECIPE_NAME
from bothways.training.run_tables import DataSettings
from bothways.training.saving import judge_result, save_result

logger = logging.getLogger(__name__)

MODEL, BEST = "model", "best"


class Ending:
    """What is made of a choice whose rungs are climbed.

    Args:
        choice: with all that was found.
        bar: what is good enough.

    Attributes:
        best: the chosen candidate, else the best of those that were tried.
        folder: of its model.
    """

    def __init__(self, choice: Choice, bar: Bar) -> None:
        self.choice, self.bar, self.settings = choice, bar, choice.settings
        best = best_of(choice.entries, bar.direction)
        assert best is not None, "`climb` refuses to end without a rung"
        self.best, self.is_chosen = best, best.outcome == "chosen"
        self.folder = self.settings.output / (MODEL if self.is_chosen else BEST)

    def report(self) -> Report:
        """Judge and save the model, ask what is still to be asked, and say it all."""
        choice, begin = self.choice, time.perf_counter()
        candidate = choice.load(self.best)
        trained = train(candidate, self.settings, choice.runtime)
        report = self._save(candidate, trained)
        choice.memory.spent += time.perf_counter() - begin
        asked: list[Finding] = []
        tables: list[Table] = []
        figures: list[Figure] = []
        if not self.is_chosen:
            points = self._curve(candidate, trained)
            asked.append(
                more_labels(points, self.bar)
                if points
                else Finding("more labels", "not asked", "The budget did not reach for a curve.")
            )
            if points:
                tables.append(curve_table(points))
                figures.append(curve_figure(points))
        found = self._ceiling()
        if found is not None:
            asked.append(found[0])
            tables += found[1]
        findings = (
            choice_finding(
                choice.entries,
                self.best,
                self.bar,
                report.metrics[self.bar.metric],
                spent=choice.memory.spent,
                of_all=cost_of_all(choice.entries),
            ),
            *training_finding(choice.entries, self.bar),
            *asked,
            *candidates_finding(choice.entries),
            *language_finding(choice.mismatches),
            *overlap_finding(choice.divided),
            evidence_finding(choice.entries, choice.not_weighed),
        )
        files = self.settings.files
        return dataclasses.replace(
            report,
            data=report.data if files.test else f"a fifth of {files.data}",
            model=f"Chosen: {self.best.name}" if self.is_chosen else f"Best: {self.best.name}",
            metrics=_first(report.metrics, self.bar.metric),
            findings=(*findings, *report.findings),
            figures=(*pareto_figures(choice.entries, self.bar), *figures, *report.figures),
            tables=(*ladder_tables(choice.entries, self.bar), *tables, *report.tables),
        )

    def _save(self, candidate: Candidate, trained: Trained) -> Report:
        """Write the model, judged on test."""
        splits = dataclasses.replace(trained.data.splits, test=self.choice.splits.test)
        data = dataclasses.replace(trained.data, splits=splits)
        given = dataclasses.replace(candidate.given, output=self.folder, data=self._files())
        report = judge_result(given, data, trained.parts)
        runs = {spec.name: spec.folder for spec in grid(candidate.given)}
        log = runs[trained.best.name] / "metrics.jsonl"
        save_result(given, data, trained.parts, report, trained.runs, log=log)
        write_text(self.folder / RECIPE_NAME, given.recipe())
        return report

    def _files(self) -> DataSettings:
        """The files in the words of fine-tuning."""
        files = self.settings.files
        share = None if files.dev else TEST_SHARE if files.data else DEV_SHARE
        return DataSettings(
            files.whole,
            dev=files.dev,
            dev_share=share,
            test=files.test,
            text=files.text,
            text_pair=files.text_pair,
            label=files.label,
            group=files.group,
        )

    def _curve(self, candidate: Candidate, trained: Trained) -> list[CurvePoint]:
        """The learning curve of the best; empty where the budget does not reach for it."""
        choice, cost = self.choice, self.best.cost
        assert cost is not None
        path, budget = choice.rungs / "curve.json", self.settings.budget_seconds
        runs = len(trained.runs)
        needed = cost.training_seconds / runs * sum(share for share in SHARES if share < 1.0)
        if budget is not None and not path.exists() and choice.memory.spent + needed > budget:
            return []
        logger.info("would more labels help? %s learns from parts of the data", self.best.name)
        runner = candidate.runner(self.settings, choice.runtime, choice.on_event)
        found = choice.memory.recall(
            path,
            lambda: {
                "points": [dataclasses.asdict(p) for p in curve_of(candidate, trained, runner)]
            },
        )
        return [
            CurvePoint(**{**point, "score": Metric(**point["score"])}) for point in found["points"]
        ]

    def _ceiling(self) -> tuple[Finding, list[Table]] | None:
        """What the labels allow, where each example has one; else None."""
        choice, splits = self.choice, self.choice.splits
        dev = splits.dev
        assert dev is not None
        tried = [entry for entry in choice.entries if entry.rung is not None]
        found = [stored(choice.folder(entry) / PROBABILITIES) for entry in tried]
        known = [each for each in found if each is not None]
        if len(known) < len(tried):
            return None
        everything = [*splits.train, *dev, *(splits.test or ())]
        seed = self.settings.common.seed
        top, other = ceiling(splits.task, dev, known, self.bar, everything=everything, seed=seed)
        rows = tuple(
            (example.text[:200], str(example.label), splits.task.labels[label], example.place)
            for example, label in zip(dev, other, strict=True)
            if label >= 0
        )
        columns = ("text", "its label", "what all models say", "where")
        title = f"Labels that every model contradicts (the first {SHOWN} of {len(rows)})"
        tables = [Table("contested", title, columns, rows[:SHOWN])] if rows else []
        return top.finding(self.bar), tables


def _first(metrics: dict[str, Metric], name: str) -> dict[str, Metric]:
    """The same with one of them in front."""
    return {name: metrics[name], **metrics}
