"""Errors: where the model is wrong, and where it is wrong and sure of it.

What is confused with what, kinds of mistakes and scores by kind of example come from the judging
of each task (`evaluation/`); here are the mistakes themselves, the most confident first, with
their texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bothways.data.problems import shown
from bothways.diagnostics.evidence import Evidence
from bothways.errors import NotAsked, agreeing, counted
from bothways.evaluation.result import Figure, Finding, Table
from bothways.tasks.results import ChoiceResult, LabelResult, TagResult

LISTED = 20
TEXT_SHOWN = 160
# A mistake with at least this probability counts as confident.
SURE = 0.9
# What the judging shows that is no error.
OTHER_TABLES = {"examples", "cut", "dimensions"}
OTHER_FIGURES = {"baselines"}


@dataclass(frozen=True)
class Mistake:
    """Something wrong.

    Attributes:
        place: `file, line 12`, or nothing.
        text: what was read, cut to TEXT_SHOWN characters.
        expected: what would have been right.
        said: what the model said.
        probability: of that.
    """

    place: str
    text: str
    expected: str
    said: str
    probability: float


@dataclass(frozen=True)
class Errors:
    """Where the model is wrong.

    Attributes:
        told: the weakest label and the commonest mistake.
        mistakes: all that can be told apart, the most confident first.
        drawn: figures of what is confused with what.
        listed: tables of the same, and of scores by kind of example.
    """

    told: tuple[Finding, ...]
    mistakes: tuple[Mistake, ...]
    drawn: tuple[Figure, ...]
    listed: tuple[Table, ...]

    def findings(self) -> tuple[Finding, ...]:
        """What goes wrong, and how sure the model is of it."""
        told = self.told or (Finding("errors", "fine", "The largest errors are listed."),)
        if not self.mistakes:
            return told
        sure = sum(mistake.probability >= SURE for mistake in self.mistakes)
        worst = self.mistakes[0]
        text = (
            f"{told[0].text} {sure:,} of {counted(len(self.mistakes), 'mistake')} "
            f"{agreeing(sure, 'were')} made with a probability of {SURE} or more; the most "
            f"confident takes {worst.expected} for {worst.said}, in {shown(worst.text, 80)}."
        )
        numbers = {**told[0].numbers, "mistakes": len(self.mistakes), "confident_mistakes": sure}
        return (replace(told[0], text=text, numbers=numbers), *told[1:])

    def figures(self) -> tuple[Figure, ...]:
        """Scores of each label, and what is confused with what."""
        return self.drawn

    def tables(self) -> tuple[Table, ...]:
        """The most confident mistakes with their texts, and what the judging lists."""
        rows = tuple(
            (each.place, each.text, each.expected, each.said, each.probability)
            for each in self.mistakes[:LISTED]
        )
        columns = ("place", "text", "expected", "predicted", "probability")
        title = "The most confident mistakes, with their texts"
        texts = (Table("errors_texts", title, columns, rows),) if rows else ()
        return (*texts, *self.listed)


def errors(evidence: Evidence) -> Errors:
    """List what is wrong.

    Args:
        evidence: to ask.

    Raises:
        NotAsked: where the judging of this task tells no mistakes apart.
    """
    report = evidence.report
    found = Errors(
        told=tuple(finding for finding in report.findings if finding.question == "errors"),
        mistakes=tuple(sorted(_mistakes(evidence), key=lambda each: -each.probability)),
        drawn=tuple(
            replace(figure, name=f"errors_{figure.name}")
            for figure in report.figures
            if figure.name not in OTHER_FIGURES
        ),
        listed=tuple(
            replace(table, name=f"errors_{table.name}")
            for table in report.tables
            if table.name not in OTHER_TABLES and table.rows
        ),
    )
    if not (found.told or found.mistakes or found.listed):
        raise NotAsked(f"Single mistakes of the task {evidence.task.name} are not told apart.")
    return found


def _mistakes(evidence: Evidence) -> Iterator[Mistake]:
    for example, result in zip(evidence.examples, evidence.results, strict=True):
        read = example.text if example.pair is None else f"{example.text} / {example.pair}"
        text = read if len(read) <= TEXT_SHOWN else f"{read[:TEXT_SHOWN]}..."
        if isinstance(result, LabelResult) and result.label != example.label:
            pair = (repr(example.label), repr(result.label))
            yield Mistake(example.place, text, *pair, result.probability)
        elif isinstance(result, ChoiceResult) and result.index != example.label:
            right = example.choices[example.label]
            yield Mistake(example.place, text, repr(right), repr(result.choice), result.probability)
        elif isinstance(result, TagResult):
            yield from _wrong_spans(evidence, example, result, text)


def _wrong_spans(
    evidence: Evidence, example: object, result: TagResult, text: str
) -> Iterator[Mistake]:
    """Predicted spans that are not there, each beside the true ones that it overlaps."""
    spans = evidence.task.spans  # type: ignore[attr-defined]
    truth, tags = spans(example.tags), result.tags  # type: ignore[attr-defined]
    for start, end, kind in set(spans(tags)) - set(truth):
        there = [each for each in truth if each[0] < end and start < each[1]]
        probability = 1.0
        for word in result.probabilities[start:end]:
            probability *= word
        yield Mistake(
            getattr(example, "place", ""),
            text,
            ", ".join(_named(result, each) for each in there) or "nothing",
            _named(result, (start, end, kind)),
            probability,
        )


def _named(result: TagResult, span: tuple[int, int, str]) -> str:
    return f"{' '.join(result.words[span[0] : span[1]])!r} ({span[2]})"
