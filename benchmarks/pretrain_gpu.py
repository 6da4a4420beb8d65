"""Pretraining speed on one accelerator: tokens a second and share of peak, transformers beside it.

    python benchmarks/pretrain_gpu.py [--json] [--preset bert-base] [--length 512]
        [--batch-tokens 65536] [--steps 20] [--compare-linear-cross-entropy]

Masked language modelling in bfloat16 with fused AdamW, 15 % masked, hidden dropout 0.1, attention
dropout 0 on both sides (the fused kernels have none). Sequences are full, so that neither side
pads; `--ragged` draws lengths from 16 to `--length` instead, which is what text looks like: theirs
pads, ours does not, and both count real tokens. Peak is what large square products reach on this
device, measured in the same run, and by data sheet where the device is known. Each side runs in a
process of its own. Under 8 minutes with the defaults on any device since 2020. `--device cpu
--preset tiny --length 32 --batch-tokens 256 --steps 2` only shows that it runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SHARE, PIECES = 0.15, 30_522
SPECIALS = (0, 100, 101, 102, 103)
SEED = 0


@dataclass(frozen=True)
class Shape:
    """What is measured.

    Attributes:
        preset: the encoder.
        length: longest sequence.
        batch_tokens: of a step.
        steps: that count.
        ragged: whether sequences have different lengths.
        device: where.
    """

    preset: str
    length: int
    batch_tokens: int
    steps: int
    ragged: bool
    device: str


def lengths(shape: Shape, step: int) -> list[int]:
    """Tokens of the sequences of a step."""
    draw = np.random.default_rng((SEED, step))
    found: list[int] = []
    while sum(found) < shape.batch_tokens - shape.length:
        found.append(int(draw.integers(16, shape.length + 1)) if shape.ragged else shape.length)
    return sorted(found)


def batch(shape: Shape, step: int) -> Any:
    """A masked batch of random pieces."""
    from bothways.data.collate import masked_batch
    from bothways.data.masking import Masking, MaskVocabulary, mask_tokens
    from bothways.data.sequences import Sequences

    sizes = np.array(lengths(shape, step))
    ids = np.random.default_rng((SEED, step, 1)).integers(1000, PIECES, int(sizes.sum()))
    ends = np.cumsum(sizes)
    ids[ends - sizes], ids[ends - 1] = 101, 102
    special = np.zeros(PIECES, np.bool_)
    special[list(SPECIALS)] = True
    keys = np.stack([np.arange(len(sizes)), np.full(len(sizes), step)], 1)
    words = np.ones(len(ids), np.bool_)
    sequences = Sequences(ids, sizes, special[ids], words, None, keys)
    vocabulary = MaskVocabulary(103, special, np.flatnonzero(~special))
    hidden = mask_tokens(sequences, Masking(SHARE), vocabulary, seed=SEED, epoch=0)
    return masked_batch(sequences, hidden)


def ours(shape: Shape) -> tuple[Callable[[Any], Any], Callable[[Any], float]]:
    """A step of ours, and the FLOPs of a batch."""
    import torch

    from bothways.checkpoints.parts import adapt, new_head, new_parts
    from bothways.families.presets import preset
    from bothways.training.dropout import with_dropout
    from bothways.training.masked_lm import MaskedLMObjective
    from bothways.training.optim import adamw, clip_gradients
    from bothways.training.runtime import Runtime

    runtime = Runtime(device=shape.device, precision="bfloat16")
    torch.manual_seed(SEED)
    parts = new_parts(preset(shape.preset).with_vocab_size(PIECES))
    parts = adapt(parts, new_head(parts, "masked_lm", 0))
    assert parts.masked_lm is not None
    encoder = with_dropout(parts.encoder, {"attention": 0.0})
    objective = MaskedLMObjective(encoder, parts.masked_lm).train().to(runtime.device)
    optimizer = adamw(objective, learning_rate=1e-4)
    parameters = list(objective.parameters())

    def step(given: Any) -> Any:
        given = given.to(runtime.device)
        with runtime.forward():
            loss = objective(given)[0] / objective.counts(given)[0]
        torch.autograd.backward(loss)
        clip_gradients(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step, objective.flops


def theirs(shape: Shape) -> tuple[Callable[[Any], Any], Callable[[Any], float]]:
    """A step of BertForMaskedLM with its own loss, padded where sequences are ragged."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    from bothways.families.presets import preset

    shaped = preset(shape.preset)
    config = BertConfig(
        vocab_size=PIECES,
        hidden_size=shaped.hidden_size,
        num_hidden_layers=shaped.num_layers,
        num_attention_heads=shaped.attention.num_heads,
        intermediate_size=shaped.feedforward.size,
        max_position_embeddings=max(512, shape.length),
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(SEED)
    model = BertForMaskedLM._from_config(config, attn_implementation="sdpa")
    model = model.train().to(shape.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    def step(given: Any) -> Any:
        labels = torch.full_like(given.ids, -100)
        labels[given.targets["masked"]] = given.targets["originals"]
        ids, marks = (
            torch.nn.utils.rnn.pad_sequence(given.layout.split(rows), True, fill).to(shape.device)
            for rows, fill in ((given.ids, 0), (labels, -100))
        )
        sizes = torch.tensor(given.layout.lengths, device=shape.device)
        keep = (torch.arange(ids.shape[1], device=shape.device) < sizes[:, None]).long()
        mask = None if bool(keep.all()) else keep  # without one the fused kernel serves
        with torch.autocast(torch.device(shape.device).type, dtype=torch.bfloat16):
            loss = model(input_ids=ids, attention_mask=mask, labels=marks).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step, lambda _: 0.0


def run_side(name: str, shape: Shape) -> dict[str, Any]:
    """Seconds a step, memory, and losses of one side."""
    import torch

    from bothways.training.estimate import matrix_peak

    step, flops = {"bothways": ours, "transformers": theirs}[name](shape)
    gpu = torch.device(shape.device).type == "cuda"

    def wait() -> None:
        if gpu:
            torch.cuda.synchronize()

    batches = [batch(shape, number) for number in range(shape.steps)]
    for given in batches[:3]:  # not counted: choice of kernels, first touch of memory
        step(given)
    wait()
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    times, losses = [], []
    for given in batches:
        start = time.perf_counter()
        losses.append(step(given))
        wait()
        times.append(time.perf_counter() - start)
    tokens = [given.layout.num_tokens for given in batches]
    return {
        "tokens_per_second": sum(tokens) / sum(times),
        "seconds_a_step": statistics.median(times),
        "flops": sum(map(flops, batches)) / sum(times),
        "measured_peak": matrix_peak(torch.device(shape.device), torch.bfloat16),
        "gigabytes": torch.cuda.max_memory_allocated() / 1e9 if gpu else None,
        "last_loss": float(losses[-1]),
        "device": torch.cuda.get_device_name() if gpu else "cpu",
    }


def compare_losses(device: str, rows: int = 8192, width: int = 768) -> dict[str, float]:
    """Milliseconds of our vocabulary loss and of torch's chunked one, forward and backward."""
    import torch
    import torch.nn.functional as F

    from bothways.model.vocabulary import vocabulary_loss

    features = torch.randn(rows, width, device=device, requires_grad=True)
    weight = (torch.randn(PIECES, width, device=device) * 0.02).requires_grad_()
    bias = torch.zeros(PIECES, device=device, requires_grad=True)
    targets = torch.randint(0, PIECES, (rows,), device=device)
    options = torch.nn.LinearCrossEntropyOptions()

    def by_torch() -> Any:
        return F.linear_cross_entropy(
            features, weight, targets, linear_bias=bias, reduction="sum", options=options
        )

    found = {}
    for name, loss in (
        ("bothways", lambda: vocabulary_loss(features, weight, bias, targets)[0]),
        ("torch", by_torch),
    ):
        times = []
        for _ in range(8):
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            with torch.autocast(device, dtype=torch.bfloat16):
                total = loss()
            total.backward()
            if device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        found[name] = 1e3 * min(times)
    return found


def in_process(arguments: list[str]) -> dict[str, Any]:
    """What this file prints in a new process."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and print."""
    from bothways.training.plan import DEVICES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--preset", default="bert-base")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch-tokens", type=int, default=65_536)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compare-linear-cross-entropy", action="store_true")
    parser.add_argument("--side", choices=("bothways", "transformers"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    shape = Shape(
        options.preset,
        options.length,
        options.batch_tokens,
        options.steps,
        options.ragged,
        options.device,
    )
    if options.side:
        print(json.dumps(run_side(options.side, shape)))
        return
    given = [argument for argument in sys.argv[1:] if argument != "--json"]
    sides = {name: in_process([*given, "--side", name]) for name in ("bothways", "transformers")}
    ours_found, theirs_found = sides["bothways"], sides["transformers"]
    name = ours_found["device"].lower()
    known = [device.peak for kind, device in DEVICES.items() if kind in name]
    result: dict[str, Any] = {
        "device": ours_found["device"],
        "shape": vars(shape),
        **sides,
        "tokens_per_second_ratio": (
            ours_found["tokens_per_second"] / theirs_found["tokens_per_second"]
        ),
        "share_of_measured_peak": ours_found["flops"] / ours_found["measured_peak"],
        "share_of_stated_peak": ours_found["flops"] / known[0] if known else None,
    }
    if ours_found["gigabytes"] and theirs_found["gigabytes"]:
        result["memory_ratio"] = ours_found["gigabytes"] / theirs_found["gigabytes"]
    if options.compare_linear_cross_entropy:
        result["vocabulary_loss_milliseconds"] = compare_losses(options.device)
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
