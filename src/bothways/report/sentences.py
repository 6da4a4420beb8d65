"""Five plain sentences about a report: what was found, worst first, and what to do next.

Rules over findings and scores, for the first screen of the page and the top of report.md; no
language model writes them. The findings themselves come from `evaluation/` and `diagnostics/`.
"""

from __future__ import annotations

import re
from collections import Counter

from bothways.errors import counted
from bothways.evaluation.result import SEVERITIES, Finding, Report

FINDINGS_SAID = 3
# The question that a report may be about.
LEADING = "choice"

# What to do about a question whose answer is bad.
NEXT_STEPS = {
    "artifacts": "look at the texts behind the shortcut and judge again without them",
    "attention": "look at the coloured texts before trusting single predictions",
    "baseline": "read the commonest mistakes, then train with more or cleaner examples, or use "
    "the simpler baseline",
    "ceiling": "read the labels that every model contradicts, and correct those that are wrong",
    "choice": "read below which is likelier to help: more labels, cleaner ones, another encoder",
    "calibration": "store a temperature fitted on dev data (--calibrate) before using the numbers",
    "compare": "take the model that is shown to be better; where neither is, the smaller or faster "
    "one, or label more examples",
    "domain": "label some texts like those the model will meet, and train with them",
    "duplicates": "take the duplicates out of one side and judge again",
    "errors": "read the examples of the weakest label: too few, too alike, or labelled two ways?",
    "fragmentation": "compare a model whose tokenizer knows this language or vocabulary",
    "labels": "check the listed labels by hand and judge again",
    "noise": "train with texts as noisy as those the model will meet",
    "pooling": "try the pooling that scored best",
    "slices": "read the worst slice and collect examples like it",
    "training": "choose again with more --epochs or a larger --learning-rate",
    "truncation": "raise --max-length, or try --policy head+tail or windows, and compare",
}
# The same where the finding has the numbers for it.
NEXT_STEPS_BY_NUMBERS = {
    "truncation": "read with --policy {recommended_policy} --max-length {recommended_max_length}, "
    "and fine-tune so too",
}


def sentences(report: Report) -> tuple[str, str, str, str, str]:
    """Five sentences: bad news, the score, good news, and the next step last.

    What a report is about, where it is about a choice, comes before all of them. Of every other
    question the worst finding is said, by its first sentence. The first metric of the report is
    taken for the main one.
    """
    leading = [f.text for f in report.findings if f.question == LEADING]
    worst = {f.question: f for f in reversed(report.findings) if f.question != LEADING}
    others = [f for f in report.findings if worst.get(f.question) is f]
    bad = [_headline(f) for f in others if f.severity in ("alarm", "note")]
    bad = [*leading, *bad][:FINDINGS_SAID]
    good = [_headline(f) for f in others if f.severity not in ("alarm", "note")]
    said = [*bad, _score(report), *good, *_fillers(report)][:4]
    if _score(report) not in said:
        said[-1] = _score(report)
    first, second, third, fourth = said
    return first, second, third, fourth, _next_step(report)


def tally(report: Report) -> str:
    """How many findings there are of each severity, worst first: `1 alarm, 2 notes, 3 fine`."""
    counts = Counter(finding.severity for finding in report.findings)
    several = {"alarm": "alarms", "note": "notes"}
    return ", ".join(
        f"{counts[each]} {several.get(each, each) if counts[each] > 1 else each}"
        for each in SEVERITIES
        if counts[each]
    )


def _headline(finding: Finding) -> str:
    """The first sentence, which has the news; the page has the rest below."""
    text = re.sub(r"(?<!\w)'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), finding.text)
    return re.split(r"(?<=[.!?]) (?=[A-Z0-9])", text, maxsplit=1)[0].replace("\0", " ")


def _score(report: Report) -> str:
    if not report.metrics:
        return "Nothing was scored, so there is no number to go by."
    what = f"{counted(report.count, 'example')} of {report.data}"
    if report.population > report.count:
        what = f"a sample of {report.count:,} of {report.population:,} examples of {report.data}"
    name, metric = next(iter(report.metrics.items()))
    return f"On {what} the model reaches {name} {metric}."


def _fillers(report: Report) -> list[str]:
    """What is worth saying where there are few findings."""
    ledger = report.ledger
    overlap = "Where 95 % intervals overlap widely, a difference between scores may be chance."
    return [
        *([overlap] if report.metrics else []),
        f"Of {counted(ledger.tokens, 'token')} given, {ledger.tokens_cut:,} were never read.",
        f"This took {report.seconds:.1f} seconds.",
        "Numbers, tables and figures are in report.json.",
    ]


def _next_step(report: Report) -> str:
    bad = [f for f in report.findings if f.severity in ("alarm", "note")]
    for finding in bad:
        if finding.question in NEXT_STEPS:
            return f"Next: {_step(finding)}."
    if not report.metrics:
        return "Next: judge the model on labelled data that it has not seen (bothways evaluate)."
    if any(_needs_train(finding) for finding in report.findings):
        return "Next: give the training texts with --train, to see what a simpler model reaches."
    return (
        "Next: read a few of its mistakes with your own eyes, and judge it on texts from elsewhere "
        "(bothways evaluate) before relying on it."
    )


def _step(finding: Finding) -> str:
    """What to do about a finding, with its numbers where it has them."""
    try:
        return NEXT_STEPS_BY_NUMBERS[finding.question].format_map(finding.numbers)
    except KeyError:
        return NEXT_STEPS[finding.question]


def _needs_train(finding: Finding) -> bool:
    return finding.severity == "not asked" and "--train" in finding.text
