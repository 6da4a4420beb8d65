"""Fragmentation: into how many pieces the tokenizer breaks words, and whether it costs anything.

Texts are told apart by script and by the columns that the caller names, and by quarters of how
fragmented they are. That a fragmented group scores lower shows that both go together, not that one
is the cause: a language that the tokenizer does not know the encoder does not know either.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bothways.checkpoints.hub import find_folder
from bothways.diagnostics.evidence import Evidence
from bothways.errors import NotAsked
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import of_many
from bothways.evaluation.result import (
    Figure,
    Finding,
    Metric,
    Series,
    Severity,
    Table,
    interval_columns,
)
from bothways.tokenization.fragmentation import Fragmentation as Pieces
from bothways.tokenization.fragmentation import fragmentation as count_pieces
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer

# From here on words are shattered: pieces of a word, and share of pieces that are unknown.
SHATTERED = 2.5
UNKNOWN = 0.05
# A group is more fragmented than the rest from this many times the pieces of a word.
TIMES = 1.5
# Another tokenizer is worth naming from this share of the pieces.
FEWER = 0.8
WORST_WORDS = 20
WORDS_NAMED = 3
# Fewer groups are no picture.
FEWEST_POINTS = 3
GROUPS_SHOWN = 30
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
COUNTS = ("words", "pieces", "pieces_in_words", "unknown", "words_split", "characters")


@dataclass(frozen=True)
class Group:
    """Texts that have something in common.

    Attributes:
        kind: script, a column, or quarter.
        name: of the group.
        count: texts.
        pieces_per_word, unknown_rate: of its texts.
        score: the main metric on them.
        gap: that minus the score of all others (of the least fragmented quarter, for the most);
            None where one side has too few.
        times: pieces of a word, as a multiple of theirs.
    """

    kind: str
    name: str
    count: int
    pieces_per_word: float
    unknown_rate: float
    score: Metric
    gap: Metric | None
    times: float

    @property
    def is_shattered(self) -> bool:
        """Whether its words are much more broken than the others'."""
        return self.times >= TIMES or self.unknown_rate >= UNKNOWN

    @property
    def is_behind(self) -> bool:
        """Whether it scores lower with the whole interval."""
        return self.gap is not None and self.gap.high is not None and self.gap.high < 0


