"""Reports for the tests of this folder: each kind of figure, awkward names, all severities."""

from __future__ import annotations

import dataclasses

from bothways.evaluation.result import Figure, Finding, Metric, Report, Series, Table
from bothways.tokenization.encoding import Ledger

# What must survive escaping in HTML, SVG, Markdown and on the terminal.
AWKWARD = '<b>&amp; | "quoted" ไทย $x_1$ [red]'

FIGURES = (
    Figure(
        "bars",
        "Accuracy under noise",
        "bar",
        "accuracy",
        "noise",
        (
            Series("weak", ("typos", "case"), (0.8, 0.7), (0.75, 0.65), (0.85, 0.75)),
            Series("strong", ("typos", "case"), (0.6, 0.5)),
        ),
    ),
    Figure(
        "names",
        "Slices",
        "bar",
        "accuracy",
        "slice",
        (
            Series(
                "accuracy", (AWKWARD, "a name that is too long to stand beside its bar"), (0.5, 0.9)
            ),
        ),
    ),
    Figure(
        "gains",
        "Gain over the baseline",
        "bar",
        "gain",
        "",
        (Series("gain", ("a", "b"), (-0.3, 0.1), (-0.4, 0.0), (-0.2, 0.2)),),
    ),
    Figure(
        "line",
        "Reliability",
        "line",
        "confidence",
        "share right",
        (
            Series("perfect", (0.0, 1.0), (0.0, 1.0)),
            Series("model", (0.0, 1.0), (0.1, 0.8), (0.0, 0.7), (0.2, 0.9)),
        ),
    ),
    Figure("steps", "By layer", "line", "layer", "F1", (Series("F1", ("one", "two"), (0.1, 0.2)),)),
    Figure(
        "points", "Length", "scatter", "tokens", "loss", (Series("all", (1.0, 9.0), (0.4, 0.6)),)
    ),
    Figure(
        "confusion",
        "What is taken for what",
        "heat",
        "predicted",
        "true",
        (Series("yes", ("yes", "no"), (9.0, 1.0)), Series("no", ("yes", "no"), (0.0, 0.0))),
    ),
    Figure("slices", "By slice", "bar", "accuracy", "slice", (Series("all", ("short",), (0.4,)),)),
)

TABLES = (
    Table(
        "worst",
        "The most confident mistakes",
        ("text", "count", "F1", "F1 low", "F1 high"),
        (
            (AWKWARD, 1234, 0.5, 0.25, 0.75),
            ("a text with two\nlines", 3, 1.0, None, None),
            ("", None, float("nan"), None, None),
        ),
    ),
    Table("slices_texts", "Texts of the weakest slice", ("text",), (("a text",),)),
    Table("long", "Many rows", ("n", "square"), tuple((str(n), n * n) for n in range(40))),
)

FINDINGS = (
    Finding("truncation", "fine", "No text was cut."),
    Finding("slices", "note", "The slice 'short' is weak.", {"size": 30, "accuracy": 0.4}),
    Finding("artifacts", "alarm", f"A shortcut exists: {AWKWARD}.", {"token": AWKWARD}),
    Finding("baseline", "not asked", "That needs --train."),
)

REPORT = Report(
    task="classify",
    model="models/moods",
    data="a very/long/path/to/some/data-that-cannot-be-broken-anywhere/test_file_of_moods.csv",
    metrics={"accuracy": Metric(0.8, 0.75, 0.85), "loss": Metric(float("nan"))},
    baselines={"bag_of_words": {"accuracy": Metric(0.7, 0.6, 0.8)}, "majority": {}},
    findings=FINDINGS,
    figures=FIGURES,
    tables=TABLES,
    ledger=Ledger(texts=10, texts_cut=2, tokens=12_345, tokens_cut=99, end="tail"),
    versions={"bothways": "0.1.0", "python": "3.11"},
    count=1000,
    seconds=12.34,
)
# As much, drawn quickly.
SMALL = dataclasses.replace(REPORT, figures=FIGURES[:1])
EMPTY = Report("classify", "model", "data", {})
