"""Pooling: whether another vector of the same frozen encoder says more than the one that is read.

Every layer and the mean of the last layers, as the first token, the mean and the largest values,
from the pass that made the predictions. Labels are told by a linear probe and by nearest
neighbours, learned from other examples of the same data; an embedder's vectors are judged by the
task's own score. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.evidence import MOST_STATES, Evidence
from bothways.diagnostics.probing import (
    Geometry,
    Vectors,
    folds_of,
    geometry,
    neighbour_votes,
    probe,
    similarities,
)
from bothways.diagnostics.states import POOLINGS
from bothways.errors import NotAsked
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import Indices, intervals, intervals_together
from bothways.evaluation.result import Figure, Finding, Metric, Series, Table, interval_columns
from bothways.metrics.similarity import cosine
from bothways.tasks.results import ScoreResult

# A gain below this is no alarm.
LEAST_GAIN = 0.02
PROBED = 1000
RESAMPLES = 500
# Of how many last layers the mean is tried.
LAST_LAYERS = (2, 4)
Score = Callable[[Indices], float]
WORDS = {"cls": "the first token", "mean": "the mean", "max": "the largest values"}


class Place(NamedTuple):
    """Where a vector comes from: a pooling, and a layer or the last ones from it."""

    pooling: str
    layer: int
    last: int = 1

    @property
    def layers(self) -> str:
        """`5`, or `3 to 6` where their mean is taken."""
        return (
            str(self.layer) if self.last == 1 else f"{self.layer - self.last + 1} to {self.layer}"
        )

    def __str__(self) -> str:
        """`the mean of layer 5`."""
        plural = "" if self.last == 1 else "s"
        return f"{WORDS.get(self.pooling, self.pooling)} of layer{plural} {self.layers}"


@dataclass(frozen=True)
class Tried:
    """A vector and what it says.

    Attributes:
        score: of a linear probe, or for an embedder of the vectors themselves.
        gain: that minus the score of what is read now, on the same draws; intervals of all
            gains hold together.
        neighbours: score of the nearest neighbours; None for an embedder.
        geometry: how the vectors lie.
    """

    score: Metric
    gain: Metric
    neighbours: Metric | None
    geometry: Geometry


@dataclass(frozen=True)
class Pooling:
    """What each vector of the encoder says.

    Attributes:
        metric: name of the score.
        width: of the vectors.
        now: what the head or the embedder reads.
        model: score of the model itself, on the same examples.
        tried: by place; `now` is among them where it is the last layer pooled in one way.
    """

    metric: str
    width: int
    now: Place
    model: float
    tried: Mapping[Place, Tried]

    @property
    def is_embedder(self) -> bool:
        """Whether vectors were judged as they are, without a probe."""
        return any(each.neighbours is None for each in self.tried.values())

    @property
    def better(self) -> Place | None:
        """The vector that is shown to say more than the one that is read; of several the best."""
        shown = [place for place, tried in self.tried.items() if (tried.gain.low or 0) > 0]
        return max(shown, key=lambda place: self.tried[place].score.value, default=None)

    def findings(self) -> tuple[Finding, ...]:
        """One finding: what would be the better vector, and how vectors lie."""
        others = [place for place in self.tried if place != self.now]
        best = self.better or max(others, key=lambda place: self.tried[place].score.value)
        found = self.tried[best]
        reader = "The embedder" if self.is_embedder else "The head"
        how = "" if self.is_embedder else " by a linear probe of the frozen encoder"
        severity = "fine"
        text = f"{reader} reads {self.now}"
        if self.better is None:
            text += (
                f"; no other layer or pooling is shown to say more (the best, {best}: "
                f"{self.metric} {found.score}{how})."
            )
        else:
            text += (
                f", but {best} says more: {self.metric} {found.score}{how}, a gain of {found.gain}"
            )
            ahead = found.score.value >= self.model and found.gain.value >= LEAST_GAIN
            severity = "alarm" if ahead else "note"
            text += (
                "."
                if ahead
                else (f". The model itself reaches {self.model:.3f}, so there is little to win.")
            )
        lies = self.tried.get(self.now, found).geometry
        text += (
            f" Two texts have a cosine of {lies.cosine:.2f} on average, and the vectors fill about "
            f"{lies.dimensions:.0f} of {self.width} dimensions."
        )
        numbers: dict[str, float | int | str | None] = {
            "now": str(self.now),
            "best": str(best),
            "score": found.score.value,
            "gain": found.gain.value,
            "gain_low": found.gain.low,
            "gain_high": found.gain.high,
            "model": self.model,
            "mean_cosine": lies.cosine,
            "hubness": lies.hubness,
            "dimensions": lies.dimensions,
        }
        return (Finding("pooling", severity, text, numbers),)  # type: ignore[arg-type]

    def figures(self) -> tuple[Figure, ...]:
        """The score by layer, a line a pooling."""
        lines = []
        for pooling in POOLINGS:
            some = {
                place.layers: tried.score
                for place, tried in self.tried.items()
                if (place.pooling, place.last) == (pooling, 1)
            }
            lines.append(Series.of_metrics(WORDS[pooling], some))
        title = f"{self.metric} {'of the vectors' if self.is_embedder else 'of a linear probe'}"
        return (
            Figure(
                "pooling",
                f"{title} by layer and pooling, with 95 % intervals",
                "line",
                "layer",
                self.metric,
                tuple(lines),
            ),
        )

    def tables(self) -> tuple[Table, ...]:
        """Every vector: scores, gains, and how the vectors lie."""
        score = self.metric if self.is_embedder else f"{self.metric} of a probe"
        neighbours = () if self.is_embedder else interval_columns("of neighbours")
        rows = tuple(
            (
                *(place.pooling, place.layers),
                *each.score.cells,
                *each.gain.cells,
                *(() if each.neighbours is None else each.neighbours.cells),
                *(each.geometry.cosine, each.geometry.hubness, each.geometry.dimensions),
            )
            for place, each in self.tried.items()
        )
        columns = (
            *("pooling", "layers", *interval_columns(score), *interval_columns("gain")),
            *(*neighbours, "mean cosine", "hubness", "dimensions"),
        )
        return (Table("pooling", "Vectors of the frozen encoder", columns, rows),)


def pooling(evidence: Evidence) -> Pooling:
    """Score every layer and pooling of the frozen encoder.

    Args:
        evidence: to ask; of more than PROBED examples a sample is probed.

    Raises:
        NotAsked: for other tasks than classification and embedding, of too few examples, and
            where all have one label.
    """
    kinds: dict[str, type[_Labels] | type[_Pairs]] = {"classify": _Labels, "embed": _Pairs}
    task = evidence.task
    if task.name not in kinds:
        raise NotAsked(f"Vectors are probed in classification and embedding, not in {task.name}.")
    if len(evidence.examples) < TOO_FEW:
        raise NotAsked(f"{len(evidence.examples)} examples are too few to probe vectors with.")
    if len(evidence.examples) > MOST_STATES:
        evidence = evidence.part(PROBED)
    some = np.arange(len(evidence.examples))
    if len(some) > PROBED:
        some = np.sort(evidence.generator("pooling").choice(some, PROBED, replace=False))
    return _pooling(evidence, kinds[task.name](evidence, some))


def _pooling(evidence: Evidence, judge: _Labels | _Pairs) -> Pooling:
    scores: dict[Place, Score] = {}
    neighbours: dict[Place, Score] = {}
    shapes: dict[Place, Geometry] = {}
    layers = evidence.model.encoder.config.num_layers
    for name in POOLINGS:
        states = judge.states(name)
        for place in _places(name, layers):
            chosen = states[place.layer - place.last + 1 : place.layer + 1].mean(0)
            cosines = similarities(chosen)
            shapes[place] = geometry(chosen, cosines)
            scores[place], beside = judge.scores(chosen, cosines)
            if beside is not None:
                neighbours[place] = beside
    now = Place(judge.reads, layers)
    read = judge.model if isinstance(judge, _Pairs) else scores[now]
    part = judge.part
    options = {"resamples": min(RESAMPLES, part.resamples), "seed": part.seed}

    def of(those: Mapping[Place, Score]) -> dict[Place, Metric]:
        return intervals(
            lambda drawn: {place: score(drawn) for place, score in those.items()},
            part.units,
            **options,
        )

    def gains(drawn: Indices) -> NDArray[np.float64]:
        return np.array([score(drawn) for score in scores.values()]) - read(drawn)

    own, told = of(scores), of(neighbours)
    gained = dict(zip(scores, intervals_together(gains, part.units, **options), strict=True))
    return Pooling(
        metric=part.task.main_metric,
        width=evidence.model.encoder.config.hidden_size,
        now=now,
        model=judge.model(np.arange(len(part.examples))),
        tried={p: Tried(own[p], gained[p], told.get(p), shapes[p]) for p in scores},
    )


def _places(pooling: str, layers: int) -> list[Place]:
    """Every layer, and the means of the last ones."""
    means = [] if pooling == "max" else [Place(pooling, layers, k) for k in LAST_LAYERS]
    return [Place(pooling, layer) for layer in range(1, layers + 1)] + [
        place for place in means if place.last <= layers
    ]


class _Labels:
    """Judges vectors by the labels that others tell."""

    def __init__(self, evidence: Evidence, some: Indices) -> None:
        self.part = evidence.those(some)
        self._all, self._some = evidence.states, some
        labels = [example.label for example in self.part.examples]
        names = sorted(set(labels))
        if len(names) < 2:
            raise NotAsked(f"All examples have the label {names[0]!r}; no vector tells them apart.")
        self._truth = np.array([names.index(label) for label in labels])
        self._targets = np.eye(len(names), dtype=np.float32)[self._truth]
        self._folds = folds_of(self.part.units, evidence.generator("folds"))
        reads = getattr(evidence.model.head, "settings", {}).get("pooling")
        self.reads = reads if reads in POOLINGS else "cls"
        right = evidence.credit[some]
        self.model: Score = lambda drawn: float(right[drawn].mean())

    def states(self, pooling: str) -> NDArray[np.float32]:
        """(layers + 1, examples, width)."""
        return self._all.of_examples(pooling)[:, self._some]

    def scores(self, vectors: Vectors, cosines: Vectors) -> tuple[Score, Score | None]:
        """Of the probe and of the neighbours."""
        said = probe(vectors, self._targets, self._folds)
        votes = neighbour_votes(cosines, self._targets, self._folds)
        return self._score(said), self._score(votes)

    def _score(self, said: Vectors) -> Score:
        right = said.argmax(1) == self._truth
        return lambda drawn: float(right[drawn].mean())


class _Pairs:
    """Judges vectors as the embedder's own are judged."""

    def __init__(self, evidence: Evidence, some: Indices) -> None:
        self.part = evidence.those(some)
        self._all = evidence.states
        self._rows = np.flatnonzero(np.isin(self._all.owners, some))
        owners = self._all.owners[self._rows]
        self._ends = np.flatnonzero(np.diff(owners)) + 1
        self.reads = "+".join(evidence.model.sentence.pool.modes)
        self.model: Score = self.part.scorer([evidence.results[index] for index in some.tolist()])

    def states(self, pooling: str) -> NDArray[np.float32]:
        """(layers + 1, texts, width)."""
        states: NDArray[np.float32] = getattr(self._all, pooling)[:, self._rows]
        return states

    def scores(self, vectors: Vectors, cosines: Vectors) -> tuple[Score, Score | None]:
        """Of the vectors themselves."""
        del cosines
        each = np.split(vectors, self._ends)
        near = cosine(np.stack([v[0] for v in each]), np.stack([v[1] for v in each]))
        pairs = zip(near.tolist(), each, strict=True)
        return self.part.scorer([ScoreResult(score, rows) for score, rows in pairs]), None
