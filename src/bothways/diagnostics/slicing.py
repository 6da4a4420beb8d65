"""Slices: examples that have something in common, by which scores are told apart.

`SLICERS` names what examples are told apart by; metadata columns come on top. Nothing is scored
here, so that one model may be questioned (`slices.py`) or two compared on the same slices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.fragmentation import script
from bothways.evaluation.baselines import TOKEN_PATTERN
from bothways.evaluation.findings import TOO_FEW
from bothways.tokenization.words import words_and_marks

# What an example belongs to: one name, several (its labels), or none.
Names = tuple[str, ...]

# A column of more numbers than this is cut into quarters.
MOST_NUMBERS = 10
# Slices by one thing, the largest, that are judged; and those too small that are listed.
MOST_SLICES = 100
MOST_SMALL = 10
MISSING = "(missing)"

# Words that deny, in English, German, French, Spanish and Portuguese.
NEGATIONS = frozenset(
    [
        "not",
        "no",
        "nor",
        "never",
        "none",
        "nobody",
        "nothing",
        "neither",
        "nowhere",
        "cannot",
        "without",
        "hardly",
        "nicht",
        "nichts",
        "kein",
        "keine",
        "keinen",
        "keinem",
        "keiner",
        "keines",
        "nie",
        "niemals",
        "niemand",
        "ohne",
        "pas",
        "jamais",
        "aucun",
        "aucune",
        "sans",
        "ningún",
        "ninguno",
        "ninguna",
        "nunca",
        "jamás",
        "nadie",
        "nada",
        "sin",
        "não",
        "nenhum",
        "nenhuma",
        "ninguém",
        "sem",
    ]
)
DENIED = re.compile(r"n['’]t\b", re.IGNORECASE)
WORD = re.compile(TOKEN_PATTERN)


@dataclass(frozen=True)
class Slice:
    """Examples that have something in common.

    Attributes:
        kind: what they are told apart by: a name of SLICERS, or of a column.
        name: what they have in common.
        those: (examples,) which they are.
    """

    kind: str
    name: str
    those: NDArray[np.bool_]

    @property
    def count(self) -> int:
        """How many."""
        return int(self.those.sum())

    @property
    def is_large(self) -> bool:
        """Whether it, and what is left beside it, can be judged."""
        return TOO_FEW <= self.count <= len(self.those) - TOO_FEW

    def __str__(self) -> str:
        """`language: tha_Thai`."""
        return f"{self.kind}: {self.name}"


@dataclass(frozen=True)
class Slicing:
    """Everything that examples are told apart by.

    Attributes:
        slices: that can be judged.
        small: that are too small to judge, the largest of each kind.
        told: what is missing here and why, in words.
    """

    slices: tuple[Slice, ...]
    small: tuple[Slice, ...]
    told: tuple[str, ...]


def find_slices(evidence: Evidence) -> Slicing:
    """All slices of the examples: by every slicer that tells them apart, and by every column.

    Args:
        evidence: whose examples, and metadata columns.

    Example:
        >>> [str(each) for each in find_slices(evidence).slices][:2]  # doctest: +SKIP
        ['label: negative', 'label: positive']
    """
    slices: list[Slice] = []
    small: list[Slice] = []
    told: list[str] = []
    kinds = {name: slicer(evidence) for name, slicer in SLICERS.items()}
    for column, cells in evidence.columns.items():
        kinds[column] = _of_cells(cells)
    for kind, names in kinds.items():
        found = _slices(kind, names)
        judged = [each for each in found if each.is_large]
        few = [each for each in found if each.count < TOO_FEW]
        slices += judged[:MOST_SLICES]
        small += few[:MOST_SMALL]
        if len(judged) > MOST_SLICES:
            told.append(f"{len(judged):,} slices by {kind}: the largest {MOST_SLICES} are judged.")
        if few and not judged and kind in evidence.columns:
            told.append(
                f"The column {kind!r} has {len(found):,} values and none with {TOO_FEW} examples "
                "beside as many others, so it tells nothing apart."
            )
        elif len(few) > MOST_SMALL:
            told.append(f"{len(few):,} slices by {kind} are too small to judge.")
    return Slicing(tuple(slices), tuple(small), tuple(told))


def quarters(numbers: Sequence[float] | NDArray[Any], form: str = "{:g}") -> list[Names]:
    """The quarter of each number, named by its ends; equal numbers are in one quarter.

    Args:
        numbers: of each example; nan where it has none.
        form: of an end.

    Example:
        >>> quarters([1, 2, 3, 4])
        [('1',), ('2',), ('3',), ('4',)]
        >>> quarters([5, 5, 5, 9])
        [('5',), ('5',), ('5',), ('9',)]
    """
    values = np.asarray(numbers, dtype=np.float64)
    known = values[np.isfinite(values)]
    if not len(known):
        return [() for _ in values]
    edges = np.unique(np.quantile(known, [0.25, 0.5, 0.75], method="lower"))
    where = np.searchsorted(edges, values)
    names = {}
    for number in np.unique(where[np.isfinite(values)]).tolist():
        inside = known[np.searchsorted(edges, known) == number]
        low, high = form.format(inside.min()), form.format(inside.max())
        names[number] = low if low == high else f"{low} to {high}"
    return [
        (names[number],) if np.isfinite(value) else ()
        for number, value in zip(where.tolist(), values, strict=True)
    ]


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case; in scripts without spaces its characters."""
    return WORD.findall(text.lower())


