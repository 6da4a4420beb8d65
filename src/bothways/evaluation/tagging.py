"""What an evaluation of tags shows beside its scores: each type, what goes wrong, what to beat.

Where tags make no spans, every word counts as one. Baselines, tables and figures as values;
`evaluate.py` puts them into the report. What a mistake is, is said in `metrics/spans.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.classification import label_figure
from bothways.evaluation.findings import baselines_not_asked, errors_finding
from bothways.evaluation.intervals import RESAMPLES, Units, intervals, of_perfect_share
from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Finding, Metric, Table
from bothways.metrics.spans import OUTCOMES, Span, SpanCounts, precision_recall_f1, span_errors
from bothways.tasks.results import Result, TagResult
from bothways.tasks.tag import TagTask
from bothways.tasks.tag_examples import TagExample, known_tags, tag_result, tag_results

MISTAKES_SHOWN = 20
RIGHT = OUTCOMES[0]


def tagging_parts(
    task: TagTask,
    examples: Sequence[TagExample],
    results: Sequence[Result],
    *,
    train: Sequence[TagExample] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Parts:
    """Baselines, scores of each type, kinds of mistakes; arguments as of `parts_of`."""
    truth = [task.spans(tags) for tags in known_tags(examples)]
    said = [task.spans(result.tags) for result in tag_results(results)]
    counts = SpanCounts(truth, said)
    units = Units.of(len(examples), task.units(examples))

    def f1(some: NDArray[np.int64]) -> dict[str, float]:
        return dict(zip(counts.kinds, counts.kind_f1(some).tolist(), strict=True))

    support = Counter(kind for spans in truth for _, _, kind in spans)
    by_kind = {
        kind: of_perfect_share(found, max(support[kind], 1))
        for kind, found in intervals(f1, units, resamples=resamples, seed=seed).items()
    }
    tables = [_kind_table(counts, by_kind, "types" if task.form else "tags")]
    told = ""
    mistake: tuple[str, str, int] | None = None
    if task.form is not None:
        tables.append(_outcome_table(truth, said))
        told = _mistakes_told(truth, said)
    else:
        pairs = _pairs_of_tags(truth, said)
        tables.append(_confused_table(pairs))
        wrong = Counter(pair for pair in pairs if pair[0] != pair[1]).most_common(1)
        mistake = (*wrong[0][0], wrong[0][1]) if wrong else None
    findings: list[Finding] = []
    if support:
        findings.append(errors_finding(by_kind, support, mistake, told=told))
    if train is None:
        findings.append(baselines_not_asked("the most frequent tag of each word"))
    return Parts(
        trivial_results(task, examples, train),
        tuple(findings),
        (*tables, _data_table(task, examples, truth)),
        (label_figure(by_kind, support),) if support else (),
    )


def trivial_results(
    task: TagTask, examples: Sequence[TagExample], train: Sequence[TagExample] | None
) -> dict[str, list[TagResult]]:
    """Predictions of each baseline: the most frequent tag, and that of each word in training.

    A word that training does not have gets the most frequent tag of all.
    """
    counts: Mapping[str, int] = task.label_counts
    of_word: dict[str, Counter[str]] = defaultdict(Counter)
    if train is not None:
        tagged = [
            (word, tag)
            for example, tags in zip(train, known_tags(train), strict=True)
            for word, tag in zip(example.words, tags, strict=True)
        ]
        counts = Counter(tag for _, tag in tagged)
        for word, tag in tagged:
            of_word[word][tag] += 1
    if not any(counts.values()):
        return {}
    # Sorted, so that of equally frequent tags the first wins.
    majority = max(sorted(counts), key=lambda tag: counts[tag])
    best = {word: max(sorted(tags), key=tags.__getitem__) for word, tags in of_word.items()}
    rivals = {"majority": dict[str, str]()} | ({} if train is None else {"dictionary": best})
    return {
        name: [_looked_up(task, example, known, majority) for example in examples]
        for name, known in rivals.items()
    }


def _looked_up(
    task: TagTask, example: TagExample, known: Mapping[str, str], majority: str
) -> TagResult:
    tags = {number: (known.get(word, majority), 1.0) for number, word in enumerate(example.words)}
    return tag_result(example, tags, task.form, default=majority)


def _kind_table(counts: SpanCounts, by_kind: Mapping[str, Metric], name: str) -> Table:
    rows: list[tuple[str | float | int | None, ...]] = []
    for kind, row in zip(counts.kinds, counts.by_kind(), strict=True):
        right, said, true = (int(count) for count in row)
        f1 = by_kind[kind]
        rows.append((kind, true, said, right, *precision_recall_f1(row), f1.low, f1.high))
    # Types that do not occur say nothing about the model: they come last.
    rows.sort(key=lambda row: (not row[1], row[6]))
    columns = (
        name[:-1],
        "true",
        "predicted",
        "right",
        "precision",
        "recall",
        "F1",
        "F1 low",
        "F1 high",
    )
    return Table(name, f"Scores of each {name[:-1]}, worst first", columns, tuple(rows))


def _outcome_table(truth: Sequence[Sequence[Span]], said: Sequence[Sequence[Span]]) -> Table:
    """What became of the spans, by type."""
    found = _outcomes(truth, said)
    rows: list[tuple[str | int, ...]] = [
        (kind, *(found[kind][outcome] for outcome in OUTCOMES)) for kind in sorted(found)
    ]
    rows.append(("all", *(sum(of[outcome] for of in found.values()) for outcome in OUTCOMES)))
    columns = ("type", RIGHT, *(f"wrong {o}" for o in OUTCOMES[1:4]), *OUTCOMES[4:])
    title = "What became of each span (by its true type; what was invented by its own)"
    return Table("outcomes", title, columns, tuple(rows))


def _pairs_of_tags(
    truth: Sequence[Sequence[Span]], said: Sequence[Sequence[Span]]
) -> list[tuple[str, str]]:
    """The true and the predicted tag of each word, where every word is a span."""
    return [
        (true[2], given[2])
        for trues, givens in zip(truth, said, strict=True)
        for true, given in zip(trues, givens, strict=True)
    ]


def _confused_table(pairs: Sequence[tuple[str, str]]) -> Table:
    """The commonest mistakes about words."""
    totals = Counter(true for true, _ in pairs)
    wrong = Counter(pair for pair in pairs if pair[0] != pair[1]).most_common(MISTAKES_SHOWN)
    rows = tuple((*pair, count, count / totals[pair[0]]) for pair, count in wrong)
    columns = ("true tag", "predicted", "count", "share of the true tag")
    return Table("mistakes", "The commonest mistakes", columns, rows)


def _mistakes_told(truth: Sequence[Sequence[Span]], said: Sequence[Sequence[Span]]) -> str:
    """The commonest kind of mistake in words; nothing where there is none."""
    found = _outcomes(truth, said)
    counts = {o: sum(found[kind][o] for kind in found) for o in OUTCOMES if o != RIGHT}
    worst = max(counts, key=counts.__getitem__)
    if not counts[worst]:
        return ""
    words = {"missed": "spans that are missed", "invented": "spans that are not there"}
    what = words.get(worst, f"spans with the wrong {worst}")
    return f"of {sum(counts.values()):,} mistakes most are {what} ({counts[worst]:,})"


def _outcomes(
    truth: Sequence[Sequence[Span]], said: Sequence[Sequence[Span]]
) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for true, given in zip(truth, said, strict=True):
        for kind, outcomes in span_errors(true, given).items():
            found[kind].update(outcomes)
    return found


def _data_table(
    task: TagTask, examples: Sequence[TagExample], truth: Sequence[Sequence[Span]]
) -> Table:
    lengths = [len(example.words) for example in examples]
    rows: list[tuple[str, int]] = [
        ("sentences", len(examples)),
        ("words", sum(lengths)),
        ("words of the longest", max(lengths, default=0)),
    ]
    if task.form is not None:
        rows.append(("spans", sum(map(len, truth))))
    return Table("examples", "What was judged", ("", "count"), tuple(rows))
