"""Quality beside the recipes that people use: same encoder, same data, epochs, batch and rate.

    python benchmarks/quality.py --only TASK --seed 0 --side ours|reference [--threads 2]
    python benchmarks/quality.py [--json]        what is in the table, and the paired differences

Each run appends one row to docs/measurements/quality.json, and a row that exists is not made again;
with the first row of a task comes one of what is trivial there. Rows hold what each test example
contributed, so that two sides can be compared pair by pair. Data and scoring are in
`quality_jobs.py`; the reference is the Trainer of transformers, or sentence-transformers' own, in
`quality_reference.py`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measure import Stopwatch, Took, data_folder, machine, minilm
from quality_jobs import JOBS, METRICS, Example, Job, Score, contributions, examples, trivial

TABLE = Path(__file__).resolve().parents[1] / "docs" / "measurements" / "quality.json"
RESAMPLES = 1000
SIDES = ("ours", "reference")
TRIVIAL = "trivial"
# Wall seconds, and those of all processors, from examples to a model and from it to results.
TIMES = ("seconds_train", "seconds_predict", "processor_train", "processor_predict")
NOTHING = Took()
HEADER = (
    "data",
    "score",
    "seeds",
    "Bothways",
    "reference",
    "easy",
    "difference [95 %]",
    "times as fast: training, predicting",
)

# Our names of the columns -> fields of `DataSettings`.
COLUMNS = {"text": "text", "pair": "text_pair", "label": "label", "answers": "label"}
# Kind -> what a result of ours says; a label where none is named.
SAID = {"regress": "score", "embed": "score", "rerank": "score", "tag": "tags", "answer": "text"}


@dataclass(frozen=True)
class Outcome:
    """What a side said of the test examples, or what that contributed, and how long it took."""

    said: Sequence[Any]
    train: Took = NOTHING
    predict: Took = NOTHING


def write_examples(job: Job, some: Sequence[Example], path: Path) -> Path:
    """A file that both the command and a person can read."""
    if job.kind == "tag":
        sentences = (
            "\n".join(
                f"{word}\t{tag}"
                for word, tag in zip(
                    each["words"].split("\n"), each["tags"].split("\n"), strict=True
                )
            )
            for each in some
        )
        path = path.with_suffix(".conll")
        path.write_text("\n\n".join(sentences) + "\n", "utf-8")
        return path
    path = path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(each) + "\n" for each in some), "utf-8")
    return path


def ours(job: Job, train: Sequence[Example], test: Sequence[Example], seed: int) -> Outcome:
    """`finetune`, `load`, `predict`."""
    import bothways
    from bothways.config import CommonSettings
    from bothways.data.options import FileOptions
    from bothways.training.settings import DataSettings, LoopSettings, OptimSettings

    folder = Path(tempfile.mkdtemp())
    files = {
        name: write_examples(job, some, folder / name)
        for name, some in (("train", train), ("test", test))
    }
    columns = {flag: ours for ours, flag in COLUMNS.items() if ours in train[0]}
    settings = bothways.FinetuneSettings(
        str(minilm()),
        folder / "model",
        DataSettings(files["train"], **columns),
        task=job.kind,
        optim=OptimSettings(learning_rate=(job.learning_rate,)),
        loop=LoopSettings(job.epochs, job.batch_size, checkpoint_every=10**9),
        common=CommonSettings(
            seed=seed, max_length=job.max_length, overlap=job.overlap, device="cpu"
        ),
    )
    watch = Stopwatch()
    bothways.finetune(settings)
    trained = watch.lap()
    model = bothways.load(folder / "model")
    assert model.task is not None
    found = model.predict(model.task.read(FileOptions().rows(files["test"]), labelled=False))
    took = watch.lap()
    said = [getattr(each, SAID.get(job.kind, "label")) for each in found]
    return Outcome(said, trained, took)


def retrieve(job: Job, side: str) -> Outcome:
    """nDCG of each query by vectors as published, or by BM25."""
    from bothways.data.retrieval import read_retrieval_set
    from bothways.evaluation.retrieval import bm25
    from bothways.inference.nearest import nearest
    from bothways.metrics.ranking import scores_of_rankings
    from quality_reference import ENCODERS

    given = read_retrieval_set(*(data_folder() / name for name in job.files))
    names, asked = list(given.documents), list(given.answerable)
    documents = list(given.documents.values())
    questions = [given.queries[query] for query in asked]
    encode = None if side == TRIVIAL else ENCODERS[side](minilm(), job.max_length)
    watch = Stopwatch()
    vectors = bm25(questions, documents) if encode is None else map(encode, (questions, documents))
    _, best = nearest(*vectors, k=100)
    rankings = {q: [names[at] for at in row] for q, row in zip(asked, best, strict=True)}
    scores = [float(x) for x in scores_of_rankings(rankings, given.gains)[job.metric]]
    return Outcome(scores, predict=watch.lap())


def run(name: str, seed: int, sides: Sequence[str]) -> list[dict[str, Any]]:
    """A row a side."""
    from quality_reference import REFERENCES

    job = JOBS[name]
    train, test = ([], []) if job.kind == "retrieve" else examples(job)
    rows = []
    for side in sides:
        if job.kind == "retrieve":
            made = retrieve(job, side)
        elif side == TRIVIAL:
            made = Outcome(trivial(job, train, test))
        elif side == "ours":
            made = ours(job, train, test, seed)
        else:
            made = Outcome(*REFERENCES[job.kind](job, minilm(), train, test, seed))
        scores: Sequence[Score] = made.said
        if job.kind != "retrieve":
            scores = contributions(job, made.said, test)
        rows.append(
            {
                "date": datetime.now(tz=UTC).date().isoformat(),
                "commit": _commit(),
                "machine": machine(),
                "task": name,
                "seed": seed,
                "side": side,
                "metric": job.metric,
                "value": round(METRICS[job.metric](np.asarray(scores, dtype=float)), 5),
                "seconds_train": round(made.train.wall, 1),
                "seconds_predict": round(made.predict.wall, 2),
                "processor_train": round(made.train.processor, 1),
                "processor_predict": round(made.predict.processor, 2),
                "scores": np.round(scores, 4).tolist(),
            }
        )
    return rows


def _commit() -> str:
    words = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(
        words, cwd=TABLE.parent.parent.parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _interval(metric: str, pairs: Sequence[Sequence[Any]]) -> list[float]:
    """95 % of the mean difference of pairs of contributions, resampled by test example."""
    arrays = [[np.asarray(scores, dtype=float) for scores in pair] for pair in pairs]
    draw = np.random.default_rng(0)
    score, count = METRICS[metric], len(arrays[0][0])
    drawn = (draw.integers(0, count, count) for _ in range(RESAMPLES))
    gains = [
        np.mean([score(one[some]) - score(two[some]) for one, two in arrays]) for some in drawn
    ]
    return [float(x) for x in np.quantile(gains, [0.025, 0.975])]


def differences(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For each task both sides' mean over seeds, and ours minus theirs; and over all tasks.

    `evidence` is whether the reference clearly beats what is trivial; a task without is told, and
    does not count in `overall`.
    """
    found: dict[str, Any] = {}
    for name in dict.fromkeys(row["task"] for row in rows):
        of = {(r["side"], r["seed"]): r for r in rows if r["task"] == name}
        seeds = sorted(seed for side, seed in of if side == "ours" and ("reference", seed) in of)
        if not seeds:
            continue
        metric = JOBS[name].metric
        easy = next(row for (side, _), row in of.items() if side == TRIVIAL)
        theirs = [of["reference", seed] for seed in seeds]
        mine = [of["ours", seed] for seed in seeds]
        low, high = _interval(
            metric, [(a["scores"], b["scores"]) for a, b in zip(mine, theirs, strict=True)]
        )
        over_easy, _ = _interval(metric, [(each["scores"], easy["scores"]) for each in theirs])
        means = [float(np.mean([row["value"] for row in side])) for side in (mine, theirs)]
        took = {
            f"{what}_ratio": sum(row[what] for row in theirs)
            / max(sum(row[what] for row in mine), 1e-9)
            for what in TIMES
        }
        found[name] = {
            "metric": metric,
            "seeds": len(seeds),
            **dict(zip(SIDES, means, strict=True)),
            TRIVIAL: easy["value"],
            "difference": means[0] - means[1],
            "low": low,
            "high": high,
            "evidence": over_easy > 0,
            **took,
        }
    counted = {name: each for name, each in found.items() if each["evidence"]}
    if counted:
        found["overall"] = {
            "tasks": len(counted),
            "difference": float(np.mean([each["difference"] for each in counted.values()])),
            "worse": [name for name, each in counted.items() if each["high"] < 0],
        }
    return found


