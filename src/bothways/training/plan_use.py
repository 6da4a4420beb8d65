"""What using a model and fine-tuning it takes: measured here, and on paper for another device.

Here, texts of the data are read as `embed` and `predict` read them, from text to vectors, and
learned from in steps forward and backward; both are timed. Of those times and the FLOPs follows
the share of its peak that this machine reaches. On another device the same FLOPs take as long as
its peak and an assumed share of it say.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from bothways.data.randomness import keyed_random
from bothways.errors import DataError, counted
from bothways.inference.inputs import one_window, text_columns
from bothways.inference.model import Model
from bothways.model.layout import Batch
from bothways.tokenization.policy import CutPolicy
from bothways.training.estimate import forward_flops
from bothways.training.plan import PlanSettings, Shares, parse_device, shares_of
from bothways.training.runtime import Runtime
from bothways.training.settings import DEFAULT_BATCH_SIZE

# Seconds that a pass over the sample should take, and what bounds the sample.
PASS_SECONDS = 4.0
FIRST_TEXTS, MOST_TEXTS = 16, 1024
# Passes over the sample and steps of fine-tuning that are timed; one more of each warms up.
PASSES, STEPS = 3, 5
# A step reads forward once and goes back twice.
STEP_PASSES = 3.0


@dataclass(frozen=True)
class Rate:
    """How fast some work goes.

    Attributes:
        work: inference or finetune; an epoch of it.
        where: `here`, measured, or the device, on paper.
        texts_per_hour: at the usual share of the peak; here the median of what was measured.
        low, high: at the least and the largest share; here the slowest and the fastest.
        hours: for all texts that were asked about, all epochs of them when fine-tuning.
        cost: dollars for those; None where an hour has no price.
    """

    work: str
    where: str
    texts_per_hour: float
    low: float
    high: float
    hours: float
    cost: float | None


@dataclass(frozen=True)
class UsePlan:
    """What a model takes.

    Attributes:
        texts: how many were asked about.
        sample: how many were read to measure.
        tokens_per_text: mean, as the model cuts them.
        flops_per_text: of the matrix products of a forward pass.
        peak_share: what inference and fine-tuning reach of this machine's fastest matrix product.
        machine: threads or device, and that peak.
        rates: inference and fine-tuning, here and on the device.
        assumptions: in words.
    """

    texts: int
    sample: int
    tokens_per_text: float
    flops_per_text: float
    peak_share: dict[str, float]
    machine: str
    rates: tuple[Rate, ...]
    assumptions: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The object that `plan --json` prints."""
        return asdict(self)


def plan_use(
    model: Model,
    texts: Sequence[Any],
    settings: PlanSettings,
    *,
    policy: CutPolicy,
    runtime: Runtime,
    seed: int = 0,
) -> UsePlan:
    """Measure a model on some of the texts, and compute what all of them take.

    Args:
        model: any; its head costs next to nothing and is left out.
        texts: texts or pairs; what work there is: so many, of such lengths.
        settings: number of texts and epochs, the device on paper, prices.
        policy: how texts are cut.
        runtime: device and precision of fine-tuning.
        seed: of the choice of texts.

    Raises:
        DataError: when there is no text.
        UsageError: for a device or a number that cannot be.
    """
    if not texts:
        raise DataError("there is no text to measure with")
    shares = shares_of(settings)
    sample = _sample(model, texts, policy, seed)
    ids, types, _ = model.tokenizer.encode_ids(*text_columns(sample, ""), policy=one_window(policy))
    lengths = [len(each) for each in ids]
    flops = forward_flops(model.encoder.config, lengths) / len(sample)
    reading = [
        _seconds(lambda: model.embed(sample, max_length=policy.max_length, policy=policy.keep))
        / len(sample)
        for _ in range(PASSES)
    ]
    learning = _learning(model, ids, types, runtime)
    asked = settings.examples if settings.examples is not None else len(texts)
    peak = runtime.matrix_peak
    threads = counted(torch.get_num_threads(), "thread")
    where = threads if runtime.device.type == "cpu" else "the GPU"
    rates = [
        _here("inference", reading, asked, settings.price),
        _here("finetune", learning, asked * settings.epochs, settings.price),
    ]
    assumptions = ["a step of fine-tuning holds 32 texts and leaves no parameter out"]
    if settings.device is not None:
        kind, count, device = parse_device(settings.device)
        price = count * (device.price if settings.price is None else settings.price)
        speed = device.peak * count
        rates += [
            _there("inference", settings.device, speed / flops, shares, asked, price),
            _there(
                "finetune",
                settings.device,
                speed / flops / STEP_PASSES,
                shares,
                asked * settings.epochs,
                price,
            ),
        ]
        assumptions += [
            (
                f"{count} x {kind}: {device.peak / 1e12:,.0f} TFLOP/s (bfloat16, dense), "
                f"${price / count:.2f} an hour"
            ),
            shares.note,
        ]
    return UsePlan(
        texts=asked,
        sample=len(sample),
        tokens_per_text=statistics.fmean(lengths),
        flops_per_text=flops,
        peak_share={
            "inference": flops / statistics.median(reading) / peak,
            "finetune": STEP_PASSES * flops / statistics.median(learning) / peak,
        },
        machine=f"{where}, {peak / 1e9:,.0f} GFLOP/s in its fastest matrix product",
        rates=tuple(rates),
        assumptions=tuple(assumptions),
    )


def _here(work: str, seconds: Sequence[float], texts: int, price: float | None) -> Rate:
    usual = statistics.median(seconds)
    hours = usual * texts / 3600
    cost = None if price is None else hours * price
    return Rate(work, "here", 3600 / usual, 3600 / max(seconds), 3600 / min(seconds), hours, cost)


def _there(
    work: str, device: str, per_second: float, shares: Shares, texts: int, price: float
) -> Rate:
    """On paper: `per_second` texts at the whole peak; `price` of an hour of all devices."""
    low, usual, high = (
        3600 * per_second * each for each in (shares.low, shares.usual, shares.high)
    )
    hours = texts / usual
    return Rate(work, device, usual, low, high, hours, hours * price)


def _sample(model: Model, texts: Sequence[Any], policy: CutPolicy, seed: int) -> list[Any]:
    """As many of the texts as are read in a few seconds, any of them."""
    order = keyed_random(seed, use="sample").permutation(len(texts)).tolist()
    first = [texts[place] for place in order[:FIRST_TEXTS]]

    def read() -> None:
        model.embed(first, max_length=policy.max_length, policy=policy.keep)

    read()
    count = int(len(first) * PASS_SECONDS / _seconds(read))
    return [texts[place] for place in order[: min(MOST_TEXTS, max(len(first), count))]]


def _learning(
    model: Model,
    ids: Sequence[Sequence[int]],
    types: Sequence[Sequence[int]] | None,
    runtime: Runtime,
) -> list[float]:
    """Seconds a text of steps forward, backward and of AdamW, on a copy."""
    encoder = copy.deepcopy(model.encoder).to(runtime.device).train()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-5, fused=True)
    size = min(DEFAULT_BATCH_SIZE, len(ids))

    def step(number: int) -> float:
        chosen = [(number * size + place) % len(ids) for place in range(size)]
        batch = Batch.packed(
            [ids[each] for each in chosen],
            None if types is None else [types[each] for each in chosen],
        ).to(runtime.device)

        def move() -> None:
            with runtime.forward():
                loss = encoder(batch).last_hidden.float().square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return _seconds(move) / size

    return [step(number) for number in range(STEPS + 1)][1:]


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin
