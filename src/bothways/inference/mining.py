"""Finding texts by their vectors: hard negatives for pairs, and texts that say the same.

Everything is searched exactly, block by block, and handed out as it is found. Vectors come from
`Model.embed`; which texts are copies of each other is known by `tasks/embed_examples.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bothways.data.randomness import keyed_random
from bothways.errors import UsageError
from bothways.inference.model import Model
from bothways.inference.nearest import CORPUS_BLOCK, QUERY_BLOCK, nearest
from bothways.inference.sides import embed_side
from bothways.tasks.embed_examples import EmbedExample, known_positives, text_id
from bothways.tokenization.encoding import Ledger

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class NegativeSettings:
    """Which documents count as hard negatives of a pair.

    Attributes:
        count: negatives a pair.
        skip: nearest documents to leave out, which may well be positives that nobody marked.
        depth: how many of the nearest documents are looked at.
        least_gap: by how much the cosine of a negative must be below that of the positive.
        relative_gap: the same as a share of the positive's cosine.
        highest: largest cosine of a negative.
        pick: the nearest of those that are left, or any of them by chance.
    """

    count: int = 5
    skip: int = 0
    depth: int = 100
    least_gap: float | None = None
    relative_gap: float | None = None
    highest: float | None = None
    pick: Literal["nearest", "random"] = "nearest"

    def check(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UsageError: with every problem.
        """
        problems = [
            f"--{name} is {value}; expected {low} or more"
            for name, value, low in (
                ("count", self.count, 1),
                ("skip", self.skip, 0),
                ("depth", self.depth, 1),
            )
            if value < low
        ]
        if self.skip + self.count > self.depth:
            problems.append(
                f"--skip {self.skip} and --count {self.count} need a --depth of at least "
                f"{self.skip + self.count}; it is {self.depth}"
            )
        if self.relative_gap is not None and not 0.0 <= self.relative_gap < 1.0:
            problems.append(f"--relative-gap is {self.relative_gap}; expected 0 up to below 1")
        if problems:
            raise UsageError("; ".join(problems))


@dataclass(frozen=True)
class Mined:
    """A pair with its hard negatives.

    Attributes:
        example: the pair, with the negatives, the nearest first.
        positive: cosine of the pair.
        negatives: cosines of the negatives with the anchor.
    """

    example: EmbedExample
    positive: float
    negatives: tuple[float, ...]


class NegativeMiner:
    """Hard negatives of pairs, from documents.

    Args:
        documents: different texts, the positives among them or not.
        vectors: of the documents, of length 1.
        settings: which documents will do.
        seed: of `pick="random"`.
    """

    def __init__(
        self,
        documents: Sequence[str],
        vectors: Floats,
        settings: NegativeSettings,
        *,
        seed: int = 0,
    ) -> None:
        settings.check()
        self._documents, self._vectors, self._settings = documents, vectors, settings
        self._ids = np.array([text_id(text) for text in documents])
        self._seed = seed

    def mine(
        self,
        examples: Sequence[EmbedExample],
        anchors: Floats,
        positives: Floats,
        known: Mapping[int, tuple[int, ...]],
    ) -> Iterator[Mined]:
        """Each pair with its negatives, in order; fewer than asked for where there are no more.

        Args:
            examples: pairs.
            anchors, positives: vectors of their texts, of length 1.
            known: further positives of an anchor, by ids of texts; see `known_positives`.
        """
        settings = self._settings
        # Positives are nearest of all and must not use up the depth.
        most = settings.depth + 2 + max(map(len, known.values()), default=0)
        copies = len(self._ids) - len(np.unique(self._ids))
        depth = min(most + copies, len(self._ids))
        for start in range(0, len(examples), QUERY_BLOCK):
            some = slice(start, start + QUERY_BLOCK)
            scores, rows = nearest(anchors[some], self._vectors, k=depth)
            cosines = (anchors[some] * positives[some]).sum(1)
            for at, example in enumerate(examples[some]):
                positive = float(cosines[at])
                chosen = self._choose(example, positive, scores[at], rows[at], known, start + at)
                texts = tuple(self._documents[rows[at][place]] for place in chosen)
                yield Mined(
                    EmbedExample(example.text, example.pair, texts, place=example.place),
                    positive,
                    tuple(float(scores[at][place]) for place in chosen),
                )

    def _choose(
        self,
        example: EmbedExample,
        positive: float,
        scores: Floats,
        rows: NDArray[np.int64],
        known: Mapping[int, tuple[int, ...]],
        number: int,
    ) -> list[int]:
        """Places in the ranking of the documents that are taken."""
        settings = self._settings
        anchor = text_id(example.text)
        taken = {anchor, text_id(example.pair or ""), *known.get(anchor, ())}
        places = []
        for place, row in enumerate(rows.tolist()):
            if int(self._ids[row]) not in taken:
                taken.add(int(self._ids[row]))
                places.append(place)
        bounds = [
            *([] if settings.highest is None else [settings.highest]),
            *([] if settings.least_gap is None else [positive - settings.least_gap]),
            *([] if settings.relative_gap is None else [positive * (1 - settings.relative_gap)]),
        ]
        left = [
            place
            for place in places[settings.skip : settings.depth]
            if scores[place] <= min(bounds, default=np.inf)
        ]
        if settings.pick == "random" and len(left) > settings.count:
            draw = keyed_random(self._seed, epoch=number, use="negatives")
            left = sorted(draw.choice(left, settings.count, replace=False).tolist())
        return left[: settings.count]


