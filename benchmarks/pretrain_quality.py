"""Quality for time: held-out loss of both sides after the same minutes of training.

    python benchmarks/pretrain.py --quality [--minutes 15] [--tune-minutes 3] [--table FILE]

A vocabulary of 4,096 pieces over documentation, speeches and glosses, sequences of 64 tokens, two
layers 128 wide. Theirs is BertForMaskedLM with its defaults behind its collator, fused AdamW, a
linear schedule, 32 x 64 tokens a step. Ours is `RECIPE` of pretrain_quality_jobs.py. Each side
tries three learning rates for `--tune-minutes`, then runs `--minutes` with its best.

What makes the comparison fair:

- Both read the same shards and are scored on the same held-out tokens, hidden by the same masks,
  with the mean cross-entropy over those.
- Minutes are those of training. Evaluations, and 50 steps that tell how many fit, do not count on
  either side. Reading and packing count on ours alone; theirs begins with a batch's lists of ids.
- Packing, by which texts of one length stand together, also saves their collator most padding.

Rows go to docs/measurements/pretrain_quality.json as they are made, with date, commit and machine;
those that are there are not run again. A rate that diverges has a row without a loss.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measure import machine
from pretrain_quality_jobs import FOLDER, RECIPE, Curve, Job

PROJECT = Path(__file__).resolve().parents[1]
JOBS = Path(__file__).with_name("pretrain_quality_jobs.py")
TABLE = PROJECT / "docs" / "measurements" / "pretrain_quality.json"
RATES = {"bothways": (0.005, 0.01, 0.02), "transformers": (3e-4, 1e-3, 3e-3)}
# Colours of Okabe and Ito 2008.
COLOURS = {"bothways": "#d55e00", "transformers": "#56b4e9"}


def row_of(job: Job, rows: list[dict[str, Any]], folder: Path, table: Path) -> dict[str, Any]:
    """The row of a run, from the table or made now and added to it."""
    key = {**asdict(job), "recipe": RECIPE if job.side == "bothways" else None}
    for known in rows:
        if all(known.get(name) == value for name, value in key.items()):
            return known
    print(f"{job.side} at {job.rate:g} for {job.minutes:g} minutes", file=sys.stderr)
    arguments = ["--job", json.dumps(asdict(job)), "--folder", str(folder)]
    command = [sys.executable, str(JOBS), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    made = json.loads(done.stdout.splitlines()[-1])
    today = datetime.now(tz=UTC).date().isoformat()
    new = {**key, **made, "date": today, "commit": commit(), "machine": machine()}
    rows.append(new)
    table.parent.mkdir(parents=True, exist_ok=True)
    temporary = table.with_suffix(".tmp")
    temporary.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    temporary.replace(table)
    return new


def quality(
    *, minutes: float, tune_minutes: float, threads: int, folder: Path = FOLDER, table: Path = TABLE
) -> dict[str, Any]:
    """All runs that are not in the table yet, and what they say together; a plot beside the table.

    Raises:
        SystemExit: when all rates of a side diverge.
    """
    rows = json.loads(table.read_text("utf-8")) if table.exists() else []
    best, tuned = {}, dict[str, dict[str, float | None]]()
    for side, rates in RATES.items():
        tried = [row_of(Job(side, r, tune_minutes, threads), rows, folder, table) for r in rates]
        tuned[side] = {f"{row['rate']:g}": row["loss"] for row in tried}
        sound = [row for row in tried if row["loss"] is not None]
        if not sound:
            raise SystemExit(f"{side}: every learning rate diverges: {rates}")
        rate = min(sound, key=lambda row: float(row["loss"]))["rate"]
        best[side] = row_of(Job(side, rate, minutes, threads), rows, folder, table)
        if best[side]["loss"] is None:
            raise SystemExit(f"{side} diverges at {rate} over {minutes} minutes")
    ours, theirs = best["bothways"], best["transformers"]
    curves = {side: row["curve"] for side, row in best.items()}
    image = table.with_suffix(".svg")
    image.write_text(plot(curves, ours["unigram"]), "utf-8")
    reached = minutes_to(ours["curve"], theirs["loss"])
    return {
        "machine": ours["machine"],
        "unigram_entropy": ours["unigram"],
        "tuned": tuned,
        "rate": {side: row["rate"] for side, row in best.items()},
        "steps": {side: row["steps"] for side, row in best.items()},
        "tokens": {side: row["tokens"] for side, row in best.items()},
        "minutes": {side: row["curve"][-1][0] for side, row in best.items()},
        "held_out_loss": {side: row["loss"] for side, row in best.items()},
        "nats_below": theirs["loss"] - ours["loss"],
        "nats_below_unigram": ours["unigram"] - ours["loss"],
        "sooner_ratio": None if reached is None else theirs["curve"][-1][0] / reached,
        "curves": curves,
        "plot": str(image),
    }


def minutes_to(curve: Curve, loss: float) -> float | None:
    """When a curve first reaches a loss, on the line between two of its points; None for never."""
    before: tuple[float, float] | None = None
    for at, value in curve:
        if value <= loss:
            if before is None:
                return at
            share = (before[1] - loss) / (before[1] - value)
            return before[0] + share * (at - before[0])
        before = (at, value)
    return None


def told(result: dict[str, Any]) -> str:
    """The result as Markdown, to stand in a page."""
    curves, sides = result["curves"], list(result["curves"])
    tuned = {
        side: ", ".join(
            f"{rate}: " + ("diverged" if loss is None else f"{loss:.3f}")
            for rate, loss in result["tuned"][side].items()
        )
        for side in sides
    }
    rows = [("learning rates tried, and their loss", tuned)]
    for name, key, form in (
        ("steps", "steps", ",d"),
        ("tokens", "tokens", ",d"),
        ("minutes", "minutes", ".1f"),
        ("final held-out loss", "held_out_loss", ".3f"),
    ):
        rows.append((name, {side: format(result[key][side], form) for side in sides}))
    shortest = min(result["minutes"].values())
    for at in (tenth / 10 * shortest for tenth in range(1, 11)):
        cells = {side: f"{loss_at(curves[side], at):.3f}" for side in sides}
        rows.append((f"loss after {at:.1f} minutes", cells))
    ratio, ours_below = result["sooner_ratio"], result["nats_below"]
    sooner = (
        "and never reaches theirs" if ratio is None else f"and reached theirs {ratio:.1f} times"
    )
    return "\n".join(
        [
            f"| | {' | '.join(sides)} |",
            "|---|---|---|",
            *(f"| {name} | {' | '.join(cells[s] for s in sides)} |" for name, cells in rows),
            "",
            (
                f"The unigram entropy H is {result['unigram_entropy']:.3f}. Ours ends "
                f"{ours_below:.3f} nats below theirs and {result['nats_below_unigram']:.3f} "
                f"below H, {sooner}{'' if ratio is None else ' sooner'}. {result['machine']}."
            ),
        ]
    )


def loss_at(curve: Curve, minutes: float) -> float:
    """The loss of a curve at some time, on the line between its points."""
    import numpy as np

    times, losses = zip(*curve, strict=True)
    return float(np.interp(minutes, times, losses))


def plot(curves: dict[str, Curve], unigram: float) -> str:
    """Held-out loss against minutes of training, as SVG."""
    import io

    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "quality", "font.size": 9}):
        figure = Figure(figsize=(6.0, 3.4), layout="constrained")
        axes = figure.subplots()
        for side, curve in curves.items():
            axes.plot(*zip(*curve, strict=True), label=side, color=COLOURS[side], marker=".")
        axes.axhline(unigram, color="#333333", linestyle=":", label="guessing by frequency")
        axes.set_xlabel("minutes of training")
        axes.set_ylabel("held-out loss (nats a token)")
        axes.grid(color="#dddddd", linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator")))
    return out.getvalue()


def commit() -> str:
    """The commit that is measured."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
