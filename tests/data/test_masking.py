"""What is hidden: rates within binomial bounds, never a special token, a function of keys alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bothways.data.collate import masked_batch
from bothways.data.masking import LONGEST_SPAN, MaskedTokens, Masking, MaskVocabulary, mask_tokens
from bothways.data.packing import Pack, Packer
from bothways.data.sequences import Sequences, single
from bothways.data.shards import Shards
from bothways.errors import TokenizerError, UsageError
from bothways.tokenization.documents import read_documents
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from tests.data.corpora import make_shards, tokenizer

# Standard deviations that a rate may be off; the seeds are fixed, so a failure is no chance.
SIGMAS = 4.0
UNITS = ("token", "word", "span")
# Milliseconds for 4,096 tokens, about four times what a free core takes.


def within(count: int, of: int, rate: float) -> bool:
    """Whether a count lies in the binomial bounds of a rate."""
    return bool(abs(count - rate * of) <= SIGMAS * np.sqrt(rate * (1 - rate) * of) + 1)


@pytest.fixture(scope="module")
def wide(minilm: Path) -> Tokenizer:
    """A real vocabulary of 30,522 pieces."""
    return load_tokenizer(minilm)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory, real_data: Path, wide: Tokenizer) -> Shards:
    """Real text with long, short and one-token documents, characters that are unknown, and special
    tokens typed in it.
    """
    folder = tmp_path_factory.mktemp("masks")
    blocks = (real_data / "rawtext" / "us_speeches_pd.txt").read_text().split("\n\n")
    glosses = (real_data / "rawtext" / "wordnet_glosses.txt").read_text().split("\n")[:1500]
    odd = ("yes", "no [MASK] and [SEP] here", "\u2603\u2603 \ue000 unknown \ue001")
    make_shards(folder, tuple(b for b in blocks[:300] if b.strip()) + tuple(glosses) + odd * 30,
                tokenizer=wide)  # fmt: skip
    return Shards(folder / "shards")


@pytest.fixture(scope="module")
def read(shards: Shards, wide: Tokenizer) -> Sequences:
    """One epoch as sequences."""
    packer = Packer(shards, max_length=128, num_special=2, pack_tokens=1 << 30)
    [pack] = packer.epoch()
    return single(shards, pack, wide.template)


def unit_numbers(sequences: Sequences, vocabulary: MaskVocabulary) -> NDArray[np.int64]:
    """The word of each token, -1 where it may not be hidden."""
    words: NDArray[np.int64] = np.cumsum(sequences.word_starts)
    words[sequences.special | vocabulary.special[sequences.ids]] = -1
    return words


def split(sequences: Sequences, tokens: MaskedTokens) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Of each sequence the place of its first token, and which of its tokens are hidden."""
    ends = np.cumsum(sequences.lengths)
    for start, end in zip(ends - sequences.lengths, ends, strict=True):
        yield int(start), tokens.masked[(tokens.masked >= start) & (tokens.masked < end)] - start


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("share", [0.15, 0.3])
def test_rates_on_real_text(read: Sequences, wide: Tokenizer, unit: str, share: float) -> None:
    vocabulary = MaskVocabulary.of(wide)
    maskable = unit_numbers(read, vocabulary) >= 0
    assert (~maskable & ~read.special).sum() > 0  # unknown pieces occur
    hidden = mask_tokens(read, Masking(share=share, unit=unit), vocabulary, seed=3, epoch=1)  # type: ignore[arg-type]
    assert within(len(hidden.masked), int(maskable.sum()), share)
    # 80/10/10 of the units, counted once each.
    first = np.ones(len(hidden.masked), np.bool_)
    if unit != "token":
        words = np.cumsum(read.word_starts)[hidden.masked]
        first[1:] = words[1:] != words[:-1]
    count = int(first.sum())
    shown, original = hidden.ids[hidden.masked[first]], hidden.originals[first]
    as_mask, as_it_is = shown == wide.mask_id, shown == original
    # Words of a span share their fate, so fewer things are drawn than there are words.
    drawn = count if unit != "span" else count / 3
    for seen, rate in ((as_mask, 0.8), (as_it_is, 0.1), (~as_mask & ~as_it_is, 0.1)):
        bound = SIGMAS * np.sqrt(rate * (1 - rate) / drawn)
        assert abs(seen.mean() - rate) < bound
    assert 0.5 < len(np.unique(hidden.masked)) / len(hidden.masked) <= 1.0


