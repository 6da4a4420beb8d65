"""What freezing saves and costs: time, memory and accuracy of fine-tuning with less to learn.

    python benchmarks/freezing.py [--json] [--sentences 3000] [--epochs 2] [--seeds 3] [--threads 2]

The real MiniLM (6 layers) on movie-review sentences (mr), batch 32, length 128; judged on the
held-out tenth. Each run is a command in a process of its own, timed from its start to its end with
its test, whose largest resident memory is read when it ends. With the whole encoder frozen each
text is read once and further epochs cost next to nothing, so there are 30 of them, at 1e-3; all
others learn at 5e-5.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finetune import sentences
from measure import machine, minilm

# What is frozen -> its flags.
SETTINGS: dict[str, list[str]] = {
    "nothing": [],
    "embeddings": ["--freeze", "embeddings"],
    "3 of 6 layers": ["--freeze", "3"],
    "encoder": ["--freeze", "encoder", "--learning-rate", "1e-3", "--epochs", "30"],
}


@dataclass(frozen=True)
class Cost:
    """Seconds of the whole command, bytes of the largest memory, share of sentences right."""

    seconds: float
    memory: int
    accuracy: float


def run(words: list[str], folder: Path) -> Cost:
    """One command, to its end."""
    command = [sys.executable, "-m", "bothways", "finetune", *words, "--json"]
    begin = time.perf_counter()
    with (folder / "out.json").open("wb") as out, (folder / "err.txt").open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit((folder / "err.txt").read_text("utf-8"))
    report = json.loads((folder / "model" / "report.json").read_text("utf-8"))
    return Cost(seconds, usage.ru_maxrss * 1024, report["metrics"]["accuracy"]["value"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    train, test = sentences()
    for name, some in (("train", train[: options.sentences]), ("test", test)):
        lines = [json.dumps({"label": label, "text": text}) for label, text in some]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    shared = f"""--task classify --model {minilm()} --train {folder}/train.jsonl
        --test {folder}/test.jsonl --text text --label label
        --max-length 128 --threads {options.threads} --output {folder}/model --overwrite"""
    costs: dict[str, list[Cost]] = {name: [] for name in SETTINGS}
    for seed in range(options.seeds):
        for name, flags in SETTINGS.items():
            epochs = [] if "--epochs" in flags else ["--epochs", str(options.epochs)]
            words = [*shared.split(), *flags, *epochs, "--seed", str(seed)]
            costs[name].append(run(words, folder))
    result: dict[str, Any] = {"machine": machine(), "sentences": options.sentences, "rows": []}
    for name, found in costs.items():
        times = [
            whole.seconds / each.seconds
            for whole, each in zip(costs["nothing"], found, strict=True)
        ]
        result["rows"].append(
            {
                "frozen": name,
                "times_as_fast": [statistics.median(times), min(times), max(times)],
                "memory_ratio": statistics.median(
                    each.memory / whole.memory
                    for whole, each in zip(costs["nothing"], found, strict=True)
                ),
                "accuracy": statistics.mean(each.accuracy for each in found),
                "accuracies": [each.accuracy for each in found],
                "seconds": statistics.median(each.seconds for each in found),
            }
        )
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['machine']}; {options.sentences} sentences, {options.epochs} epochs")
    print("| frozen | times as fast | memory | accuracy |\n|---|---|---|---|")
    for row in result["rows"]:
        middle, low, high = row["times_as_fast"]
        print(
            f"| {row['frozen']} | {middle:.2f} [{low:.2f}, {high:.2f}] "
            f"| {row['memory_ratio']:.2f} | {row['accuracy']:.3f} |"
        )


if __name__ == "__main__":
    main()
