"""A student of half the layers: its speed and accuracy beside its teacher and plain training.

    python benchmarks/distill.py [--seeds 3] [--sentences 9595] [--threads 2] [--json]

The real MiniLM on movie-review sentences (mr): nine tenths to learn from, one to be judged on. The
teacher has 6 layers and 2 epochs. For each seed two students of the layers 0, 2 and 4 have 3 epochs
at 1e-4: one learns from the teacher, one from the labels alone. Accuracies are compared on the same
sentences; speed is that of `predict`, teacher and student in turn.

Each seed appends a row to docs/measurements/distill.json with what each student got right; rows of
the same seed and number of sentences are not made again. The teacher is kept in a folder of its own
(`--work`), so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import bothways
from bothways.config import CommonSettings
from bothways.evaluation.intervals import Units, paired_difference
from bothways.tasks.classify import label_results
from bothways.training.distill import distill
from bothways.training.distill_settings import DistillSettings
from bothways.training.run_tables import LoopSettings, OptimSettings
from bothways.training.settings import DataSettings, FinetuneSettings
from measure import alternate, data_folder, machine, minilm, ratio

TABLE = Path(__file__).resolve().parents[1] / "docs" / "measurements" / "distill.json"
LAYERS, RATE, EPOCHS, TEACHER_EPOCHS = 3, 1e-4, 3, 2
SIDES = ("teacher", "distilled", "labels")


class Bench:
    """The data in a folder, and the three models made of them.

    Args:
        folder: for data and models.
        count: sentences to learn from.
        threads: of the processor.
    """

    def __init__(self, folder: Path, count: int, threads: int) -> None:
        self.folder, self.threads = folder, threads
        folder.mkdir(parents=True, exist_ok=True)
        lines = (data_folder() / "mr" / "rt-polarity.all").read_text("latin-1").strip().split("\n")
        rows = [dict(zip(("label", "text"), line.split(" ", 1), strict=True)) for line in lines]
        random.Random(0).shuffle(rows)
        cut = len(rows) * 9 // 10
        self.test = rows[cut:]
        self.train = folder / f"train-{count}.jsonl"
        self.train.write_text("\n".join(map(json.dumps, rows[:cut][:count])) + "\n", "utf-8")
        self.teacher = folder / f"teacher-{count}"
        if not (self.teacher / "report.json").exists():
            self._finetune(str(minilm()), self.teacher, TEACHER_EPOCHS, seed=0, rate=5e-5)

    def _common(self, seed: int) -> CommonSettings:
        return CommonSettings(seed=seed, max_length=128, threads=self.threads, device="cpu")

    def _finetune(self, model: str, output: Path, epochs: int, *, seed: int, rate: float) -> None:
        bothways.finetune(
            FinetuneSettings(
                model,
                output,
                DataSettings(self.train),
                overwrite=True,
                optim=OptimSettings((rate,)),
                loop=LoopSettings(epochs=epochs),
                common=self._common(seed),
            )
        )

    def students(self, seed: int) -> dict[str, Path]:
        """Both students of a seed."""
        start, output = self.folder / "start", self.folder / "students"
        distill(
            DistillSettings(
                str(minilm()), start, student_layers=LAYERS, init_only=True, overwrite=True
            )
        )
        self._finetune(str(start), output / "labels", EPOCHS, seed=seed, rate=RATE)
        distill(
            DistillSettings(
                str(self.teacher),
                output / "distilled",
                (str(self.train),),
                student_layers=LAYERS,
                overwrite=True,
                optim=OptimSettings((RATE,)),
                loop=LoopSettings(epochs=EPOCHS),
                common=self._common(seed),
            )
        )
        return {name: output / name for name in ("distilled", "labels")}

    def row(self, seed: int, rounds: int) -> dict[str, Any]:
        """What a seed gives."""
        folders = {"teacher": self.teacher, **self.students(seed)}
        models = {name: bothways.load(folder) for name, folder in folders.items()}
        texts = [row["text"] for row in self.test]
        right = {}
        for name, model in models.items():
            said = [result.label for result in label_results(model.predict(texts))]
            right[name] = [int(a == b["label"]) for a, b in zip(said, self.test, strict=True)]
        pair = {name: lambda name=name: models[name].predict(texts) for name in SIDES[:2]}
        times = alternate(pair, rounds)
        faster = ratio(times["teacher"], times["distilled"])
        return {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "commit": _commit(),
            "machine": machine(),
            "sentences": sum(1 for _ in self.train.open(encoding="utf-8")),
            "seed": seed,
            "accuracy": {name: statistics.fmean(each) for name, each in right.items()},
            "times_faster": {"median": faster.median, "low": faster.low, "high": faster.high},
            "right": {name: "".join(map(str, each)) for name, each in right.items()},
        }


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, and paired differences over sentences and seeds together.

    Sentences are drawn, each with what all seeds made of it.
    """
    right = {
        name: np.array([[int(c) for c in row["right"][name]] for row in rows]).mean(0)
        for name in SIDES
    }
    units = Units.of(len(right["teacher"]))
    mean = {name: float(each.mean()) for name, each in right.items()}

    def difference(other: str) -> str:
        return str(
            paired_difference(
                lambda some: float(right["distilled"][some].mean()),
                lambda some: float(right[other][some].mean()),
                units,
            )
        )

    return {
        "seeds": len(rows),
        "sentences": rows[0]["sentences"],
        "accuracy": mean,
        "share_of_teacher_ratio": mean["distilled"] / mean["teacher"],
        "distilled_minus_labels": difference("labels"),
        "distilled_minus_teacher": difference("teacher"),
        "times_faster_ratio": statistics.median(row["times_faster"]["median"] for row in rows),
    }


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def main() -> None:
    """Make the rows that are not there, and print what all of them say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=9595, help="to learn from")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="of timing")
    parser.add_argument("--work", type=Path, default=Path("distill-benchmark"))
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = json.loads(given.table.read_text("utf-8")) if given.table.exists() else []
    known = {(row["seed"], row["sentences"]) for row in rows}
    bench: Bench | None = None
    for seed in range(given.seeds):
        if (seed, given.sentences) in known:
            continue
        bench = bench or Bench(given.work, given.sentences, given.threads)
        rows.append(bench.row(seed, given.rounds))
        given.table.parent.mkdir(parents=True, exist_ok=True)
        given.table.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    found = summary([row for row in rows if row["sentences"] == given.sentences])
    print(json.dumps(found) if given.json else "\n".join(f"{k}: {v}" for k, v in found.items()))


if __name__ == "__main__":
    main()
