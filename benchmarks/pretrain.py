"""Pretraining speed, memory and quality beside transformers' BertForMaskedLM.

    python benchmarks/pretrain.py [--json] [--rounds 3] [--steps 8] [--threads 2]
    python benchmarks/pretrain.py --quality [--minutes 15] [--tune-minutes 3]

Speed and memory: the mini shape (4 layers, 256 wide) over 30,522 pieces, 32 sequences of 128 tokens
a step, 15 % masked, dropout 0.1, fused AdamW, float32 on both sides. Theirs is the class's own loss
behind DataCollatorForLanguageModeling. Each side runs in a process of its own, in turn; memory is
how much its resident set grows from the imported libraries to the peak.

Quality for time (`--quality`): a vocabulary of 4,096 pieces, sequences of 64 tokens, the tiny shape
(2 layers, 128 wide), the same held-out masks. Each side tries three learning rates for
`--tune-minutes`, then runs `--minutes` with its best. Our recipe is free (the modern parts, Muon, a
trapezoid, a batch that grows), tokenizer and evaluation are not. Rows go to
docs/measurements/pretrain_quality.json with date, commit and machine; those that are there are not
run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measure import data_folder, machine

PROJECT = Path(__file__).resolve().parents[1]
TABLE = PROJECT / "docs" / "measurements" / "pretrain_quality.json"
SEQUENCES, LENGTH, PIECES, SHARE = 32, 128, 30_522, 0.15
FOLDER = Path(tempfile.gettempdir()) / "bothways-quality"
CORPUS = ("linux_doc_en", "us_speeches_pd", "wordnet_glosses")
RATES = {"bothways": (0.01, 0.02, 0.04), "transformers": (3e-4, 1e-3, 3e-3)}
# Points of a curve, so that the time to reach a loss is known to about 2 %.
POINTS = 50


# --- one side, in a process of its own ---------------------------------------------------------


def resident() -> float:
    """Megabytes of this process's resident set now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_resident() -> float:
    """Megabytes of its largest resident set so far."""
    status = Path("/proc/self/status").read_text()
    return float(next(line for line in status.splitlines() if "VmHWM" in line).split()[1]) / 1e3