@dataclass(frozen=True)
class Fragmentation:
    """What the tokenizer makes of the words.

    Attributes:
        pieces: of all texts together.
        byte_rate: share of pieces that stand for one byte of a character.
        metric: name of the main metric.
        groups: by script, by column, and the most fragmented quarter.
        others: the same texts read by other tokenizers.
    """

    pieces: Pieces
    byte_rate: float
    metric: str
    groups: tuple[Group, ...]
    others: Mapping[str, Pieces]

    def findings(self) -> tuple[Finding, ...]:
        """One finding: the worst group where one is both shattered and behind."""
        found = self.pieces
        severity, parts, numbers = self._of_groups()
        average = (
            f"Words are broken into {found.pieces_per_word:.2f} pieces on average, and "
            f"{found.unknown_rate:.1%} of the pieces are unknown"
        )
        if found.pieces_per_word >= SHATTERED or found.unknown_rate >= UNKNOWN:
            severity = "alarm" if found.texts >= TOO_FEW else "note"
            parts.insert(0, f"{average}: the tokenizer does not know this language or vocabulary.")
        else:
            parts.append(f"{average}.")
        best = min(self.others, key=lambda name: self.others[name].pieces_per_word, default=None)
        if best is not None:
            rival = self.others[best].pieces_per_word
            few = rival <= FEWER * found.pieces_per_word
            worth = ", which is worth a try." if few else "."
            parts.append(f"{best} needs {rival:.2f} pieces a word{worth}")
        numbers |= {
            "pieces_per_word": found.pieces_per_word,
            "unknown_rate": found.unknown_rate,
            "byte_rate": self.byte_rate,
            "split_rate": found.split_rate,
        }
        return (Finding("fragmentation", severity, " ".join(parts), numbers),)

    def _of_groups(self) -> tuple[Severity, list[str], dict[str, float | int | str | None]]:
        """What is to be said of groups: an alarm, a note, or nothing."""
        shattered = [group for group in self.groups if group.is_shattered]
        behind = [group for group in shattered if group.is_behind]
        worst = min(behind, key=_rank, default=None)
        if worst is None or worst.gap is None:
            # A quarter is broken more than another one everywhere.
            named = [group for group in shattered if group.kind != "quarter"]
            told = "is broken much more than the others, without a lower score being shown."
            return ("note", [f"{_named(named[0])} {told}"], {}) if named else ("fine", [], {})
        text = (
            f"{_named(worst)} ({worst.count:,} texts) has {worst.pieces_per_word:.2f} pieces a "
            f"word and {worst.unknown_rate:.1%} unknown, and its {self.metric} is "
            f"{-worst.gap.value:.3f} lower than {_rest(worst)} "
            f"[{worst.gap.low:.3f}, {worst.gap.high:.3f}]."
        )
        parts = [text]
        names = [group.name for group in behind if group.kind == worst.kind]
        if len(names) > 1:
            parts.append(f"Lower and shattered too: {', '.join(names[:6])}.")
        broken = ", ".join(repr(word.word) for word in self.pieces.longest[:WORDS_NAMED])
        parts.append(f"The words of most pieces: {broken}.")
        return "alarm", parts, {"worst_group": worst.name, "gap": worst.gap.value}

    def figures(self) -> tuple[Figure, ...]:
        """The score of each group against its pieces of a word."""
        if len(self.groups) < FEWEST_POINTS:
            return ()
        kinds = dict.fromkeys(group.kind for group in self.groups)
        lines = []
        for kind in kinds:
            some = [group for group in self.groups if group.kind == kind][:GROUPS_SHOWN]
            x = tuple(group.pieces_per_word for group in some)
            lines.append(Series(kind, x, tuple(group.score.value for group in some)))
        title = f"{self.metric} of groups of texts, by how broken their words are"
        return (
            Figure("fragmentation", title, "scatter", "pieces a word", self.metric, tuple(lines)),
        )

    def tables(self) -> tuple[Table, ...]:
        """Groups, the words of most pieces, and other tokenizers."""
        three, gap = interval_columns(self.metric), interval_columns("gap to the others")
        columns = ("by", "group", "texts", "pieces a word", "unknown", *three, *gap)
        rows = tuple(
            (
                *(each.kind, each.name, each.count, each.pieces_per_word, each.unknown_rate),
                *each.score.cells,
                *((None,) * 3 if each.gap is None else each.gap.cells),
            )
            for each in self.groups
        )
        tables = [Table("fragmentation", "Groups of texts", columns, rows)] if rows else []
        words = tuple((word.word, word.pieces, word.count) for word in self.pieces.longest)
        if words:
            heads = ("word", "pieces", "times in the texts")
            tables.append(Table("fragmentation_words", "The words of most pieces", heads, words))
        if self.others:
            read = {"this model's": self.pieces, **self.others}
            rates = tuple(
                (
                    name,
                    each.pieces_per_word,
                    each.unknown_rate,
                    each.split_rate,
                    each.characters / max(each.pieces, 1),
                )
                for name, each in read.items()
            )
            rate_heads = ("tokenizer", "pieces a word", "unknown", "words split")
            tables.append(
                Table(
                    "fragmentation_tokenizers",
                    "The same texts by other tokenizers",
                    (*rate_heads, "characters a piece"),
                    rates,
                )
            )
        return tuple(tables)


def fragmentation(evidence: Evidence, *, compare: Sequence[str] = ()) -> Fragmentation:
    """Count pieces of words, and score groups of texts by how broken they are.

    Args:
        evidence: to ask.
        compare: folders or hub names of other tokenizers to read the same texts with.

    Raises:
        NotAsked: where no text has a word.
    """
    tokenizer = evidence.model.tokenizer
    texts = [_texts(example) for example in evidence.examples]
    flat = [text for each in texts for text in each]
    total = count_pieces(tokenizer, flat, num_longest=WORST_WORDS)
    if not total.words:
        raise NotAsked("The texts have no words.")
    others = {name: load_tokenizer(find_folder(name)) for name in compare}
    return Fragmentation(
        pieces=total,
        byte_rate=_byte_rate(evidence, tokenizer),
        metric=evidence.task.main_metric,
        groups=_groups(evidence, texts),
        others={name: count_pieces(other, flat) for name, other in others.items()},
    )


