"""Steps over text: the same from any point, on any number of ranks, ahead of time or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bothways.data.masking import MaskVocabulary
from bothways.errors import DataError, TokenizerError
from bothways.model.layout import Batch
from bothways.training.feed import Ahead, Cursor, Feed, StepBatches
from bothways.training.schedule import Schedule, batch_ramp
from bothways.training.text_feed import TextData, TextFeed, read_tokenizer
from tests.data.corpora import make_shards, tokenizer
from tests.training.pretraining import text_settings


def full(step: int) -> float:
    return 1.0


def text(shards: Path, **changes: Any) -> TextData:
    settings = text_settings(shards, Path("unused"), **changes).filled()
    return TextData(shards, settings, tokenizer())


def feed(shards: Path, share: Schedule = full, **changes: Any) -> TextFeed:
    ranks = {name: changes.pop(name) for name in ("rank", "num_ranks") if name in changes}
    return text(shards, **changes).feed(share, **ranks)


def first(made: Feed, count: int, cursor: Cursor | None = None) -> list[StepBatches]:
    return list(islice(made.steps(cursor or {}), count))


def content(batch: Batch) -> tuple[Any, ...]:
    """Everything that a step reads, comparable."""
    targets = {name: values.tolist() for name, values in batch.targets.items()}
    return batch.ids.tolist(), batch.layout.lengths, targets


def same(left: StepBatches, right: StepBatches) -> bool:
    return (
        [content(m.batch) for m in left.micro] == [content(m.batch) for m in right.micro]
        and (left.epoch, left.ends_epoch) == (right.epoch, right.ends_epoch)
        and dict(left.cursor) == dict(right.cursor)
    )


def epoch(made: Feed) -> list[StepBatches]:
    found = []
    for batches in made.steps({}):
        found.append(batches)
        if batches.ends_epoch:
            return found
    raise AssertionError("endless")


@pytest.mark.parametrize("changes", [{}, {"objective__relation": "sentence-order"}])
def test_the_steps_after_any_cursor_are_the_same(shards: Path, changes: dict[str, Any]) -> None:
    """transformers PR#40691, composer#3649: resumed runs read other data, or replayed for hours."""
    straight = first(feed(shards, **changes), 90)
    assert any(batches.ends_epoch for batches in straight)
    for at in (1, 7, 40, 85):
        resumed = first(feed(shards, **changes), 4, straight[at - 1].cursor)
        assert all(map(same, straight[at : at + 4], resumed))


def test_a_step_reads_up_to_its_tokens_and_an_epoch_each_passage_once(shards: Path) -> None:
    batches = [step.micro[0].batch for step in epoch(feed(shards))]
    sizes = [batch.layout.num_tokens for batch in batches]
    assert max(sizes) <= 384
    assert sum(sizes) > 0.95 * 384 * len(sizes)  # nothing is padded
    assert max(batch.layout.longest for batch in batches) == 32
    data = text(shards)
    tokens = sum(int((~batch.special).sum()) for batch in batches if batch.special is not None)
    assert tokens == data.manifest.counts["tokens_train"]


def test_masks_are_new_in_each_epoch_unless_they_are_static(shards: Path) -> None:
    def masked(**changes: Any) -> list[set[tuple[int, ...]]]:
        found: list[set[tuple[int, ...]]] = [set(), set()]
        for batches in feed(shards, **changes).steps({}):
            if batches.epoch == 2:
                return found
            for sequence in batches.micro[0].batch.layout.split(batches.micro[0].batch.ids):
                found[batches.epoch].add(tuple(sequence.tolist()))
        return found

    before, after = masked()
    assert len(before & after) < 0.4 * len(before)  # of one word, or shown as they are
    before, after = masked(objective__static_masks=True)
    assert before == after


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_ranks_read_the_same_passages_with_the_same_masks(shards: Path, micro_batches: int) -> None:
    whole = first(feed(shards), 6)
    ranks = [
        first(feed(shards, rank=rank, num_ranks=3, loop__accumulate=micro_batches), 6)
        for rank in range(3)
    ]
    for alone, *shares in zip(whole, *ranks, strict=True):
        assert all(len(share.micro) == micro_batches for share in shares)
        batches = [micro.batch for share in shares for micro in share.micro if micro.counted]
        assert sorted(sequences(batches)) == sorted(sequences([alone.micro[0].batch]))
        assert {dict(share.cursor)["offset"] for share in shares} == {dict(alone.cursor)["offset"]}
        sizes = [batch.layout.num_tokens for batch in batches]
        assert max(sizes) - min(sizes) <= 64  # two sequences


def sequences(batches: list[Batch]) -> Iterator[tuple[int, ...]]:
    for batch in batches:
        yield from (tuple(row.tolist()) for row in batch.layout.split(batch.ids))


def test_a_rank_with_nothing_left_runs_a_stand_in(tmp_path: Path) -> None:
    make_shards(tmp_path, ("One word more here.", "Two of them.", "Three."), held_out=0.4)
    steps = [
        next(feed(tmp_path / "shards", rank=rank, num_ranks=4).steps({})).micro[0]
        for rank in range(4)
    ]
    counted = [micro.counted for micro in steps]
    assert 0 < sum(counted) < 4
    assert all(micro.batch.layout.num_tokens > 0 for micro in steps)


