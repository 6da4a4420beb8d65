"""Copies: examples that stand among others, letter by letter, in the same words, or nearly.

Nearly means that the runs of five characters of their words have a likeness (Jaccard's measure) of
at least 0.8, on each side of a pair. MinHash (`data/duplicates.py`) finds the candidates, of which
it misses one in twenty at that likeness; each is then compared exactly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bothways.data.duplicates import SHINGLE, THRESHOLD, candidates, signatures
from bothways.tasks.marking import RelateExample

# Characters of a text that are compared, and of all texts of one side together.
TEXT_READ = 2000
ALL_READ = 10_000_000

Kind = Literal["exact", "same words", "nearly"]
Sides = tuple[str, ...]


@dataclass(frozen=True)
class Copy:
    """An example that stands among others.

    Attributes:
        index: of the example.
        original: of the other one, among the others.
        kind: how alike they are.
        likeness: 1 unless they are only nearly the same.
    """

    index: int
    original: int
    kind: Kind
    likeness: float


def find_copies(
    examples: Sequence[Any],
    others: Sequence[Any] | None = None,
    *,
    generator: np.random.Generator,
) -> tuple[Copy, ...]:
    """Those examples that are copies, each with the other that is most like it.

    Args:
        examples: looked for.
        others: looked among; None for the earlier examples.
        generator: chooses which others are compared beyond letters and words where they are too
            many characters.

    Example:
        >>> one, other = ClassifyExample("It's late."), ClassifyExample("its late")
        >>> [found.kind for found in find_copies([other], [other], generator=generator)]
        ['exact']
    """
    itself = others is None
    wanted = [sides_of(example) for example in examples]
    known = wanted if others is None else [sides_of(example) for example in others]
    wanted_words = [_words(sides) for sides in wanted]
    known_words = wanted_words if itself else [_words(sides) for sides in known]
    found: dict[int, Copy] = {}
    both: tuple[tuple[Kind, list[Sides], list[Sides]], ...] = (
        ("exact", wanted, known),
        ("same words", wanted_words, known_words),
    )
    for kind, looked_for, among in both:
        first: dict[Sides, int] = {}
        for index, sides in enumerate(among):
            first.setdefault(sides, index)
        for index, sides in enumerate(looked_for):
            original = first.get(sides)
            if original is None or not any(sides) or (itself and original >= index):
                continue
            found.setdefault(index, Copy(index, original, kind, 1.0))
    left = [index for index in range(len(examples)) if index not in found]
    near = _nearly(wanted_words, left, known_words, itself, generator)
    return tuple(sorted((*found.values(), *near), key=lambda copy: copy.index))


def sides_of(example: Any) -> Sides:
    """The texts of an example, stripped: all that tells it from others but what is predicted."""
    texts = [example.text, example.pair or "", "\n".join(getattr(example, "choices", ()))]
    if isinstance(example, RelateExample):
        texts += [example.text[start:end] for start, end in (example.first, example.second)]
    return tuple(text.strip() for text in texts)


def _words(sides: Sides) -> Sides:
    """Small letters, single spaces, no marks; nothing is left of a text of marks."""
    return tuple(" ".join(re.findall(r"\w+", side.casefold())) for side in sides)


def _nearly(
    wanted: Sequence[Sides],
    left: Sequence[int],
    known: Sequence[Sides],
    itself: bool,
    generator: np.random.Generator,
) -> list[Copy]:
    """Copies that are not quite the same, of those that are left."""
    left = [index for index in left if any(wanted[index])]
    among = _sample([index for index, sides in enumerate(known) if any(sides)], known, generator)
    if not left or not among:
        return []
    signed = signatures([_codes(known[index]) for index in among])
    rows, columns = candidates(signed, signatures([_codes(wanted[index]) for index in left]))
    best: dict[int, Copy] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        index, original = left[row], among[column]
        if itself and original >= index:
            continue
        pairs = zip(wanted[index], known[original], strict=True)
        likeness = min(_likeness(one[:TEXT_READ], other[:TEXT_READ]) for one, other in pairs)
        if likeness >= THRESHOLD and (index not in best or likeness > best[index].likeness):
            best[index] = Copy(index, original, "nearly", likeness)
    return list(best.values())


def _sample(
    indices: list[int], known: Sequence[Sides], generator: np.random.Generator
) -> list[int]:
    """As many of them as may be read, in order."""
    mean = sum(min(sum(map(len, known[at])), TEXT_READ) for at in indices) / max(len(indices), 1)
    most = int(ALL_READ / max(mean, 1.0))
    if len(indices) <= most:
        return indices
    chosen: list[int] = generator.choice(indices, most, replace=False).tolist()
    return sorted(chosen)


def _codes(sides: Sides) -> NDArray[np.uint32]:
    """Code points of the sides together."""
    return np.frombuffer("\n".join(sides)[:TEXT_READ].encode("utf-32-le"), np.uint32)


def _likeness(one: str, other: str) -> float:
    """Jaccard's measure of the runs of characters; 1 for two empty texts."""
    if one == other:
        return 1.0
    ours, theirs = _runs(one), _runs(other)
    return len(ours & theirs) / len(ours | theirs)


def _runs(text: str) -> set[str]:
    return {text[at : at + SHINGLE] for at in range(max(len(text) - SHINGLE + 1, 1))}
