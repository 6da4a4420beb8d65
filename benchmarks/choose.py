"""Whether `bothways choose` takes the right rung of a real ladder, on three real data sets.

    python benchmarks/choose.py [--only mr|banking77|wnut17] [--threads 2] [--work DIR] [--json]

The ladder is made of the real MiniLM (6 layers): its cuts of 1, 2 and 3 layers, a student of 3
layers that a fine-tuned MiniLM taught on other texts of the same data, a network of 6 layers with
random weights, and MiniLM itself. Each data set is climbed twice: with a target between what the
rungs can do, and with one that nothing reaches, which has every candidate tried, so that the right
answer of the first climb is known: the cheapest whose score there clears the target.

A row a data set is added to docs/measurements/choose.json; those that are there are not made again.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bothways
from bothways.data.options import FileOptions
from bothways.model.init import initialise
from measure import data_folder, machine, minilm

TABLE = Path(__file__).resolve().parents[1] / "docs" / "measurements" / "choose.json"
CUTS, RANDOM, TAUGHT = (1, 2, 3), "random-6", "taught-3"
OUT_OF_REACH = "0.999"


@dataclass(frozen=True)
class Task:
    """A data set of the comparison.

    Attributes:
        name: of the task.
        file: below the data folder.
        metric, target: what is asked of a candidate.
        most: examples given to `choose`; as many others, at most, teach the student.
        options: how the file is read.
        flags: of `choose` and of the student's teacher.
    """

    name: str
    file: str
    metric: str
    target: str
    most: int
    options: dict[str, Any]
    flags: tuple[str, ...]


TASKS = {
    "mr": Task(
        "classify",
        "mr/rt-polarity.all",
        "accuracy",
        "0.70",
        2000,
        {"encoding": "latin-1"},
        ("--learning-rate", "1e-4"),
    ),
    "banking77": Task(
        "classify",
        "banking77/train.csv",
        "accuracy",
        "0.70",
        3000,
        {},
        ("--epochs", "6", "--learning-rate", "2e-4"),
    ),
    "wnut17": Task(
        "tag",
        "wnut17/wnut17train.conll",
        "f1_strict",
        "0.25",
        2000,
        {"format": "conll"},
        ("--learning-rate", "2e-4"),
    ),
}


def run(*words: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    command = [sys.executable, "-m", "bothways", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def blocks(task: Task) -> Iterator[str]:
    """The examples of a file as text: lines, or sentences with their tags."""
    path = data_folder() / task.file
    text = path.read_text(task.options.get("encoding", "utf-8"))
    if task.name == "tag":
        yield from (each + "\n" for each in text.split("\n\n") if each.strip())
        return
    for row in FileOptions(**task.options).rows(path):
        label = row.cells.get("label") or row.cells["category"]
        yield json.dumps({"text": row.cells["text"], "label": label})


def files(task: Task, folder: Path) -> tuple[Path, Path]:
    """What `choose` reads, and what the student is taught on."""
    every = list(blocks(task))
    random.Random(0).shuffle(every)
    parts = {"choose": every[: task.most], "taught": every[task.most : 2 * task.most]}
    suffix = ".conll" if task.name == "tag" else ".jsonl"
    for name, some in parts.items():
        (folder / name).with_suffix(suffix).write_text("\n".join(some) + "\n", "utf-8")
    first, second = ((folder / name).with_suffix(suffix) for name in parts)
    return first, second


def ladder(task: Task, taught: Path, folder: Path, threads: str) -> list[str]:
    """Folders of the candidates, made where they are not there."""
    whole = str(minilm())
    made = []
    for cut in CUTS:
        made.append(folder / f"cut-{cut}")
        if not made[-1].exists():
            words = ("--student-layers", str(cut), "--init-only", "--output", str(made[-1]))
            run("distill", "--teacher", whole, *words)
    made.append(folder / TAUGHT)
    if not made[-1].exists():
        how = ("--task", task.name, *task.flags, "--threads", threads)
        teacher = str(folder / "teacher")
        data = ("--train", str(taught), "--overwrite", "--output", teacher)
        run("finetune", "--model", whole, *data, *how)
        words = ("--student-layers", "3", "--data", str(taught), "--output", str(made[-1]))
        run("distill", "--teacher", teacher, *words, "--threads", threads)
    made.append(folder / RANDOM)
    if not made[-1].exists():
        model = bothways.load(whole)
        initialise(model.encoder, 0.02)
        model.save(made[-1])
    return [*map(str, made), whole]


def row_of(name: str, work: Path, threads: str) -> dict[str, Any]:
    """Both climbs of a data set."""
    task, folder = TASKS[name], work / name
    folder.mkdir(parents=True, exist_ok=True)
    data, taught = files(task, folder)
    candidates = ladder(task, taught, folder, threads)
    climbs = {}
    for target in (task.target, OUT_OF_REACH):
        climbs[target] = run(
            "choose",
            *("--data", str(data), "--task", task.name, "--target", f"{task.metric}={target}"),
            *("--candidates", ",".join(candidates), "--output", str(folder / f"to-{target}")),
            *(*task.flags, "--threads", threads, "--overwrite"),
        )
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "data": name,
        "examples": task.most,
        "metric": task.metric,
        "target": float(task.target),
        "climb": climbs[task.target],
        "all": climbs[OUT_OF_REACH],
    }


def main() -> None:
    """Make the rows that are not there, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=TASKS)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--work", type=Path, default=Path("choose-benchmark"))
    parser.add_argument("--table", type=Path, default=TABLE)
    given = parser.parse_args()
    rows = json.loads(given.table.read_text("utf-8")) if given.table.exists() else []
    for name in [given.only] if given.only else TASKS:
        if name not in {row["data"] for row in rows}:
            rows.append(row_of(name, given.work, given.threads))
            given.table.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
