"""Cheap evidence about candidates, and which of them cannot win.

Three measures of frozen states, on examples that are learned from and never on those that choose:
a linear probe and nearest neighbours, each example judged by others, and LogME. They foretell
badly how far fine-tuning leads an encoder, so nobody is left out for a low value alone. A candidate
is left out only where another costs no more and is ahead in all three, and where its states tell no
more than those of the same network with random weights: what it costs, it does not bring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.data.randomness import keyed_random
from bothways.diagnostics.probing import folds_of, neighbour_votes, probe, similarities
from bothways.evaluation.intervals import Units, paired_difference
from bothways.evaluation.result import Metric
from bothways.inference import prepacked
from bothways.ladder.candidates import Candidate
from bothways.ladder.frozen import Frozen, frozen
from bothways.model.encoder import Encoder
from bothways.model.init import initialise
from bothways.training.runtime import Runtime, seeded

# Examples that are read, and texts or words that are judged.
EXAMPLES, ITEMS = 1000, 2000
LOGME_STEPS = 11


@dataclass(frozen=True)
class Evidence:
    """What frozen states hold.

    Attributes:
        probe: of a linear probe: mean accuracy of the labels, or explained variance of a number.
        neighbours: the same of the nearest neighbours.
        logme: log evidence of a linear model, a text; comparable between candidates only.
        each: of each example, what it adds to `probe`.
    """

    probe: float
    neighbours: float
    logme: float
    each: tuple[float, ...]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evidence:
        """As `dataclasses.asdict` gave it, through a file."""
        return cls(**{**values, "each": tuple(values["each"])})

    def ahead_of(self, other: Evidence) -> bool:
        """Whether all three measures are above those of another."""
        return (
            self.probe > other.probe
            and self.neighbours > other.neighbours
            and self.logme > other.logme
        )

    def beyond(self, other: Evidence, confidence: float) -> Metric:
        """By how much its probe is above that of another, on the same examples."""
        count = min(len(self.each), len(other.each))
        ours, theirs = np.array(self.each[:count]), np.array(other.each[:count])
        return paired_difference(
            lambda some: float(ours[some].mean()),
            lambda some: float(theirs[some].mean()),
            Units.of(count),
            confidence=confidence,
        )


def evidence(
    candidate: Candidate, runtime: Runtime, *, seed: int = 0, untrained: bool = False
) -> Evidence:
    """The three measures of a candidate.

    Args:
        candidate: as loaded.
        runtime: device and precision.
        seed: of the choice of examples.
        untrained: ask the same network with random weights instead.

    Raises:
        NotAsked: for a task that tells nothing of single texts or words.
    """
    encoder = candidate.base.encoder.to(runtime.device)
    if untrained:
        with seeded(seed, device=runtime.device):
            encoder = Encoder(encoder.config)
            initialise(encoder, encoder.config.initializer_range)
        encoder = encoder.to(runtime.device).eval()
    prepacked.install(encoder)
    data = candidate.data.train
    generator = keyed_random(seed, use="sample")
    places = sorted(generator.permutation(len(data.examples))[:EXAMPLES].tolist())
    return weigh(frozen(encoder, data, places, runtime), len(places), seed=seed)


def weigh(found: Frozen, examples: int, *, seed: int = 0) -> Evidence:
    """The three measures of some vectors.

    Args:
        found: vectors and targets.
        examples: that they belong to.
        seed: of the folds, and of the choice where there are too many.
    """
    generator = keyed_random(seed, use="sample")
    kept = _some(found, generator)
    found = Frozen(found.vectors[kept], found.targets[kept], found.owners[kept], found.one_of_many)
    folds = folds_of(Units.of(len(kept), found.owners.tolist()), generator)
    probed = probe(found.vectors, found.targets, folds)
    voted = neighbour_votes(similarities(found.vectors), found.targets, folds)
    worth = _worth(found, probed)
    sums = np.bincount(found.owners, worth, minlength=examples) * examples / len(worth)
    return Evidence(
        probe=float(worth.mean()),
        neighbours=float(_worth(found, voted).mean()),
        logme=logme(found.vectors, found.targets),
        each=tuple(sums.tolist()),
    )


def _some(found: Frozen, generator: np.random.Generator) -> NDArray[np.int64]:
    """At most ITEMS of the vectors, rare labels before frequent ones, in order."""
    count = len(found.owners)
    if count <= ITEMS:
        return np.arange(count)
    order = generator.permutation(count)
    if found.one_of_many:
        # Each label's first, second, ... in turn, until there are enough.
        labels = found.targets[order].argmax(1)
        turn = np.empty(count, np.int64)
        for label in np.unique(labels):
            those = labels == label
            turn[those] = np.arange(those.sum())
        order = order[np.argsort(turn, kind="stable")]
    kept: NDArray[np.int64] = np.sort(order[:ITEMS])
    return kept


def _worth(found: Frozen, predicted: NDArray[np.float32]) -> NDArray[np.float64]:
    """What each prediction is worth, so that the mean is the score."""
    truth = found.targets
    if found.one_of_many:
        labels = truth.argmax(1)
        counts = np.bincount(labels)
        weight = len(labels) / (counts[labels] * (counts > 0).sum())
        worth: NDArray[np.float64] = (predicted.argmax(1) == labels) * weight
        return worth
    if set(np.unique(truth)) <= {0.0, 1.0}:
        right: NDArray[np.float64] = ((predicted > 0.5) == (truth > 0.5)).mean(1)
        return right
    missed = ((truth - predicted) ** 2).mean(1, dtype=np.float64)
    explained: NDArray[np.float64] = 1 - missed / max(float(truth.var(0).mean()), 1e-12)
    return explained


def logme(vectors: NDArray[np.float32], targets: NDArray[np.float32]) -> float:
    """Log evidence a text of a linear model whose two variances fit best, mean over the outputs.

    Args:
        vectors: (items, width).
        targets: (items, outputs).

    Source: You et al. 2021, algorithm 2 (by a singular value decomposition).
    """
    count, width = vectors.shape
    left, values, _ = np.linalg.svd(vectors.astype(np.float64), full_matrices=False)
    squares = values**2
    found = []
    for target in targets.T.astype(np.float64):
        if target.min() == target.max():
            continue
        along = (left.T @ target) ** 2
        outside = max(float(target @ target - along.sum()), 0.0)
        alpha = beta = 1.0
        for _ in range(LOGME_STEPS):
            ratio = alpha / beta
            weights = float((squares * along / (ratio + squares) ** 2).sum())
            missed = float((along / (1 + squares / ratio) ** 2).sum()) + outside
            fitted = float((squares / (ratio + squares)).sum())
            alpha, beta = fitted / (weights + 1e-12), (count - fitted) / (missed + 1e-12)
        log_determinant = float(np.log(alpha + beta * squares).sum())
        log_determinant += (width - len(squares)) * np.log(alpha)
        total = width * np.log(alpha) + count * np.log(beta) - log_determinant
        total -= beta * missed + alpha * weights + count * np.log(2 * np.pi)
        found.append(total / 2 / count)
    return float(np.mean(found)) if found else 0.0


@dataclass(frozen=True)
class Asked:
    """A candidate as the rule sees it.

    Attributes:
        name: of the candidate.
        size: any unit.
        found: its evidence.
    """

    name: str
    size: float
    found: Evidence


def ahead(candidate: Asked, cheaper: Sequence[Asked], confidence: float) -> Asked | None:
    """The first that costs no more and is ahead of a candidate in all evidence; None if none is.

    Args:
        candidate: that may be left out.
        cheaper: whose texts take no longer.
        confidence: that the probe of the other is shown to be ahead with.
    """
    for other in cheaper:
        if other.size > candidate.size or not other.found.ahead_of(candidate.found):
            continue
        low = other.found.beyond(candidate.found, confidence).low
        if low is not None and low > 0:
            return other
    return None


def why_it_cannot_win(
    candidate: Asked, other: Asked, untrained: Evidence, confidence: float
) -> str | None:
    """The reason to leave a candidate out; None where it may win.

    Args:
        candidate: that another is ahead of.
        other: that one.
        untrained: evidence of the same network with random weights.
        confidence: that it is shown to tell more than that with.
    """
    more = candidate.found.beyond(untrained, confidence)
    if more.low is not None and more.low > 0:
        return None
    own, theirs = candidate.found, other.found
    return (
        "frozen, it tells no more than the same network with random weights (probe "
        f"{own.probe:.3f} against {untrained.probe:.3f}), and {other.name}, which costs no more, "
        f"is ahead in all evidence: probe {theirs.probe:.3f}, neighbours {theirs.neighbours:.3f} "
        f"against {own.neighbours:.3f}, LogME {theirs.logme:.3f} against {own.logme:.3f}"
    )


def as_dict(found: Evidence) -> dict[str, Any]:
    """As JSON values."""
    return dataclasses.asdict(found)