def _slices(kind: str, names: Iterable[Names]) -> list[Slice]:
    """A slice a name that some examples have and others have not, the largest first."""
    each = [frozenset(of_one) for of_one in names]
    counts = Counter(name for of_one in each for name in of_one)
    return [
        Slice(kind, name, np.array([name in of_one for of_one in each]))
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if count < len(each)
    ]


def _of_cells(cells: Sequence[str | None]) -> list[Names]:
    """By value; many numbers by quarter; empty cells are a slice of their own."""
    filled = [(cell or "").strip() for cell in cells]
    distinct = {cell for cell in filled if cell}
    numbers = [_number(cell) for cell in filled]
    if len(distinct) > MOST_NUMBERS and all(_number(cell) is not None for cell in distinct):
        found = quarters([np.nan if number is None else number for number in numbers])
        return [of_one or (MISSING,) for of_one in found]
    return [(cell or MISSING,) for cell in filled]


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _label(evidence: Evidence) -> list[Names]:
    """By true label, by each of several, by kinds of spans, by quarter of a number."""
    examples = evidence.examples
    spans = getattr(evidence.task, "spans", None)
    if spans is not None and all(getattr(each, "tags", None) for each in examples):
        kinds = [sorted({kind for _, _, kind in spans(each.tags)}) for each in examples]
        # Where there is nothing to find nothing can be found, so such sentences have no score.
        return [tuple(found) for found in kinds]
    if all(hasattr(each, "answers") for each in examples):
        return [("has an answer" if each.answers else "has no answer",) for each in examples]
    labels: list[Any] = [getattr(each, "labels", getattr(each, "label", None)) for each in examples]
    if evidence.task.labels and all(isinstance(label, str) for label in labels):
        return [(label,) for label in labels]
    if all(isinstance(label, (tuple, frozenset, set)) for label in labels):
        return [tuple(label) or ("no label",) for label in labels]
    if not evidence.task.labels and all(isinstance(label, float) for label in labels):
        return quarters(labels)
    return [() for _ in labels]


def _length(evidence: Evidence) -> list[Names]:
    return [tuple(f"{name} tokens" for name in found) for found in quarters(evidence.tokens)]


def _truncation(evidence: Evidence) -> list[Names]:
    return [("cut" if lost else "read whole",) for lost in evidence.tokens_cut.tolist()]


def _fragmentation(evidence: Evidence) -> list[Names]:
    words = [sum(len(words_and_marks(text)) for text in texts) for texts in _texts(evidence)]
    rates = evidence.tokens / np.maximum(words, 1)
    return [tuple(f"{name} pieces a word" for name in each) for each in quarters(rates, "{:.2f}")]


def _rare_words(evidence: Evidence) -> list[Names]:
    """By the share of words that no training text has; without them, that no other text has."""
    each = [[word for text in texts for word in words_of(text)] for texts in _texts(evidence)]
    train = evidence.train_examples
    if train:
        known = {word for example in train for text in texts_of(example) for word in words_of(text)}
        where = "that training never had"
    else:
        counts = Counter(word for words in each for word in set(words))
        known = {word for word, count in counts.items() if count > 1}
        where = "that no other text has"
    shares = [
        float(np.mean([word not in known for word in words])) if words else np.nan for words in each
    ]
    return [
        tuple(f"{name} words {where}" for name in found) for found in quarters(shares, "{:.0%}")
    ]


def _negation(evidence: Evidence) -> list[Names]:
    return [
        ("with a negation",)
        if any(DENIED.search(text) or not NEGATIONS.isdisjoint(words_of(text)) for text in texts)
        else ("without a negation",)
        for texts in _texts(evidence)
    ]


def _digits(evidence: Evidence) -> list[Names]:
    return [
        ("with digits" if any(map(str.isdigit, "".join(texts))) else "without digits",)
        for texts in _texts(evidence)
    ]


def _casing(evidence: Evidence) -> list[Names]:
    return [(_cased("".join(texts)),) for texts in _texts(evidence)]


def _cased(text: str) -> str:
    if text.lower() == text.upper():
        return "no letters with case"
    if text == text.lower():
        return "all small letters"
    return "all capitals" if text == text.upper() else "both cases"


def _script(evidence: Evidence) -> list[Names]:
    return [(script(" ".join(texts)),) for texts in _texts(evidence)]


def _overlap(evidence: Evidence) -> list[Names]:
    """By the share of the words of either text of a pair that stand in both."""
    shares = []
    for example in evidence.examples:
        both = texts_of(example)
        if len(both) < 2:
            shares.append(np.nan)
            continue
        one, other = (set(words_of(text)) for text in both)
        shares.append(len(one & other) / max(len(one | other), 1))
    return [tuple(f"{name} shared" for name in found) for found in quarters(shares, "{:.0%}")]


def texts_of(example: Any) -> list[str]:
    """The texts of an example: one, or the two of a pair."""
    return [text for text in (example.text, example.pair) if text is not None]


def _texts(evidence: Evidence) -> list[list[str]]:
    return [texts_of(example) for example in evidence.examples]


# What examples are told apart by -> the names that each example has.
SLICERS: dict[str, Callable[[Evidence], list[Names]]] = {
    "label": _label,
    "length": _length,
    "truncation": _truncation,
    "fragmentation": _fragmentation,
    "rare words": _rare_words,
    "negation": _negation,
    "digits": _digits,
    "casing": _casing,
    "script": _script,
    "overlap of the pair": _overlap,
}