def as_table(found: dict[str, Any]) -> str:
    """`differences` in Markdown; times are those of all processors."""
    lines = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    for name, row in found.items():
        if name == "overall":
            continue
        ours, theirs, easy = (f"{row[side]:.3f}" for side in (*SIDES, TRIVIAL))
        gain = f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
        speeds = [row[f"processor_{part}_ratio"] for part in ("train", "predict")]
        speed = ", ".join(f"{ratio:.2f}" if ratio else "-" for ratio in speeds)
        named = name if row["evidence"] else f"{name} (no evidence)"
        cells = (named, row["metric"], row["seeds"], ours, theirs, easy, gain, speed)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    if "overall" in found:
        overall = found["overall"]
        mean = f"Mean difference over {overall['tasks']} tasks: {overall['difference']:+.4f}"
        lines += ["", f"{mean}; clearly worse: {', '.join(overall['worse']) or 'none'}."]
    return "\n".join(lines)


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What makes a row another one; what is trivial has no seed."""
    named = (row["task"], row["side"])
    return named if row["side"] == TRIVIAL else (*named, row["seed"])


def stored(table: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of a table by their keys; none where there is no file."""
    rows = json.loads(table.read_text("utf-8")) if table.exists() else []
    return {key_of(row): row for row in rows}


def store(table: Path, rows: dict[tuple[Any, ...], dict[str, Any]]) -> None:
    """Write a table, a row a line, by task, side and seed."""
    from bothways.files import write_text

    table.parent.mkdir(parents=True, exist_ok=True)
    places = {name: place for place, name in enumerate(JOBS)}
    ordered = sorted(rows, key=lambda key: (places[key[0]], *key[1:]))
    write_text(table, "[\n" + ",\n".join(json.dumps(rows[key]) for key in ordered) + "\n]\n")


def main() -> None:
    """Make the row that is asked for, or say what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=JOBS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", choices=SIDES, default="ours")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.only:
        side, easy = (options.only, options.side, options.seed), (options.only, TRIVIAL)
        missing = [key for key in (side, easy) if key not in stored(options.table)]
        if missing:
            made = run(options.only, options.seed, [key[1] for key in missing])
            # Read again: others may have added theirs meanwhile.
            store(options.table, {key_of(row): row for row in made} | stored(options.table))
        rows = stored(options.table)
        shown: Any = {name: value for name, value in rows[side].items() if name != "scores"}
        shown[TRIVIAL] = rows[easy]["value"]
    else:
        shown = differences(list(stored(options.table).values()))
        if not options.json:
            print(as_table(shown))
            return
    print(json.dumps(shown) if options.json else json.dumps(shown, indent=2))


if __name__ == "__main__":
    main()