@pytest.mark.parametrize("unit", UNITS)
def test_special_tokens_are_never_hidden_nor_shown_for_others(
    read: Sequences, wide: Tokenizer, unit: str
) -> None:
    """AnswerDotAI/ModernBERT#212: the packer hid [CLS] and [SEP], and drew ids beyond the words."""
    vocabulary = MaskVocabulary.of(wide)
    everything = Masking(share=1.0, unit=unit, shown_as_mask=0.0, shown_as_random=1.0)  # type: ignore[arg-type]
    hidden = mask_tokens(read, everything, vocabulary, seed=0, epoch=0)
    assert not read.special[hidden.masked].any()
    specials = sorted(wide.special_ids)
    assert not np.isin(hidden.originals, specials).any()
    assert not np.isin(hidden.ids[hidden.masked], specials).any()
    # All that may be hidden is, and what may not stands as it stood.
    assert len(hidden.masked) == (unit_numbers(read, vocabulary) >= 0).sum()
    others = np.ones(len(read.ids), np.bool_)
    others[hidden.masked] = False
    assert np.array_equal(hidden.ids[others], read.ids[others])
    # Random ids come from the whole vocabulary, evenly.
    drawn = hidden.ids[hidden.masked]
    assert drawn.max() < wide.vocab_size
    quarters = np.bincount(np.searchsorted(vocabulary.replacements, drawn) * 4
                           // len(vocabulary.replacements), minlength=4)  # fmt: skip
    for quarter in quarters:
        assert within(int(quarter), len(drawn), 0.25)


def test_the_budget_of_each_sequence_is_exact(read: Sequences, wide: Tokenizer) -> None:
    vocabulary = MaskVocabulary.of(wide)
    maskable = unit_numbers(read, vocabulary) >= 0
    hidden = mask_tokens(read, Masking(share=0.15), vocabulary, seed=0, epoch=0)
    rounded_up = expected = 0.0
    for (start, inside), length in zip(split(read, hidden), read.lengths.tolist(), strict=True):
        budget = 0.15 * maskable[start : start + length].sum()
        assert len(inside) in (np.floor(budget), np.ceil(budget))
        rounded_up += len(inside) - np.floor(budget)
        expected += budget - np.floor(budget)
    # Rounding is by chance, so that short texts get their share and no more.
    assert abs(rounded_up - expected) < SIGMAS * np.sqrt(expected)


@pytest.mark.parametrize("unit", ["word", "span"])
def test_the_budget_of_units_is_kept_within_one(
    read: Sequences, wide: Tokenizer, unit: str
) -> None:
    vocabulary = MaskVocabulary.of(wide)
    words = unit_numbers(read, vocabulary)
    hidden = mask_tokens(read, Masking(unit=unit), vocabulary, seed=0, epoch=0)  # type: ignore[arg-type]
    longest = 5 * LONGEST_SPAN if unit == "span" else int(np.bincount(words[words >= 0]).max())
    for (start, inside), length in zip(split(read, hidden), read.lengths.tolist(), strict=True):
        budget = 0.15 * (words[start : start + length] >= 0).sum()
        assert abs(len(inside) - budget) <= longest


def test_every_token_has_the_same_chance(wide: Tokenizer, read: Sequences) -> None:
    """Of short texts and long words too: no unit is passed over because it does not fit."""
    vocabulary = MaskVocabulary.of(wide)
    short = read.lengths <= 9
    of_short = np.repeat(short, read.lengths) & (unit_numbers(read, vocabulary) >= 0)
    words = unit_numbers(read, vocabulary)
    sizes = np.bincount(words[words >= 0], minlength=words.max() + 1)
    long_words = (words >= 0) & (sizes[words] >= 4)
    assert of_short.sum() > 1000
    assert long_words.sum() > 1000
    for unit in UNITS:
        hits = np.zeros(len(read.ids))
        epochs = 5
        for epoch in range(epochs):
            hidden = mask_tokens(read, Masking(unit=unit), vocabulary, seed=9, epoch=epoch)  # type: ignore[arg-type]
            hits[hidden.masked] += 1
        for some in (of_short, long_words):
            # Tokens of a word share their fate, so the bound is that of words of four pieces.
            drawn = some.sum() * epochs / (1 if unit == "token" else 8)
            bound = SIGMAS * np.sqrt(0.15 * 0.85 / drawn)
            assert abs(hits[some].sum() / some.sum() / epochs - 0.15) < bound


@pytest.mark.parametrize("algorithm", ["wordpiece", "bpe", "unigram"])
def test_words_are_hidden_whole_for_each_kind_of_tokenizer(algorithm: str, tmp_path: Path) -> None:
    """transformers#11768, #9866, #8628 (words by "##" only), PR#42144, PR#39485 (masks only)."""
    reader = tokenizer(algorithm)
    make_shards(tmp_path, tokenizer=reader)
    shards = Shards(tmp_path / "shards")
    [pack] = Packer(shards, max_length=64, num_special=2, pack_tokens=1 << 30).epoch()
    sequences = single(shards, pack, reader.template)
    vocabulary = MaskVocabulary.of(reader)
    hidden = mask_tokens(sequences, Masking(unit="word"), vocabulary, seed=0, epoch=0)
    words = unit_numbers(sequences, vocabulary)
    chosen = np.unique(words[hidden.masked])
    assert np.array_equal(np.flatnonzero(np.isin(words, chosen)), hidden.masked)
    # Words have one fate: all mask, all random or all as they were; and each of these occurs.
    fates = set()
    for word in chosen.tolist():
        at = np.flatnonzero(words == word)
        masks = hidden.ids[at] == reader.mask_id
        assert masks.all() or not masks.any()
        if len(at) > 2:
            same = hidden.ids[at] == sequences.ids[at]
            fates.add("mask" if masks.all() else "same" if same.all() else "random")
    assert fates == {"mask", "same", "random"}


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("roberta", "tha_Thai"),
        ("xlm_roberta", "tha_Thai"),
        ("roberta", "zho_Hans"),
        ("bert_cased", "zho_Hans"),
    ],
)
def test_words_of_unspaced_scripts_are_small(
    name: str, language: str, real_data: Path, tmp_path: Path
) -> None:
    """A line without spaces is not one word, whatever the tokenizer takes for one."""
    reader = load_tokenizer(real_data / "tokenizers" / name)
    table = (real_data / "sib200" / language / "train.tsv").read_text().split("\n")[1:120]
    texts = tuple(line.split("\t")[-1] for line in table if line)
    make_shards(tmp_path, texts, tokenizer=reader)
    shards = Shards(tmp_path / "shards")
    [pack] = Packer(shards, max_length=512, num_special=2, pack_tokens=1 << 30).epoch()
    sequences = single(shards, pack, reader.template)
    vocabulary = MaskVocabulary.of(reader)
    words = unit_numbers(sequences, vocabulary)
    pieces_of_words = np.bincount(words[words >= 0])
    pieces_of_words = pieces_of_words[pieces_of_words > 0]
    lengths = [len(read_documents(reader, [text])[0][0]) for text in texts]
    assert pieces_of_words.max() <= max(20, max(lengths) // 4)  # a Latin name may have many
    assert pieces_of_words.mean() < 4
    hidden = mask_tokens(sequences, Masking(unit="word"), vocabulary, seed=0, epoch=0)
    masked, of = len(hidden.masked), int((words >= 0).sum())
    assert abs(masked / of - 0.15) < SIGMAS * np.sqrt(0.15 * 0.85 / of * pieces_of_words.mean() * 3)


def test_spans_are_runs_of_words_of_the_length_asked_for(read: Sequences, wide: Tokenizer) -> None:
    vocabulary = MaskVocabulary.of(wide)
    means = {}
    for span_words in (1.0, 3.0, 6.0):
        masking = Masking(unit="span", span_words=span_words, share=0.1)
        hidden = mask_tokens(read, masking, vocabulary, seed=0, epoch=0)
        words = np.unique(unit_numbers(read, vocabulary)[hidden.masked])
        runs = np.split(words, np.flatnonzero(np.diff(words) != 1) + 1)
        means[span_words] = float(np.mean([len(run) for run in runs]))
    # Neighbouring spans join (at a share of 0.1 one in ten), and texts end.
    assert 1.0 <= means[1.0] < 1.3
    assert 2.2 < means[3.0] < 3.6
    assert 3.5 < means[6.0] < 6.0


@pytest.mark.parametrize("unit", UNITS)
def test_a_mask_is_a_function_of_seed_epoch_and_passage_alone(
    shards: Shards, wide: Tokenizer, unit: str
) -> None:
    """The same on any number of workers and ranks, in any batch and order."""
    vocabulary, masking = MaskVocabulary.of(wide), Masking(unit=unit)  # type: ignore[arg-type]
    packer = Packer(shards, max_length=64, num_special=2, pack_tokens=4096)

    def masks(packs: list[Pack], seed: int = 5, epoch: int = 2) -> dict[tuple[int, ...], bytes]:
        found = {}
        for pack in packs:
            sequences = single(shards, pack, wide.template)
            hidden = mask_tokens(sequences, masking, vocabulary, seed=seed, epoch=epoch)
            for key, (start, inside), length in zip(
                sequences.keys.tolist(), split(sequences, hidden), sequences.lengths.tolist(),
                strict=True,
            ):  # fmt: skip
                shown = hidden.ids[start : start + length]
                found[tuple(key)] = inside.tobytes() + shown.tobytes()
        return found

    packs = list(packer.window(0, 0)[:3])
    whole = masks(packs)
    assert masks([part for pack in packs for part in pack.split(3)]) == whole
    alone = [pack.take(slice(i, i + 1)) for pack in packs for i in range(0, len(pack), 9)]
    assert masks(alone).items() <= whole.items()
    assert masks([pack.take(slice(None, None, -1)) for pack in packs]) == whole
    assert masks(packs, epoch=3) != whole
    assert masks(packs, seed=6) != whole


def test_an_evaluation_hides_the_same_tokens_twice(read: Sequences, wide: Tokenizer) -> None:
    """transformers#36357, PR#1633: scores changed from run to run; once nothing was hidden."""
    vocabulary, static = MaskVocabulary.of(wide), Masking(static=True)
    one, other = (mask_tokens(read, static, vocabulary, seed=0, epoch=e) for e in (0, 17))
    assert len(one.masked) > 1000
    assert np.array_equal(one.ids, other.ids)
    assert np.array_equal(one.masked, other.masked)
    moving = mask_tokens(read, Masking(), vocabulary, seed=0, epoch=17)
    assert not np.array_equal(moving.masked, one.masked)


def test_a_batch_brings_layout_and_targets(shards: Shards, wide: Tokenizer) -> None:
    """transformers#12998: the collator for words returned no attention mask."""
    packer = Packer(shards, max_length=128, num_special=2, pack_tokens=4096)
    pack = packer.window(0, 0)[0]
    sequences = single(shards, pack, wide.template)
    hidden = mask_tokens(sequences, Masking(), MaskVocabulary.of(wide), seed=0, epoch=0)
    batch = masked_batch(sequences, hidden)
    assert batch.layout.lengths == tuple((pack.lengths + 2).tolist())
    masked, originals = batch.targets["masked"], batch.targets["originals"]
    restored = batch.ids.clone()
    restored[masked] = originals
    assert restored.tolist() == sequences.ids.tolist()
    assert batch.special is not None
    assert not batch.special[masked].any()
    assert "relation" not in batch.targets


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.floats(0.01, 1.0),
    st.sampled_from(UNITS),
    st.integers(0, 2**31),
)
def test_any_sequences_are_masked_soundly(
    sizes: list[int], share: float, unit: str, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    lengths = np.array(sizes) + 2
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    special = np.zeros(total, np.bool_)
    special[ends - 1] = special[ends - lengths] = True
    ids = chance.integers(0, 30, total)
    sequences = Sequences(
        ids, lengths, special, special | (chance.random(total) < 0.6), None,
        chance.integers(0, 1000, (len(sizes), 2)),
    )  # fmt: skip
    flags = np.arange(30) < 5
    vocabulary = MaskVocabulary(4, flags, np.arange(5, 30))
    hidden = mask_tokens(sequences, Masking(share=share, unit=unit), vocabulary, seed=1, epoch=0)  # type: ignore[arg-type]
    assert (np.diff(hidden.masked) > 0).all()
    assert np.array_equal(hidden.originals, ids[hidden.masked])
    assert not (special | flags[ids])[hidden.masked].any()
    untouched = np.setdiff1d(np.arange(total), hidden.masked)
    assert np.array_equal(hidden.ids[untouched], ids[untouched])
    new = hidden.ids[hidden.masked]
    assert ((new == 4) | (new == hidden.originals) | (new >= 5)).all()
    if unit != "token":  # what is hidden of a word is all of it that may be
        words = np.cumsum(sequences.word_starts)
        also = np.isin(words, words[hidden.masked]) & ~(special | flags[ids])
        assert np.array_equal(np.flatnonzero(also), hidden.masked)


def test_nothing_to_hide_is_fine() -> None:
    vocabulary = MaskVocabulary(4, np.arange(9) < 5, np.arange(5, 9))
    empty = np.empty(0, np.int64)
    no_tokens = Sequences(empty, empty, empty == 0, empty == 0, None, empty.reshape(0, 2))
    special = Sequences(
        np.array([2, 1, 3]), np.array([3]), np.array([True, False, True]), np.ones(3, np.bool_),
        None, np.zeros((1, 2), np.int64),
    )  # fmt: skip
    for sequences in (no_tokens, special):
        hidden = mask_tokens(sequences, Masking(share=1.0), vocabulary, seed=0, epoch=0)
        assert len(hidden.masked) == len(hidden.originals) == 0


def test_a_tokenizer_without_a_mask_is_refused(tmp_path: Path) -> None:
    """transformers#16798: a vocabulary's mask was another symbol than the collator's."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"no mask token among its special ones \(\[PAD\]"):
        MaskVocabulary.of(load_tokenizer(tmp_path))


def test_replacements_are_real_pieces(wide: Tokenizer) -> None:
    vocabulary = MaskVocabulary.of(wide)
    assert len(vocabulary.replacements) == 30_522 - 5
    assert vocabulary.mask_id == wide.mask_id == 103


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"share": 0.0}, "mask share is 0, so"),
        ({"share": 1.5}, "mask share is 1.5"),
        ({"shown_as_mask": 0.8, "shown_as_random": 0.3}, "more than 1 together"),
        ({"span_words": 0.5}, "a span has 0.5 words"),
        ({"share": -1.0, "span_words": 0.0}, "share is -1.0; a span has 0.0 words"),
    ],
)
def test_impossible_shares_are_refused(change: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        dataclasses.replace(Masking(), **change)  # type: ignore[arg-type]
