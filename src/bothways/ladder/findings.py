"""What a choice found, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bothways.errors import agreeing, counted
from bothways.evaluation.result import Finding, Metric
from bothways.ladder.deciding import Bar
from bothways.ladder.dividing import Divided
from bothways.ladder.entries import Entry

# Metrics that are near the mean accuracy of the labels, which probes are judged by.
LIKE_A_PROBE = ("accuracy", "f1_macro")


def choice_finding(
    entries: Sequence[Entry],
    best: Entry,
    bar: Bar,
    tested: Metric,
    *,
    spent: float,
    of_all: float,
) -> Finding:
    """What was chosen, on which grounds, and what it took.

    Args:
        entries: all candidates.
        best: the one that is saved.
        bar: what is good enough.
        tested: its score on what nothing was chosen by.
        spent, of_all: seconds spent, and that fine-tuning every candidate would take.
    """
    goal = f"{bar.metric} {'>=' if bar.direction == 1 else '<='} {bar.target:g}"
    took = f"{clock(spent)} were spent; fine-tuning all would take about {clock(of_all)}."
    numbers: dict[str, float | int | str | None] = {
        "target": bar.target,
        "looks": bar.looks,
        "spent_seconds": spent,
        "all_seconds": of_all,
    }
    if best.outcome != "chosen":
        untried = [entry.name for entry in entries if entry.outcome == "no budget"]
        more = f" The budget did not reach {', '.join(untried)}." if untried else ""
        text = (
            f"No candidate is shown to reach {goal}. The best, {best.name}, has {best.why} on what "
            f"chooses, and {tested} on what nothing was chosen by.{more} {took}"
        )
        return Finding("choice", "alarm", text, numbers)
    text = (
        f"{best.name} is the cheapest that is shown to reach {goal}: {best.why} on what chooses, "
        f"which holds with 95 % for all {counted(bar.looks, 'look')} together, and {tested} on "
        f"what nothing was chosen by. {took}"
    )
    if not confirmed(tested, bar):
        text += " What nothing was chosen by contradicts the choice: do not rely on it."
        return Finding("choice", "alarm", text, numbers)
    return Finding("choice", "fine", text, numbers)


def confirmed(tested: Metric, bar: Bar) -> bool:
    """Whether a score on what nothing was chosen by leaves the target possible."""
    end = tested.high if bar.direction == 1 else tested.low
    return bar.reached_by(tested.value if end is None else end)


def evidence_finding(entries: Sequence[Entry], reason: str) -> Finding:
    """Who was left out on cheap evidence, and why.

    Args:
        entries: all candidates.
        reason: why nobody was asked; empty where they were.
    """
    if reason:
        return Finding("evidence", "not asked", f"No candidate could be left out early: {reason}.")
    skipped = [entry for entry in entries if entry.outcome == "skipped"]
    if not skipped:
        return Finding("evidence", "fine", "Cheap evidence gave no ground to leave anyone out.")
    told = " ".join(f"{entry.name} was left out: {entry.why}." for entry in skipped)
    return Finding("evidence", "fine", told, {"left_out": len(skipped)})


def training_finding(entries: Sequence[Entry], bar: Bar) -> list[Finding]:
    """Who reached less than a linear probe of its own frozen states; nothing where nobody did.

    Args:
        entries: all candidates.
        bar: its metric must be one that a probe's accuracy can be compared with.
    """
    short = [
        f"{entry.name} {entry.rung.score.value:.3f}, its linear probe {entry.evidence.probe:.3f}"
        for entry in entries
        if bar.metric in LIKE_A_PROBE
        and entry.rung is not None
        and entry.evidence is not None
        and entry.rung.score.high is not None
        and entry.rung.score.high < entry.evidence.probe
    ]
    if not short:
        return []
    text = (
        "Fine-tuning led to less than the frozen states already tell, so it was too short, and "
        f"these may do better: {'; '.join(short)}. Choose again with more --epochs or a larger "
        "--learning-rate."
    )
    return [Finding("training", "alarm", text, {"candidates": len(short)})]


def candidates_finding(entries: Sequence[Entry]) -> list[Finding]:
    """Who failed; nothing where all could be tried."""
    failed = [entry for entry in entries if entry.outcome == "failed"]
    if not failed:
        return []
    told = " ".join(f"{entry.name}: {entry.why.rstrip('.')}." for entry in failed)
    could = f"{len(failed)} of {counted(len(entries), 'candidate')} could not be tried. {told}"
    return [Finding("candidates", "note", could, {"failed": len(failed)})]


def overlap_finding(divided: Divided) -> list[Finding]:
    """What was taken out because it would leak; nothing where nothing was."""
    counts = {
        "what is learned from": divided.removed,
        "what chooses": divided.removed_dev,
    }
    told = [f"{counted(count, 'example')} of {part}" for part, count in counts.items() if count]
    if not told:
        return []
    total = sum(counts.values())
    text = (
        f"{' and '.join(told)} {agreeing(total, 'were')} taken out, because the same text stands "
        "in what is judged on."
    )
    return [Finding("duplicates", "note", text, {"removed": total})]


def language_finding(mismatches: Mapping[str, str]) -> list[Finding]:
    """Candidates made for another language; nothing where all fit.

    Args:
        mismatches: sentences by name of the candidate.
    """
    if not mismatches:
        return []
    told = "; ".join(f"{name}: {words}" for name, words in mismatches.items())
    text = f"Made for another language than the texts are in: {told}."
    return [Finding("language", "note", text, {"candidates": len(mismatches)})]


def clock(seconds: float) -> str:
    """A time as people say it.

    Example:
        >>> clock(95.0), clock(600.0)
        ('95 s', '10.0 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
