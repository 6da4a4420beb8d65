"""Passages as sequences: ids between special pieces, in one row, as a model reads them.

Here: single passages, and pairs for learning how two texts go together (next sentence, Devlin et
al. 2019; sentence order, Lan et al. 2020). Which passages is decided in `packing.py`, which tokens
are hidden in `masking.py`.

What a pair is depends on (seed, epoch, passage) alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bothways.data.packing import Pack
from bothways.data.randomness import keyed_hash, to_range, to_unit
from bothways.data.shards import Shards, ranges
from bothways.tokenization.template import Template

Relation = Literal["next-sentence", "sentence-order"]

IN_ORDER, NOT_IN_ORDER = 0, 1
NO_PAIR = -100  # what torch's cross-entropy passes over
TRIES = 8  # to find another document for a pair; documents of several rows are rare


@dataclass(frozen=True)
class Sequences:
    """Texts between special pieces, sequence after sequence.

    Attributes:
        ids: (T,) of the tokens.
        lengths: (N,) tokens of each sequence.
        special: (T,) whether a token is a special piece that the template added.
        word_starts: (T,) whether a token is the first of a word; special pieces are.
        type_ids: (T,) segment of each token; None where all are zero.
        keys: (N, 2) row and first piece of each passage, which name the sequence.
        relations: (N,) of pairs: IN_ORDER, NOT_IN_ORDER, or NO_PAIR; None where there are none.
    """

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]
    special: NDArray[np.bool_]
    word_starts: NDArray[np.bool_]
    type_ids: NDArray[np.int64] | None
    keys: NDArray[np.int64]
    relations: NDArray[np.int64] | None = None

    def take(self, which: NDArray[np.int64]) -> Sequences:
        """Some of the sequences, as often as they are named."""
        lengths = self.lengths[which]
        tokens = ranges((np.cumsum(self.lengths) - self.lengths)[which], lengths)
        return Sequences(
            self.ids[tokens],
            lengths,
            self.special[tokens],
            self.word_starts[tokens],
            None if self.type_ids is None else self.type_ids[tokens],
            self.keys[which],
            None if self.relations is None else self.relations[which],
        )


def single(shards: Shards, pack: Pack, template: Template) -> Sequences:
    """Each passage of a pack as one sequence.

    Args:
        shards: the pack's.
        pack: passages.
        template: the tokenizer's, of single texts.
    """
    return _around(shards, [pack], pack, template)


def paired(
    shards: Shards,
    pack: Pack,
    template: Template,
    relation: Relation,
    *,
    seed: int,
    epoch: int,
) -> Sequences:
    """Each passage of a pack as a pair, cut where a sentence starts, else where a word does.

    In half of the pairs the two do not follow each other: their order is changed, or the second is
    from another document. A passage of one word is cut between tokens, and of one token it is no
    pair: its second text is empty and its relation NO_PAIR.

    Args:
        shards: the pack's, and where texts of other documents come from.
        pack: passages.
        template: the tokenizer's, of pairs.
        relation: what the pairs tell.
        seed, epoch: of the run.
    """
    draws = [keyed_hash("pairs", seed, epoch, pack.rows, pack.starts, use) for use in range(4)]
    middles = _middles(shards, pack, to_unit(draws[0]))
    first = Pack(pack.rows, pack.starts, middles)
    second = Pack(pack.rows, middles, pack.stops)
    apart = to_unit(draws[1]) < 0.5
    is_pair = middles < pack.stops
    if relation == "sentence-order":
        apart &= is_pair
        first, second = _exchange(first, second, apart), _exchange(second, first, apart)
    else:
        others = _others(shards, pack, second.lengths, draws[2], to_unit(draws[3]))
        apart &= is_pair & (others.rows >= 0)
        second = _exchange(second, others, apart)
    relations = np.where(is_pair, np.where(apart, NOT_IN_ORDER, IN_ORDER), NO_PAIR)
    made = _around(shards, [first, second], pack, template)
    return Sequences(
        made.ids,
        made.lengths,
        made.special,
        made.word_starts,
        made.type_ids,
        made.keys,
        relations,
    )


def _middles(shards: Shards, pack: Pack, draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """Where each passage is cut in two; its end where it is one token."""
    middles = pack.stops.copy()
    for index, (row, start, stop) in enumerate(
        zip(pack.rows.tolist(), pack.starts.tolist(), pack.stops.tolist(), strict=True)
    ):
        if stop - start < 2:
            continue
        arrays = shards.row(row)
        inside = slice(start + 1, stop)
        places = np.flatnonzero(arrays.sentence_starts[inside])
        if not len(places):
            places = np.flatnonzero(arrays.word_starts[inside])
        if not len(places):
            places = np.array([(stop - start) // 2 - 1])
        middles[index] = start + 1 + places[int(draws[index] * len(places))]
    return middles


def _others(
    shards: Shards,
    pack: Pack,
    lengths: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    draws: NDArray[np.float64],
) -> Pack:
    """A passage of another document for each; row -1 where none was found."""
    documents = [shards.document(row) for row in pack.rows.tolist()]
    rows = np.full(len(pack), -1)
    starts, stops = np.zeros(len(pack), np.int64), np.zeros(len(pack), np.int64)
    for index, row in enumerate(to_range(hashes, shards.num_rows).tolist()):
        tried = ((row + step) % shards.num_rows for step in range(TRIES))
        other = next((r for r in tried if shards.document(r) != documents[index]), None)
        if other is None:
            continue
        sentences = np.flatnonzero(shards.row(other).sentence_starts)
        start = int(sentences[int(draws[index] * len(sentences))])
        whole = int(shards.lengths(np.array([other]))[0])
        rows[index], starts[index] = other, start
        stops[index] = min(start + int(lengths[index]), whole)
    return Pack(rows, starts, stops)


def _exchange(one: Pack, other: Pack, where: NDArray[np.bool_]) -> Pack:
    """The passages of one pack, and of the other where told."""
    return Pack(
        np.where(where, other.rows, one.rows),
        np.where(where, other.starts, one.starts),
        np.where(where, other.stops, one.stops),
    )


def _around(shards: Shards, members: list[Pack], pack: Pack, template: Template) -> Sequences:
    """Members of each sequence between the special pieces of a template."""
    sizes = np.stack([member.lengths for member in members])
    lengths = sizes.sum(0) + template.size
    first_tokens = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    ids = np.empty(total, np.int64)
    special = np.ones(total, np.bool_)
    words = np.ones(total, np.bool_)
    types = np.zeros(total, np.int64)
    at = first_tokens.copy()
    for number, group in enumerate(template.specials):
        for piece, kind in zip(group, template.special_types[number], strict=True):
            ids[at], types[at] = piece, kind
            at += 1
        if number < len(members):
            member = members[number]
            target = ranges(at, member.lengths)
            ids[target], words[target] = shards.gather(member.rows, member.starts, member.stops)
            special[target] = False
            types[target] = template.member_types[number]
            # A word that the passage's border cut begins with it.
            words[at[member.lengths > 0]] = True
            at = at + member.lengths
    return Sequences(
        ids,
        lengths,
        special,
        words,
        types if template.has_types else None,
        np.stack([pack.rows, pack.starts], axis=1),
    )