def script(text: str) -> str:
    """The script of most letters of a text, as Unicode names it; `none` without letters.

    Example:
        >>> script("one две три")
        'cyrillic'
    """
    letters = Counter(letter for letter in text if letter.isalpha())
    scripts: Counter[str] = Counter()
    for letter, count in letters.items():
        scripts[unicodedata.name(letter, "none").split(" ")[0].split("-")[0].lower()] += count
    return max(scripts, key=lambda name: (scripts[name], name), default="none")


def _groups(evidence: Evidence, texts: Sequence[Sequence[str]]) -> tuple[Group, ...]:
    """Groups by script and column where there are several, and the most fragmented quarter."""
    each = [count_pieces(evidence.model.tokenizer, some, num_longest=0) for some in texts]
    counts = {name: np.array([getattr(pieces, name) for pieces in each]) for name in COUNTS}
    kinds: dict[str, Sequence[str | None]] = {
        "script": [script(" ".join(some)) for some in texts],
        **evidence.columns,
    }
    sides: list[tuple[str, str, NDArray[np.bool_], NDArray[np.bool_]]] = []
    for kind, names in kinds.items():
        known = Counter(name for name in names if name is not None)
        for name, count in known.most_common():
            if TOO_FEW <= count < len(texts):
                those = np.array([other == name for other in names])
                sides.append((kind, name, those, ~those))
    rates = counts["pieces_in_words"] / np.maximum(counts["words"], 1)
    least, most = np.quantile(rates, [0.25, 0.75])
    if most > least and len(texts) >= 4 * TOO_FEW:
        sides.append(("quarter", "most fragmented", rates >= most, rates <= least))
    found = []
    for kind, name, those, others in sides:
        rate, unknown = _rates(counts, those)
        found.append(
            Group(
                kind,
                name,
                int(those.sum()),
                rate,
                unknown,
                evidence.score_of(np.flatnonzero(those)),
                evidence.gap(those, others, confidence=of_many(len(sides))),
                rate / max(_rates(counts, others)[0], 1e-9),
            )
        )
    return tuple(sorted(found, key=lambda group: (group.kind, -group.pieces_per_word)))


def _rates(
    counts: Mapping[str, NDArray[np.int64]], those: NDArray[np.bool_]
) -> tuple[float, float]:
    """Pieces of a word, and share of unknown pieces."""
    sums = {name: float(values[those].sum()) for name, values in counts.items()}
    rate = sums["pieces_in_words"] / max(sums["words"], 1.0)
    return rate, sums["unknown"] / max(sums["pieces"], 1.0)


def _byte_rate(evidence: Evidence, tokenizer: Tokenizer) -> float:
    bytes_ = {id_ for piece, id_ in tokenizer.vocabulary().items() if BYTE.fullmatch(piece)}
    ids = [id_ for windows in evidence.encodings for each in windows for id_ in each.ids]
    return sum(id_ in bytes_ for id_ in ids) / max(len(ids), 1) if bytes_ else 0.0


def _texts(example: object) -> list[str]:
    """The texts of an example."""
    both = (getattr(example, "text", None), getattr(example, "pair", None))
    return [text for text in both if text]


def _rank(group: Group) -> tuple[bool, float]:
    """Named groups before the quarter, which says less; of those the worst gap first."""
    return group.kind == "quarter", 0.0 if group.gap is None else group.gap.value


def _named(group: Group) -> str:
    if group.kind == "quarter":
        return "The most fragmented quarter"
    return f"The group {group.name!r} (by {group.kind})"


def _rest(group: Group) -> str:
    return "the least fragmented quarter's" if group.kind == "quarter" else "the others'"
