"""What a candidate costs on this machine: time of a text alone, memory, room, and training."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from bothways.checkpoints.load import load_parts
from bothways.data.randomness import keyed_random
from bothways.inference import prepacked
from bothways.inference.predictor import evaluating
from bothways.ladder.candidates import Candidate
from bothways.ladder.memory import peak_of
from bothways.training.runtime import Runtime

# Texts of the data that are timed, one at a time.
TIMED_TEXTS = 64


@dataclass(frozen=True)
class Cost:
    """What was measured of a candidate.

    Attributes:
        latency_ms: milliseconds for a text alone, median over texts of the data, from text to
            states.
        memory_mb: growth of the process by loading the encoder and reading those texts, in 10^6
            bytes; None where the system does not tell.
        size_mb: of the weights as saved, in 10^6 bytes.
        training_seconds: estimate of all its runs.
    """

    latency_ms: float
    memory_mb: float | None
    size_mb: float
    training_seconds: float


def latency(candidate: Candidate, runtime: Runtime, *, seed: int = 0) -> float:
    """Milliseconds for a text alone: the median over texts of the data, as long as they are.

    Args:
        candidate: as loaded; its fast path is installed.
        runtime: device and precision.
        seed: of the choice of texts.
    """
    data, encoder = candidate.data.train, candidate.base.encoder.to(runtime.device)
    task, policy = candidate.data.splits.task, candidate.data.policy
    tokenizer = candidate.base.tokenizer
    assert tokenizer is not None
    prepacked.install(encoder)
    count = min(TIMED_TEXTS, len(data.examples))
    places = keyed_random(seed, use="sample").permutation(len(data.examples))[:count].tolist()
    taken = []
    with evaluating(encoder), torch.inference_mode():
        for number, place in enumerate([*places[:2], *places]):
            begin = time.perf_counter()
            task.encode(data.examples[place], tokenizer, policy)
            with runtime.forward():
                encoder(data.batch([place]).to(runtime.device))
            if runtime.device.type == "cuda":
                torch.cuda.synchronize(runtime.device)
            if number >= 2:  # the first ones warm up
                taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1000.0


def at_work(candidate: Candidate, runtime: Runtime, *, seed: int = 0) -> dict[str, float | None]:
    """Time of a text, and the memory that loading the encoder and reading the texts takes.

    Args:
        candidate: as loaded; it is loaded anew.
        runtime: device and precision.
        seed: of the choice of texts.

    Returns:
        `latency_ms` and `memory_mb`, as in `Cost`.
    """

    def load_and_read() -> float:
        afresh = dataclasses.replace(candidate, base=load_parts(candidate.source))
        return latency(afresh, runtime, seed=seed)

    milliseconds, grown = peak_of(load_and_read)
    return {"latency_ms": milliseconds, "memory_mb": grown}


def over_rounds(rounds: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """The least time and the most memory of several rounds of `at_work`.

    The first round loads libraries too, so its memory does not count where there are others.
    """
    times = [each["latency_ms"] for each in rounds if each["latency_ms"] is not None]
    grown = [each["memory_mb"] for each in rounds[1:] or rounds if each["memory_mb"] is not None]
    return {"latency_ms": min(times), "memory_mb": max(grown, default=None)}