def run_side(name: str, steps: int, threads: int) -> dict[str, float]:
    """Seconds a step and growth in memory of one side."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    side = {"bothways": ours, "transformers": theirs}[name]
    step = side()
    next(step)  # the libraries, and the texts
    before = resident()
    next(step)  # not counted: first touch of memory, choice of kernels
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        next(step)
        times.append(time.perf_counter() - start)
    return {"seconds": statistics.median(times), "megabytes": peak_resident() - before}


def texts() -> list[list[int]]:
    """Sequences of random pieces between [CLS] and [SEP], which cost what real ones cost."""
    import torch

    generator = torch.Generator().manual_seed(1)
    inner = torch.randint(1000, PIECES, (64 * SEQUENCES, LENGTH - 2), generator=generator)
    return [[101, *row, 102] for row in inner.tolist()]


def ours() -> Iterator[float]:
    """Steps of our loop's parts: masking, objective, clipping, optimizer."""
    import numpy as np
    import torch
    import transformers  # noqa: F401 - both sides have the same libraries in memory

    from bothways.checkpoints.parts import adapt, new_head, new_parts
    from bothways.data.collate import masked_batch
    from bothways.data.masking import Masking, MaskVocabulary, mask_tokens
    from bothways.data.sequences import Sequences
    from bothways.families.presets import preset
    from bothways.training.masked_lm import MaskedLMObjective
    from bothways.training.optim import adamw, clip_gradients
    from bothways.training.text_feed import part_tokens

    ids = np.array(texts())
    special = np.zeros(PIECES, np.bool_)
    special[[0, 100, 101, 102, 103]] = True
    vocabulary = MaskVocabulary(103, special, np.flatnonzero(~special))
    # Weights and moments belong to the growth: nothing is built before the first step.
    yield 0.0
    parts = new_parts(preset("mini"))
    parts = adapt(parts, new_head(parts, "masked_lm", 0))
    assert parts.masked_lm is not None
    objective = MaskedLMObjective(parts.encoder, parts.masked_lm).train()
    optimizer = adamw(objective, learning_rate=1e-4)
    parameters = list(objective.parameters())
    # As `pretrain` cuts a step on a CPU; the gradient is that of the whole.
    parts_of_step = SEQUENCES * LENGTH // part_tokens(256, torch.device("cpu"))
    number = 0
    while True:
        first = number % 64 * SEQUENCES
        batches = []
        for rows in np.split(np.arange(first, first + SEQUENCES), parts_of_step):
            flat = ids[rows].reshape(-1)
            lengths, words = np.full(len(rows), LENGTH), np.ones(len(flat), np.bool_)
            keys = np.stack([rows, rows], 1)
            sequences = Sequences(flat, lengths, special[flat], words, None, keys)
            hidden = mask_tokens(sequences, Masking(SHARE), vocabulary, seed=0, epoch=number)
            batches.append(masked_batch(sequences, hidden))
        count = sum(objective.counts(batch)[0] for batch in batches)
        total = 0.0
        for batch in batches:
            loss = objective(batch)[0] / count
            torch.autograd.backward(loss)
            total += float(loss.detach())
        clip_gradients(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        number += 1
        yield total


def theirs() -> Iterator[float]:
    """Steps of transformers: its collator, its class's loss, clipping, the same optimizer."""
    import torch
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertTokenizerFast,
        DataCollatorForLanguageModeling,
    )

    import bothways.training.pretrain  # noqa: F401 - both sides have the same libraries in memory

    words = [f"w{number}" for number in range(PIECES)]
    words[0], words[100:104] = "[PAD]", ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
        tokenizer = BertTokenizerFast.from_pretrained(folder)
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=SHARE)
    rows = texts()
    yield 0.0
    config = BertConfig(
        vocab_size=PIECES,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
    )
    model = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    number = 0
    while True:
        batch = collate([{"input_ids": row} for row in rows[number % 64 * SEQUENCES :][:SEQUENCES]])
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        number += 1
        yield float(loss.detach())


def in_process(*arguments: str, quiet: bool = True) -> dict[str, Any]:
    """What this file prints in a new process."""
    command = [sys.executable, __file__, *arguments]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
        check=True,
        env=environment,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def speed(rounds: int, steps: int, threads: int) -> dict[str, Any]:
    """Both sides in turn, and how many times better we are."""
    sides = ("bothways", "transformers")
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for turn in range(rounds):
        for name in sides if turn % 2 == 0 else reversed(sides):
            arguments = ["--side", name, "--steps", str(steps), "--threads", str(threads)]
            found[name].append(in_process(*arguments))
    tokens = SEQUENCES * LENGTH
    seconds = {name: [each["seconds"] for each in found[name]] for name in sides}
    ratios = [t / o for t, o in zip(seconds["transformers"], seconds["bothways"], strict=True)]
    memory = {name: statistics.median(each["megabytes"] for each in found[name]) for name in sides}
    return {
        "tokens_per_second": {
            name: tokens / statistics.median(values) for name, values in seconds.items()
        },
        "tokens_per_second_ratio": statistics.median(ratios),
        "tokens_per_second_ratios": ratios,
        "megabytes": memory,
        "memory_ratio": memory["bothways"] / memory["transformers"],
    }


