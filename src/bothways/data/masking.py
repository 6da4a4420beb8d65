"""Which tokens are hidden and how: the examples of masked language modelling (Devlin et al. 2019).

A share of the tokens is chosen; of these most are shown as the mask, some as another token, the
rest as they are, and the model guesses all of them. What is chosen together is a token, a word (the
tokenizer's own, whatever its kind) or a span of words of random length (Joshi et al. 2020).

Every number is a function of (seed, epoch, passage), so a text has the same mask in any batch, on
any rank, in any order of work. The choice is systematic: the units of a sequence are ordered by
size, in random order within a size, and every 1/share-th is taken from a random start. So every
unit has exactly the chance `share`, and a sequence never more than one unit above or below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bothways.data.randomness import keyed_hash, mix, to_range, to_unit
from bothways.data.sequences import Sequences
from bothways.errors import TokenizerError, UsageError
from bothways.tokenization.tokenizer import Tokenizer

Unit = Literal["token", "word", "span"]

LONGEST_SPAN = 10  # words, as in SpanBERT


@dataclass(frozen=True)
class Masking:
    """What is hidden, and how.

    Attributes:
        share: of the tokens that are no special ones.
        shown_as_mask: share of the hidden units that is shown as the mask token.
        shown_as_random: share that is shown as other tokens; the rest is shown as it is.
        unit: what is hidden together.
        span_words: mean length of a span, before it is cut at LONGEST_SPAN.
        static: the same masks in every epoch, as BERT had; else new ones, as RoBERTa.

    Raises:
        UsageError: for shares that are none, or are more than 1 together.
    """

    share: float = 0.15
    shown_as_mask: float = 0.8
    shown_as_random: float = 0.1
    unit: Unit = "token"
    span_words: float = 3.0
    static: bool = False

    def __post_init__(self) -> None:
        shares = {
            "the mask share": self.share,
            "the share shown as mask": self.shown_as_mask,
            "the share shown as other tokens": self.shown_as_random,
        }
        wrong = [f"{name} is {value}" for name, value in shares.items() if not 0.0 <= value <= 1.0]
        if self.shown_as_mask + self.shown_as_random > 1.0:
            wrong.append("the shares shown as mask and as other tokens are more than 1 together")
        if self.share == 0.0:
            wrong.append("the mask share is 0, so there is nothing to guess")
        if self.span_words < 1.0:
            wrong.append(f"a span has {self.span_words} words, and must have at least one")
        if wrong:
            raise UsageError("; ".join(wrong) + "; expected shares from 0 to 1")


@dataclass(frozen=True)
class MaskVocabulary:
    """What masking knows of a tokenizer.

    Attributes:
        mask_id: the mask token.
        special: (vocabulary,) whether an id is a special token.
        replacements: ids of real pieces, which may be shown instead of others.
    """

    mask_id: int
    special: NDArray[np.bool_]
    replacements: NDArray[np.int64]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> MaskVocabulary:
        """What masking needs to know of a tokenizer.

        Raises:
            TokenizerError: when there is no mask token, it is no special token, or no piece is
                left to replace others.
        """
        if tokenizer.mask_id is None or tokenizer.mask_id not in tokenizer.special_ids:
            raise TokenizerError(
                f"{tokenizer.name} has no mask token among its special ones "
                f"({', '.join(tokenizer.tokens(sorted(tokenizer.special_ids)))}); take the "
                "tokenizer of a masked language model, or make one with bothways tokenizer train"
            )
        pieces = tokenizer.tokens(range(tokenizer.largest_id + 1))
        special = np.zeros(len(pieces), np.bool_)
        special[sorted(tokenizer.special_ids)] = True
        real = np.array([piece != "" for piece in pieces]) & ~special
        if not real.any():
            raise TokenizerError(
                f"{tokenizer.name} has special tokens only; there is no text to learn"
            )
        return cls(tokenizer.mask_id, special, np.flatnonzero(real))


@dataclass(frozen=True)
class MaskedTokens:
    """What is shown, and what is to be guessed.

    Attributes:
        ids: (T,) what the model sees.
        masked: (M,) the tokens to be guessed, increasing.
        originals: (M,) what stood there.
    """

    ids: NDArray[np.int64]
    masked: NDArray[np.int64]
    originals: NDArray[np.int64]


def mask_tokens(
    sequences: Sequences,
    masking: Masking,
    vocabulary: MaskVocabulary,
    *,
    seed: int,
    epoch: int,
) -> MaskedTokens:
    """Hide some tokens of each sequence; never a special one.

    Args:
        sequences: any number; each gets the mask that it gets alone.
        masking: how much and how.
        vocabulary: of the tokenizer.
        seed: of the run, or of an evaluation.
        epoch: from 0.

    Example:
        >>> hidden = mask_tokens(
        ...     sequences, Masking(), vocabulary, seed=0, epoch=3
        ... )  # doctest: +SKIP
        >>> len(hidden.masked) / (~sequences.special).sum()  # doctest: +SKIP
        0.1499
    """
    keys = keyed_hash("masks", seed, 0 if masking.static else epoch, *sequences.keys.T)
    sequence = np.repeat(np.arange(len(sequences.lengths)), sequences.lengths)
    first_tokens = np.cumsum(sequences.lengths) - sequences.lengths
    tokens = np.arange(len(sequences.ids)) - np.repeat(first_tokens, sequences.lengths)
    hashes = keyed_hash("masks", keys[sequence], tokens)

    maskable = ~(sequences.special | vocabulary.special[sequences.ids])
    units = _units(sequences, masking, hashes)[maskable]
    at = np.flatnonzero(maskable)
    starts = np.ones(len(at), np.bool_)
    starts[1:] = units[1:] != units[:-1]
    unit_of = np.cumsum(starts) - 1
    heads = at[starts]

    chosen = _choose(sequence[heads], np.bincount(unit_of), hashes[heads], keys, masking.share)
    masked = at[chosen[unit_of]]
    fate = to_unit(_stream(hashes[heads], _FATE))[unit_of[chosen[unit_of]]]
    as_mask = fate < masking.shown_as_mask
    as_random = ~as_mask & (fate < masking.shown_as_mask + masking.shown_as_random)

    ids = sequences.ids.copy()
    ids[masked[as_mask]] = vocabulary.mask_id
    drawn = _stream(hashes[masked[as_random]], _REPLACEMENT)
    ids[masked[as_random]] = vocabulary.replacements[to_range(drawn, len(vocabulary.replacements))]
    return MaskedTokens(ids, masked, sequences.ids[masked])


def one_at_a_time(
    sequences: Sequences, vocabulary: MaskVocabulary, *, batch_tokens: int
) -> Iterator[tuple[Sequences, MaskedTokens]]:
    """Each token hidden alone, in a copy of its sequence; never a special one.

    What a model loses on these, all together, is the pseudo-likelihood of the texts (Salazar et al.
    2020).

    Args:
        sequences: any number.
        vocabulary: of the tokenizer.
        batch_tokens: most tokens of the copies that come together, unless a sequence has more.

    Example:
        >>> for copies, hidden in one_at_a_time(
        ...     sequences, vocabulary, batch_tokens=4096
        ... ): ...  # doctest: +SKIP
    """
    sequence = np.repeat(np.arange(len(sequences.lengths)), sequences.lengths)
    first_tokens = np.cumsum(sequences.lengths) - sequences.lengths
    at = np.flatnonzero(~(sequences.special | vocabulary.special[sequences.ids]))
    together = max(1, batch_tokens // int(sequences.lengths.max()))
    for start in range(0, len(at), together):
        some = at[start : start + together]
        copied = sequences.take(sequence[some])
        lengths = copied.lengths
        masked = np.cumsum(lengths) - lengths + some - first_tokens[sequence[some]]
        ids = copied.ids.copy()
        ids[masked] = vocabulary.mask_id
        yield copied, MaskedTokens(ids, masked, copied.ids[masked])


# Each token has one hash, and a stream of its own for each thing that is drawn from it.
_FATE, _REPLACEMENT, _SPAN, _START = np.arange(1, 5, dtype=np.uint64)


def _stream(hashes: NDArray[np.uint64], which: np.uint64) -> NDArray[np.uint64]:
    return mix(hashes ^ (which << np.uint64(32)))


def _units(sequences: Sequences, masking: Masking, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The number of each token's unit, increasing."""
    if masking.unit == "token":
        return np.arange(len(sequences.ids))
    words: NDArray[np.int64] = np.cumsum(sequences.word_starts)
    if masking.unit == "word":
        return words
    # Lengths are geometric when each word starts a span with the same chance. Special pieces, which
    # lie around every sequence, start one too.
    starts = sequences.word_starts & (to_unit(_stream(hashes, _SPAN)) < 1.0 / masking.span_words)
    starts |= sequences.special
    first_word = np.maximum.accumulate(np.where(starts, words, 0))
    starts |= sequences.word_starts & ((words - first_word) % LONGEST_SPAN == 0)
    spans: NDArray[np.int64] = np.cumsum(starts)
    return spans


def _choose(
    sequence: NDArray[np.int64],
    sizes: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    share: float,
) -> NDArray[np.bool_]:
    """Which units are hidden: of each sequence, every 1/share-th by size from a random start."""
    order = np.lexsort((hashes, sizes, sequence))
    counts = np.bincount(sequence, minlength=len(keys))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    start = to_unit(_stream(keys, _START))[sequence[order]]
    chosen = np.empty(len(order), np.bool_)
    chosen[order] = np.floor((rank + 1) * share + start) > np.floor(rank * share + start)
    return chosen
