"""What `Model` returns: vectors and results with their ledgers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bothways.tasks.results import Result
from bothways.tokenization.encoding import Ledger

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Embeddings:
    """Vectors of texts.

    Attributes:
        vectors: float32 (n, dim), in input order.
        ledger: what was cut.
    """

    vectors: NDArray[np.float32]
    ledger: Ledger = field(default_factory=Ledger)

    @classmethod
    def together(cls, parts: Iterable[Embeddings], dimension: int) -> Embeddings:
        """The vectors of many parts, with the account of all; none are (0, dimension)."""
        found = list(parts)
        if len(found) == 1:
            return found[0]
        vectors = [part.vectors for part in found] or [np.empty((0, dimension), dtype=np.float32)]
        return cls(np.concatenate(vectors), Ledger.total(part.ledger for part in found))


@dataclass(frozen=True)
class SparseEmbeddings:
    """Sparse vectors of texts, a column a word of the vocabulary.

    Attributes:
        vectors: float32 (n, vocabulary) in compressed rows (`.indptr .indices .data`), in input
            order.
        ledger: what was cut.
    """

    vectors: csr_array
    ledger: Ledger = field(default_factory=Ledger)


class Similarities(np.ndarray[tuple[int, ...], np.dtype[np.float32]]):
    """Similarity of every text with every other, (n, m) float32.

    Attributes:
        ledger: what was cut.
    """

    ledger: Ledger

    @classmethod
    def of(cls, scores: NDArray[np.float32], ledger: Ledger) -> Similarities:
        """Scores with their ledger."""
        made: Similarities = scores.view(cls)
        made.ledger = ledger
        return made

    def __array_finalize__(self, source: object) -> None:
        """A part of the array has the ledger of the whole."""
        self.ledger = getattr(source, "ledger", Ledger())


class TokenVectors(list[NDArray[np.float32]]):
    """One (pieces, hidden) float32 array a text, in input order.

    Attributes:
        ledger: what was cut.
    """

    def __init__(
        self, arrays: Iterable[NDArray[np.float32]] = (), ledger: Ledger | None = None
    ) -> None:
        super().__init__(arrays)
        self.ledger = ledger or Ledger()


class Results(list[Result]):
    """One result an example, in input order.

    Attributes:
        ledger: what was cut.
        tokens_cut: the same of each example; empty where nobody counted.
    """

    def __init__(
        self,
        results: Iterable[Result] = (),
        ledger: Ledger | None = None,
        tokens_cut: Iterable[int] = (),
    ) -> None:
        super().__init__(results)
        self.ledger = ledger or Ledger()
        self.tokens_cut = list(tokens_cut)

    @classmethod
    def together(cls, parts: Iterable[Results]) -> Results:
        """The results of many parts, with the account of all."""
        found = list(parts)
        return cls(
            (result for part in found for result in part),
            Ledger.total(part.ledger for part in found),
            (cut for part in found for cut in part.tokens_cut),
        )


@dataclass(frozen=True)
class FillCandidate:
    """A token for a mask.

    Attributes:
        token: its text in the vocabulary.
        id: its number.
        probability: among all tokens.
    """

    token: str
    id: int
    probability: float


class Filled(list[list[list[FillCandidate]]]):
    """For each text, for each of its masks, candidates, best first.

    Attributes:
        ledger: what was cut.
    """

    def __init__(self, texts: Iterable[list[list[FillCandidate]]], ledger: Ledger) -> None:
        super().__init__(texts)
        self.ledger = ledger