# --- quality for time --------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One run of one side.

    Attributes:
        side: whose.
        rate: learning rate; Muon's on our side.
        minutes: of training, evaluation not counted.
    """

    side: str
    rate: float
    minutes: float


def prepared(folder: Path) -> tuple[Path, Path]:
    """Tokenizer and shards of the corpus, made once."""
    from bothways.data.corpus import Corpus
    from bothways.data.prepare import PrepareSettings, prepare
    from bothways.families.registry import FAMILIES
    from bothways.tokenization.train import train_tokenizer

    reads, shards = folder / "tokenizer", folder / "shards"
    files = tuple(str(data_folder() / "rawtext" / f"{name}.txt") for name in CORPUS)
    if not (shards / "manifest.json").exists():
        recipe = FAMILIES["bert"].tokenizer
        assert recipe is not None
        lines = Corpus(files, document="line")
        tokenizer = train_tokenizer(
            lines, algorithm="wordpiece", vocab_size=4096, recipe=recipe, lowercase=True
        )
        tokenizer.save(reads)
        prepare(PrepareSettings(files, shards, overwrite=True), tokenizer)
    return reads, shards


def text_data(folder: Path, **loop: Any) -> Any:
    """Shards as both sides read them, with their held-out masks."""
    from bothways.tokenization.tokenizer import load_tokenizer
    from bothways.training.pretrain_settings import PretrainSettings
    from bothways.training.pretrain_tables import CorpusSettings, LoopSettings
    from bothways.training.text_feed import TextData

    reads, shards = prepared(folder)
    settings = PretrainSettings(
        folder / "unused",
        preset="tiny",
        corpus=CorpusSettings(data=shards),
        loop=LoopSettings(steps=1, max_length=64, batch_tokens=32 * 64, **loop),
    ).filled()
    return TextData(shards, settings, load_tokenizer(reads))


def run_quality(job: Job, folder: Path, threads: int) -> dict[str, Any]:
    """Held-out loss against minutes of training."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    return {"bothways": quality_ours, "transformers": quality_theirs}[job.side](job, folder)


def quality_ours(job: Job, folder: Path) -> dict[str, Any]:
    """Our recipe: modern parts, Muon, a trapezoid, a batch that grows; through `pretrain`."""
    from bothways.training.pretrain import pretrain
    from bothways.training.pretrain_settings import PretrainSettings
    from bothways.training.pretrain_tables import (
        CorpusSettings,
        LoopSettings,
        MachineSettings,
        ObjectiveSettings,
        OptimSettings,
    )

    _, shards = prepared(folder)

    def settings(loop: LoopSettings, name: str) -> PretrainSettings:
        return PretrainSettings(
            folder / name,
            preset="modern-tiny",
            overwrite=True,
            corpus=CorpusSettings(data=shards),
            objective=ObjectiveSettings(mask_share=0.2),
            optim=OptimSettings(
                optimizer="muon",
                matrix_learning_rate=job.rate,
                learning_rate=3e-3,
                schedule="trapezoid",
                decay=0.4,
                ramp=0.2,
            ),
            loop=loop,
            machine=MachineSettings(device="cpu"),
        )

    shape: dict[str, Any] = {"max_length": 64, "batch_tokens": 32 * 64, "checkpoint_every": 10**9}
    name = f"bothways-{job.rate:g}-{job.minutes:g}"
    # Hours fix the number of steps; a tenth more, as evaluations are inside that budget.
    result = pretrain(settings(LoopSettings(hours=job.minutes / 60, **shape), name))
    lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").open()]
    curve = [(line["seconds"] / 60, line["loss"]) for line in lines if line["split"] == "dev"]
    return {"curve": curve, "loss": result.metrics["loss"], "unigram": result.unigram_loss}


