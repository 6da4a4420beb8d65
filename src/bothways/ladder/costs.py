"""What a candidate costs on this machine: time of a text alone, memory, room, and training."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
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
TIMED_TEXTS = 32


@dataclass(frozen=True)
class Cost:
    """What was measured of a candidate.

    Attributes:
        latency_ms: milliseconds for a text alone, from text to states: the median over texts of the
            data.
        memory_mb: growth of the process by loading the encoder and reading those texts, in 10^6
            bytes; None where the system does not tell.
        size_mb: of the weights as saved, in 10^6 bytes.
        training_seconds: estimate of all its runs.
    """

    latency_ms: float
    memory_mb: float | None
    size_mb: float
    training_seconds: float


def latencies(candidate: Candidate, runtime: Runtime, *, seed: int = 0) -> list[float]:
    """Milliseconds for each of some texts of the data, alone and as long as they are.

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
    return [1000.0 * seconds for seconds in taken]


@dataclass(frozen=True)
class Round:
    """One measurement of a candidate at work.

    Attributes:
        milliseconds: for each text.
        megabytes: growth of the process by loading the encoder and reading the texts, or None.
    """

    milliseconds: Sequence[float]
    megabytes: float | None


def at_work(candidate: Candidate, runtime: Runtime, *, seed: int = 0) -> Round:
    """Time of some texts, and the memory that loading the encoder and reading them takes.

    Args:
        candidate: as loaded; its encoder is loaded anew.
        runtime: device and precision.
        seed: of the choice of texts.
    """

    def load_and_read() -> list[float]:
        afresh = dataclasses.replace(candidate, base=load_parts(candidate.source))
        return latencies(afresh, runtime, seed=seed)

    return Round(*peak_of(load_and_read))


def over_rounds(rounds: Sequence[Round]) -> dict[str, float | None]:
    """`latency_ms` and `memory_mb` of a candidate, as in `Cost`.

    What else the machine does only adds to a time, so each text has the least of its times. The
    first round loads libraries too; its memory does not count where there are others.
    """
    least = [min(times) for times in zip(*(each.milliseconds for each in rounds), strict=True)]
    grown = [each.megabytes for each in rounds[1:] or rounds if each.megabytes is not None]
    return {"latency_ms": statistics.median(least), "memory_mb": max(grown, default=None)}
