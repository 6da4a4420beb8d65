"""Fine-tuning speed and quality beside the transformers Trainer.

    python benchmarks/finetune.py [--json] [--rounds 7] [--share 0.1] [--seeds 3] [--threads 2]

The real MiniLM on movie-review sentences (mr), batch 32, length 128, AdamW 5e-5 with linear warm-up
and decay, weight decay 0.01, clipping at 1. Speed: `--rounds` rounds over a share of the training
sentences, all sides in turn. Quality: one whole epoch for each of `--seeds` seeds and each side,
judged on the held-out tenth. A second row has attention dropout 0 on both sides.

The Trainer runs with random batches and with batches grouped by length; its default is the first.
Texts are tokenised before the clock starts on both sides.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import bothways
from bothways.config import CommonSettings
from bothways.training.recorder import Event, RunFinished, RunStarted
from bothways.training.settings import DataSettings, LoopSettings, NetworkSettings
from measure import alternate, data_folder, machine, minilm, ratio

Sentence = tuple[str, str]  # label, text
STRATEGIES = ("random", "group_by_length")


def sentences() -> tuple[list[Sentence], list[Sentence]]:
    """Nine tenths to learn from, one to be judged on; the same for every side and seed."""
    lines = (data_folder() / "mr" / "rt-polarity.all").read_text("latin-1").strip().split("\n")
    rows = [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]
    random.Random(0).shuffle(rows)
    cut = len(rows) * 9 // 10
    return rows[:cut], rows[cut:]


class Ours:
    """Our side: `finetune`, then `predict` with the folder it wrote."""

    def __init__(self, train: Sequence[Sentence], threads: int, attention: float | None) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.threads = threads
        self.attention = attention
        self.data = self.folder / "train.jsonl"
        lines = [json.dumps({"label": label, "text": text}) for label, text in train]
        self.data.write_text("\n".join(lines) + "\n", "utf-8")

    def train(self, seed: int = 0) -> float:
        """One epoch; seconds of the training itself."""
        marks: dict[type, float] = {}

        def on_event(event: Event) -> None:
            if isinstance(event, RunStarted | RunFinished):
                marks[type(event)] = time.perf_counter()

        settings = bothways.FinetuneSettings(
            str(minilm()),
            self.folder / "model",
            DataSettings(self.data),
            overwrite=True,
            loop=LoopSettings(epochs=1, checkpoint_every=10**9),
            network=NetworkSettings(attention_dropout=self.attention),
            common=CommonSettings(seed=seed, max_length=128, threads=self.threads, device="cpu"),
        )
        bothways.finetune(settings, on_event=on_event)
        return marks[RunFinished] - marks[RunStarted]

    def judge(self, test: Sequence[Sentence]) -> Callable[[], float]:
        """A function that returns the accuracy on sentences, tokenisation included."""
        model = bothways.load(self.folder / "model")
        texts = [text for _, text in test]

        def run() -> float:
            results = model.predict(texts, max_length=128)
            right = [r.label == label for r, (label, _) in zip(results, test, strict=True)]
            return sum(right) / len(right)

        return run


class Theirs:
    """The Trainer, with one of its sampling strategies."""

    def __init__(self, train: Sequence[Sentence], strategy: str, attention: float | None) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(minilm())
        self.strategy = strategy
        self.attention = attention
        self.rows = self._encode(train)
        self.trainer: Any = None

    def _encode(self, sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
        ids = self.tokenizer([text for _, text in sentences], truncation=True, max_length=128)
        return [
            {"input_ids": pieces, "attention_mask": [1] * len(pieces), "labels": int(label)}
            for pieces, (label, _) in zip(ids["input_ids"], sentences, strict=True)
        ]

    def train(self, seed: int = 0) -> float:
        """One epoch; seconds of `Trainer.train`."""
        from transformers import (
            BertForSequenceClassification,
            DataCollatorWithPadding,
            Trainer,
            TrainingArguments,
            set_seed,
        )

        set_seed(seed)
        options = {} if self.attention is None else {"attention_probs_dropout_prob": self.attention}
        model = BertForSequenceClassification.from_pretrained(minilm(), num_labels=2, **options)
        arguments = TrainingArguments(
            tempfile.mkdtemp(),
            per_device_train_batch_size=32,
            per_device_eval_batch_size=32,
            num_train_epochs=1,
            learning_rate=5e-5,
            warmup_steps=0.06,
            weight_decay=0.01,
            lr_scheduler_type="linear",
            train_sampling_strategy=self.strategy,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_steps=10,
            seed=seed,
            use_cpu=True,
        )
        self.trainer = Trainer(
            model,
            arguments,
            data_collator=DataCollatorWithPadding(self.tokenizer),
            train_dataset=self.rows,
        )
        start = time.perf_counter()
        self.trainer.train()
        return time.perf_counter() - start

    def judge(self, test: Sequence[Sentence]) -> Callable[[], float]:
        """A function that returns the accuracy on sentences, tokenisation included."""

        def run() -> float:
            found = self.trainer.predict(self._encode(test))
            # Grouping by length reorders what is predicted too: the truth says where each belongs.
            right = np.argmax(found.predictions, axis=1) == found.label_ids
            return float(right.mean())

        return run


def sides(
    train: Sequence[Sentence],
    threads: int,
    attention: float | None,
    strategies: Sequence[str] = STRATEGIES,
) -> dict[str, Any]:
    """Ours and the Trainer's, by name."""
    theirs = {f"trainer_{name}": Theirs(train, name, attention) for name in strategies}
    return {"bothways": Ours(train, threads, attention), **theirs}