def quality_theirs(job: Job, folder: Path) -> dict[str, Any]:
    """Their class and collator, AdamW with a linear schedule, 32 sequences of 64 tokens."""
    import torch
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertTokenizerFast,
        DataCollatorForLanguageModeling,
        get_linear_schedule_with_warmup,
    )

    from bothways.training.schedule import batch_ramp

    data = text_data(folder)
    reads, _ = prepared(folder)
    tokenizer = BertTokenizerFast.from_pretrained(reads)
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=SHARE)
    config = BertConfig(
        vocab_size=4096,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
    )
    model = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.rate, weight_decay=0.01, fused=True)

    def batches() -> Iterator[dict[str, Any]]:
        for step in data.feed(batch_ramp(steps=1)).steps({}):
            batch = step.micro[0].batch
            ids = batch.ids.clone()
            ids[batch.targets["masked"]] = batch.targets["originals"]
            yield collate([{"input_ids": row.tolist()} for row in batch.layout.split(ids)])

    source = batches()
    start = time.perf_counter()
    for _ in range(20):  # how long a step takes; the schedule needs the number of steps
        model(**next(source)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    steps = int(job.minutes * 60 / ((time.perf_counter() - start) / 20))
    torch.manual_seed(0)
    model = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.rate, weight_decay=0.01, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, int(0.06 * steps), steps)
    held_out, curve, spent = data.held_out(), [], 0.0
    for number in range(steps):
        begin = time.perf_counter()
        model(**next(source)).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        spent += time.perf_counter() - begin
        if (number + 1) % max(1, steps // POINTS) == 0 or number + 1 == steps:
            curve.append((spent / 60, held_out_loss(model, held_out)))
    return {"curve": curve, "loss": curve[-1][1], "unigram": None}


def held_out_loss(model: Any, batches: Sequence[Any]) -> float:
    """Their model's mean loss over the tokens that ours is scored on."""
    import torch
    import torch.nn.functional as F

    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for batch in batches:
            masked, originals = batch.targets["masked"], batch.targets["originals"]
            ids = torch.nn.utils.rnn.pad_sequence(batch.layout.split(batch.ids), True)
            keep = torch.arange(ids.shape[1]) < torch.tensor(batch.layout.lengths)[:, None]
            logits = model(input_ids=ids, attention_mask=keep.long()).logits[keep][masked]
            total += float(F.cross_entropy(logits, originals, reduction="sum"))
            count += len(masked)
    model.train()
    return total / count


def quality(
    minutes: float, tune_minutes: float, threads: int, folder: Path, table: Path
) -> dict[str, Any]:
    """All runs that are not in the table yet, and what they say together."""
    rows = json.loads(table.read_text("utf-8")) if table.exists() else []

    def row(job: Job) -> dict[str, Any]:
        key = {"side": job.side, "rate": job.rate, "minutes": job.minutes}
        for known in rows:
            if all(known[name] == value for name, value in key.items()):
                return dict(known)
        arguments = ["--job", json.dumps(vars(job)), "--folder", str(folder)]
        made = in_process(*arguments, "--threads", str(threads), quiet=False)
        today = datetime.now(tz=UTC).date().isoformat()
        new = {**key, **made, "date": today, "commit": commit(), "machine": machine()}
        rows.append(new)
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        return new

    best = {}
    for side, rates in RATES.items():
        tried = [row(Job(side, rate, tune_minutes)) for rate in rates]
        rate = min(tried, key=lambda found: found["loss"])["rate"]
        best[side] = row(Job(side, rate, minutes))
    ours, theirs = best["bothways"], best["transformers"]
    reached = next((at for at, loss in ours["curve"] if loss <= theirs["loss"]), math.nan)
    return {
        "unigram_entropy": ours["unigram"],
        "held_out_loss": {side: found["loss"] for side, found in best.items()},
        "nats_below": theirs["loss"] - ours["loss"],
        "sooner_ratio": theirs["curve"][-1][0] / reached,
        "curves": {side: found["curve"] for side, found in best.items()},
    }


def commit() -> str:
    """The commit that is measured."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--tune-minutes", type=float, default=3.0)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "bothways-quality"
    )
    parser.add_argument("--table", type=Path, default=TABLE, help="where rows of --quality go")
    parser.add_argument("--side", choices=("bothways", "transformers"), help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.side, options.steps, options.threads)))
        return
    if options.job:
        job = Job(**json.loads(options.job))
        print(json.dumps(run_quality(job, options.folder, options.threads)))
        return
    import torch

    torch.set_num_threads(options.threads)
    result: dict[str, Any] = {"machine": machine()}
    if options.quality:
        folder, threads = options.folder, options.threads
        given = (options.minutes, options.tune_minutes, threads, folder, options.table)
        result |= quality(*given)
    else:
        result |= speed(options.rounds, options.steps, options.threads)
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