def mine_negatives(
    model: Model,
    examples: Sequence[EmbedExample],
    documents: Sequence[str] = (),
    *,
    settings: NegativeSettings | None = None,
    seed: int = 0,
    **options: Any,
) -> tuple[Iterator[Mined], Ledger]:
    """Hard negatives of pairs by a model's cosines, and what was cut of the texts.

    Args:
        model: an embedder.
        examples: pairs; all pairs of an anchor, since none of its positives is a negative.
        documents: where negatives are looked for; empty for the positives of all pairs.
        settings: which documents will do.
        seed: of choices by chance.
        options: of `Model.embed`.

    Example:
        >>> pairs = [EmbedExample("one", "a"), EmbedExample("two", "b")]
        >>> found, ledger = mine_negatives(model, pairs)  # doctest: +SKIP
        >>> next(found).example.negatives  # doctest: +SKIP
        ('b',)
    """
    settings = settings or NegativeSettings()
    settings.check()
    positives = [example.pair or "" for example in examples]
    pool = list(dict.fromkeys(documents or positives))
    places = {text: place for place, text in enumerate(dict.fromkeys([*pool, *positives]))}
    vectors = embed_side(model, "document", list(places), **options)
    anchors = embed_side(model, "query", [example.text for example in examples], **options)
    matrix = _unit(vectors.vectors)
    miner = NegativeMiner(pool, matrix[: len(pool)], settings, seed=seed)
    rows = matrix[[places[text] for text in positives]]
    found = miner.mine(examples, _unit(anchors.vectors), rows, known_positives(examples))
    return found, vectors.ledger + anchors.ledger


def _unit(vectors: Floats) -> Floats:
    """Vectors of length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def earlier_neighbours(
    vectors: Floats,
    threshold: float,
    *,
    row_block: int = QUERY_BLOCK,
    column_block: int = CORPUS_BLOCK,
) -> Iterator[tuple[int, NDArray[np.int64], Floats]]:
    """For each row that has some, the earlier rows whose product with it reaches a threshold.

    Args:
        vectors: (n, dimension), of length 1 where cosines are meant; may be memory-mapped.
        threshold: smallest product.
        row_block, column_block: rows that are compared at once.

    Yields:
        The row, the earlier rows in order, and the products.

    Example:
        >>> rows = np.eye(3, dtype=np.float32)[[0, 1, 0]]
        >>> [(row, others.tolist()) for row, others, _ in earlier_neighbours(rows, 0.9)]
        [(2, [0])]
    """
    for start in range(0, len(vectors), row_block):
        end = min(start + row_block, len(vectors))
        block = torch.from_numpy(np.array(vectors[start:end]))
        found: list[list[tuple[NDArray[np.int64], Floats]]] = [[] for _ in range(end - start)]
        for first in range(0, end, column_block):
            columns = vectors[first : min(first + column_block, end)]
            products = block @ torch.from_numpy(np.array(columns)).T
            earlier = torch.arange(first, first + len(columns)) < torch.arange(start, end)[:, None]
            hits = (products >= threshold) & earlier
            for row in hits.any(1).nonzero().flatten().tolist():
                at = hits[row].nonzero().flatten()
                found[row].append(((at + first).numpy(), products[row, at].numpy()))
        for row, parts in enumerate(found):
            if parts:
                others, scores = zip(*parts, strict=True)
                yield start + row, np.concatenate(others), np.concatenate(scores)
