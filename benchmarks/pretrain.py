"""Pretraining speed, memory and quality beside transformers' BertForMaskedLM.

    python benchmarks/pretrain.py [--json] [--rounds 3] [--steps 8] [--threads 2]
    python benchmarks/pretrain.py --quality [--minutes 15] [--tune-minutes 3]

Speed and memory: the mini shape (4 layers, 256 wide) over 30,522 pieces, 32 sequences of 128 tokens
a step, 15 % masked, dropout 0.1, fused AdamW, float32 on both sides. Theirs is the class's own loss
behind DataCollatorForLanguageModeling. Each side runs in a process of its own, in turn; memory is
how much its resident set grows from the imported libraries to the peak.

Quality for time (`--quality`) is described and run by pretrain_quality.py.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import machine
from pretrain_quality import FOLDER, TABLE, quality, told

SEQUENCES, LENGTH, PIECES, SHARE = 32, 128, 30_522, 0.15


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


def in_process(*arguments: str) -> dict[str, Any]:
    """What this file prints in a new process."""
    command = [sys.executable, __file__, *arguments]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
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
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the text of --quality")
    parser.add_argument("--table", type=Path, default=TABLE, help="where rows of --quality go")
    parser.add_argument("--side", choices=("bothways", "transformers"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.side, options.steps, options.threads)))
        return
    import torch

    torch.set_num_threads(options.threads)
    if options.quality:
        found = quality(
            minutes=options.minutes,
            tune_minutes=options.tune_minutes,
            threads=options.threads,
            folder=options.folder,
            table=options.table,
        )
        print(json.dumps(found) if options.json else told(found))
        return
    result = {"machine": machine(), **speed(options.rounds, options.steps, options.threads)}
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