def speed(train: Sequence[Sentence], rounds: int, threads: int, attention: float | None) -> Any:
    """Seconds of an epoch over `train`, side by side."""
    made = sides(train, threads, attention)
    times: dict[str, list[float]] = {name: [] for name in made}
    names = list(made)
    for turn in range(rounds + 1):  # the first is not counted
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds = made[name].train(turn)
            if turn:
                times[name].append(seconds)
    ours = times["bothways"]
    return {
        "sentences": len(train),
        "seconds": {name: statistics.median(values) for name, values in times.items()},
        "versus_trainer": asdict(ratio(times["trainer_random"], ours)),
        "versus_trainer_grouped": asdict(ratio(times["trainer_group_by_length"], ours)),
    }


def quality(
    train: Sequence[Sentence],
    test: Sequence[Sentence],
    seeds: int,
    threads: int,
    strategies: Sequence[str],
) -> dict[str, Any]:
    """Accuracy of whole epochs over several seeds, and speed of prediction."""
    made = sides(train, threads, None, strategies)
    scores: dict[str, list[float]] = {name: [] for name in made}
    seconds: dict[str, list[float]] = {name: [] for name in made}
    for seed in range(seeds):
        for name, side in made.items():
            seconds[name].append(side.train(seed))
            scores[name].append(side.judge(test)())
            logging.getLogger("benchmark").info("%s seed %d: %s", name, seed, scores[name][-1])
    predicting = alternate({name: side.judge(test) for name, side in made.items()}, 5)
    return {
        "accuracy": {name: statistics.mean(values) for name, values in scores.items()},
        "accuracies": scores,
        "epoch_seconds": seconds,
        "evaluation": asdict(ratio(predicting[f"trainer_{strategies[0]}"], predicting["bothways"])),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="of the quality runs")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("benchmark").setLevel(logging.INFO)
    torch.set_num_threads(options.threads)
    train, test = sentences()
    part = train[: int(len(train) * options.share)]
    result: dict[str, Any] = {"machine": machine()}
    if options.rounds:
        with_dropout = speed(part, options.rounds, options.threads, None)
        result |= {
            "versus_trainer_ratio": with_dropout["versus_trainer"]["median"],
            "versus_trainer_grouped_ratio": with_dropout["versus_trainer_grouped"]["median"],
            "checkpoint_dropout": with_dropout,
            "attention_dropout_0": speed(part, options.rounds, options.threads, 0.0),
        }
    if options.seeds:
        strategies = options.strategies.split(",")
        result["quality"] = quality(train, test, options.seeds, options.threads, strategies)
        result["evaluation_ratio"] = result["quality"]["evaluation"]["median"]
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