def test_the_batch_grows_along_its_ramp(shards: Path) -> None:
    ramp = batch_ramp(steps=20, ramp=0.5, start=0.25)

    def growing() -> TextFeed:
        return feed(shards, ramp, loop__batch_tokens=1024)

    sizes = [batches.micro[0].batch.layout.num_tokens for batches in first(growing(), 12)]
    expected = [round(8 * ramp(step)) * 128 for step in range(12)]
    assert sizes == pytest.approx(expected, rel=0.25)  # a last pack is not full
    assert (expected[0], expected[-1]) == (256, 1024)
    resumed = first(growing(), 1, first(growing(), 5)[-1].cursor)
    assert resumed[0].micro[0].batch.layout.num_tokens == sizes[5]


def test_pairs_bring_their_relation(shards: Path) -> None:
    batch = first(feed(shards, objective__relation="next-sentence"), 1)[0].micro[0].batch
    relation = batch.targets["relation"]
    assert len(relation) == batch.layout.num_sequences
    assert set(relation.tolist()) <= {0, 1, -100}
    assert batch.type_ids is not None
    assert batch.type_ids.any()


def test_an_error_names_the_documents_of_a_step(shards: Path) -> None:
    made = feed(shards)
    (batches,) = first(made, 1)
    told = made.describe(batches)
    assert told.startswith("documents ")
    numbers = [int(word.strip(",")) for word in told.split() if word.strip(",").isdigit()]
    assert len(numbers) >= 3
    assert told.endswith("epoch 1")


# --- held-out text ----------------------------------------------------------------------------


def test_held_out_batches_are_the_same_in_every_run(shards: Path) -> None:
    """transformers#36357, PR#1633: masks of the evaluation changed from run to run."""
    plain = text(shards).held_out()
    other = text(shards, machine__seed=5, objective__mask_share=0.4).held_out()
    assert [content(batch) for batch in plain] == [content(batch) for batch in other]
    assert sum(batch.layout.num_tokens for batch in plain) >= 600
    masked = torch.cat([batch.targets["masked"] for batch in plain])
    tokens = sum(int((~batch.special).sum()) for batch in plain if batch.special is not None)
    assert len(masked) / tokens == pytest.approx(0.15, abs=0.04)


def test_no_special_piece_is_hidden_or_shown_by_chance(shards: Path) -> None:
    """ModernBERT#212: the packer masked [CLS] and [SEP], and drew ids that are no pieces."""
    specials = MaskVocabulary.of(tokenizer()).special
    for batches in first(feed(shards, objective__shown_as_random=0.2), 20):
        batch = batches.micro[0].batch
        masked, originals = batch.targets["masked"], batch.targets["originals"]
        assert not specials[originals.numpy()].any()
        assert set(batch.ids[masked].tolist()) - {tokenizer().mask_id} <= set(
            np.flatnonzero(~specials).tolist()
        )
        assert batch.special is not None
        assert not batch.special[masked].any()


def test_without_held_out_text_nothing_is_scored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_shards(tmp_path, held_out=0.0)
    assert text(tmp_path / "shards").held_out() == []
    assert "no held-out text" in caplog.text


def test_pieces_are_counted(shards: Path) -> None:
    data = text(shards)
    expected = np.zeros(data.manifest.vocab_size, np.int64)
    for batches in epoch(feed(shards)):
        batch = batches.micro[0].batch
        originals = batch.ids.clone()
        originals[batch.targets["masked"]] = batch.targets["originals"]
        assert batch.special is not None
        expected += np.bincount(originals[~batch.special].numpy(), minlength=len(expected))
    assert data.counts().tolist() == expected.tolist()


# --- ahead of time ----------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [1, 3])
def test_steps_made_ahead_are_the_same(shards: Path, ahead: int) -> None:
    plain = first(feed(shards), 8)
    assert all(map(same, plain, first(Ahead(feed(shards), ahead), 8)))
    assert all(map(same, plain[3:], first(Ahead(feed(shards), ahead), 5, plain[2].cursor)))


def test_what_goes_wrong_ahead_is_raised_where_it_is_read(shards: Path) -> None:
    class Broken(TextFeed):
        def steps(self, cursor: Cursor) -> Iterator[StepBatches]:
            yield from islice(super().steps(cursor), 2)
            raise DataError("shard 3 is damaged")

    made = feed(shards)
    broken = Broken(made._text, made._packer)
    found: list[StepBatches] = []
    with pytest.raises(DataError, match="shard 3"):
        found.extend(Ahead(broken, 2).steps({}))
    assert len(found) == 2


# --- tokenizers -------------------------------------------------------------------------------


def test_shards_of_another_tokenizer_are_refused(shards: Path, tmp_path: Path) -> None:
    tokenizer("bpe").save(tmp_path)
    settings = text_settings(shards, Path("unused"), corpus__tokenizer=str(tmp_path))
    with pytest.raises(TokenizerError, match="every id would mean another piece"):
        read_tokenizer(settings, None)
    own = read_tokenizer(text_settings(shards, Path("unused")), None)
    assert own.fingerprint == tokenizer().fingerprint


def test_text_of_other_content_has_another_fingerprint(shards: Path, tmp_path: Path) -> None:
    make_shards(tmp_path, ("Some other text.", "And more of it."), held_out=0.0)
    assert text(tmp_path / "shards").fingerprint != text(shards).fingerprint
    moved = tmp_path / "moved"
    (tmp_path / "shards").rename(moved)
    again = dataclasses.replace(text_settings(moved, Path("unused"))).filled()
    data = TextData(moved, again, tokenizer())
    assert data.fingerprint != text(shards).fingerprint
