"""Batches of text for pretraining: shards, packed and masked, step by step from any point.

A step is one pack, or several where the batch grows: its passages do not depend on the number of
ranks or micro-batches, and the mask of a passage depends on (seed, epoch, passage) alone. What a
pack is, is in `data/packing.py`; what is hidden, in `data/masking.py`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bothways.checkpoints.hub import find_folder
from bothways.data.collate import masked_batch
from bothways.data.manifest import TOKENIZER, Manifest
from bothways.data.masking import Masking, MaskVocabulary, mask_tokens, one_at_a_time
from bothways.data.packing import Pack, Packer, Place
from bothways.data.prepare import PrepareSettings, prepare
from bothways.data.sequences import Sequences, paired, single
from bothways.data.shards import Shards
from bothways.errors import TokenizerError
from bothways.files import names_in
from bothways.model.layout import Batch
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from bothways.training.feed import Cursor, MicroBatch, StepBatches
from bothways.training.held_out import HELD_OUT_SEED
from bothways.training.masked_lm import MASKED
from bothways.training.pretrain_settings import PretrainSettings
from bothways.training.runtime import Runtime
from bothways.training.schedule import Schedule

logger = logging.getLogger(__name__)

SHARDS = "shards"
# Packs of a full step where the batch grows, and sequences of full length in each: fewer would not
# fill it well.
RAMP_PACKS, PACK_SEQUENCES = 8, 4
# Tokens of one forward pass over held-out text.
HELD_OUT_BATCH = 4096
# Numbers of one hidden state that a CPU's cache serves well, bounds of the tokens that follow from
# it, and what a GPU takes at once. Parts of 1,024 tokens at a width of 256 were measured to be 4 %
# faster than the 4,096 of a step, in 0.6 of the memory.
CACHED_NUMBERS, CPU_TOKENS = 1 << 18, (1024, 4096)
GPU_TOKENS = 65_536
# Training text whose pieces are counted, to know how frequent each is.
COUNTED_TOKENS = 5_000_000


def read_tokenizer(settings: PretrainSettings, own: Tokenizer | None) -> Tokenizer:
    """The tokenizer that the settings name: that of the shards, a given one, or the model's own.

    Raises:
        TokenizerError: when shards were made with another one than the model's.
        DataError: when there are no shards.
    """
    data, named = settings.corpus.data, settings.corpus.tokenizer
    given = own if named is None else load_tokenizer(find_folder(named))
    if data is None:
        assert given is not None, "checked with the settings"
        return given
    fingerprint = Manifest.read(data).fingerprint
    stored = load_tokenizer(data / TOKENIZER)
    for name, tokenizer in ((str(data), stored), (named or settings.from_ or "", given)):
        if tokenizer is not None and tokenizer.fingerprint != fingerprint:
            raise TokenizerError(
                f"the shards in {data} were made with a tokenizer of fingerprint {fingerprint}, "
                f"and that of {name} has {tokenizer.fingerprint}: every id would mean another "
                "piece; prepare the text with the model's own tokenizer (--input)"
            )
    return stored if given is None else given


def open_text(settings: PretrainSettings, tokenizer: Tokenizer, runtime: Runtime) -> TextData:
    """The shards of a run, made of raw files first where those are given.

    Args:
        settings: filled.
        tokenizer: reads raw files.
        runtime: its first rank prepares.

    Raises:
        DataError: for what is wrong with the text.
        TrainingError: when other text was prepared in the output folder.
    """
    folder = settings.corpus.data
    if folder is None:
        folder = settings.output / SHARDS
        corpus = settings.corpus
        if runtime.is_main:
            prepare(
                PrepareSettings(
                    corpus.input,
                    folder,
                    document=corpus.document,
                    text=corpus.text,
                    encoding=corpus.encoding,
                    resume=bool(names_in(folder)),
                ),
                tokenizer,
            )
        runtime.wait()
    return TextData(folder, settings, tokenizer)


def part_tokens(hidden_size: int, device: torch.device) -> int:
    """Tokens of one forward and backward pass that suit a device.

    Args:
        hidden_size: of the encoder.
        device: where it runs.
    """
    if device.type != "cpu":
        return GPU_TOKENS
    low, high = CPU_TOKENS
    return min(max(CACHED_NUMBERS // hidden_size, low), high)


class TextData:
    """The text of a run.

    Args:
        folder: of shards.
        settings: filled.
        tokenizer: that of the shards.

    Attributes:
        manifest: of the shards.
        fingerprint: of their content and how it is read.
    """

    def __init__(self, folder: Path, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        objective = settings.objective
        self._settings = settings
        self._folder = folder
        self._train = Shards(folder, "train")
        self.manifest = self._train.manifest
        self._vocabulary = MaskVocabulary.of(tokenizer)
        self._relation = None if objective.relation == "none" else objective.relation
        self._template = tokenizer.template if self._relation is None else tokenizer.pair_template
        self._masking = objective.masking()

    @property
    def fingerprint(self) -> str:
        """Equal only for shards of equal content."""
        content = json.dumps(self.manifest.as_dict()["files"]).encode()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def feed(
        self, share: Schedule, *, at_once: int | None = None, rank: int = 0, num_ranks: int = 1
    ) -> TextFeed:
        """The steps of a run.

        Args:
            share: of the full batch that a step reads.
            at_once: tokens of one forward pass, where the settings name no number of parts; None
                for a whole step.
            rank, num_ranks: this process and how many there are.
        """
        loop = self._settings.loop
        assert loop.batch_tokens is not None
        assert loop.max_length is not None
        growing = share(0) < 1.0
        most = loop.batch_tokens // (PACK_SEQUENCES * loop.max_length)
        packs = max(1, min(RAMP_PACKS, most)) if growing else 1
        packer = self._packer(self._train, loop.batch_tokens // packs, self._settings.machine.seed)
        long = packer.count_long()
        if long and rank == 0:
            logger.info(
                "%d of %d texts are longer than %d tokens and are read in passages; nothing is cut",
                long,
                self._train.num_rows,
                loop.max_length,
            )
        return TextFeed(
            self,
            packer,
            lambda step: max(1, round(packs * share(step))),
            parts=lambda tokens: loop.accumulate or (-(-tokens // at_once) if at_once else 1),
            rank=rank,
            num_ranks=num_ranks,
        )

    def held_out(self) -> list[Batch]:
        """Batches to score on, the same in every run over these shards; none where there are none.

        A fixed share of single tokens is hidden, whatever is hidden in training, so that runs can
        be compared.
        """
        batches = self._some_held_out(
            HELD_OUT_BATCH,
            lambda shards, pack: [self._batch(shards, pack, 0, HELD_OUT_SEED, Masking())],
        )
        if not any(len(batch.targets[MASKED]) for batch in batches):
            logger.warning(
                "%s has %s held-out text, so nothing is scored",
                self._folder,
                "too little" if batches else "no",
            )
            return []
        return batches

    def hidden_alone(self) -> list[Batch]:
        """Copies of held-out sequences in which one token after the other is hidden, alone."""

        def copies(shards: Shards, pack: Pack) -> list[Batch]:
            return [
                masked_batch(*copied)
                for copied in one_at_a_time(
                    self._sequences(shards, pack, 0, HELD_OUT_SEED),
                    self._vocabulary,
                    batch_tokens=HELD_OUT_BATCH,
                )
            ]

        return self._some_held_out(0, copies)

    def _some_held_out(
        self, pack_tokens: int, make: Callable[[Shards, Pack], list[Batch]]
    ) -> list[Batch]:
        """What is made of held-out packs, until there are `held_out_tokens`."""
        batches = list[Batch]()
        if not self.manifest.files.get("heldout"):
            return batches
        shards, read = Shards(self._folder, "heldout"), 0
        for pack in self._packer(shards, pack_tokens, HELD_OUT_SEED).epoch():
            if read >= self._settings.loop.held_out_tokens:
                break
            made = make(shards, pack)
            read += sum(batch.layout.num_tokens for batch in made)
            batches += made
        return batches

    def counts(self) -> NDArray[np.int64]:
        """How often each id stands in the training text, or in an even part of a large one."""
        rows = self._train.num_rows
        step = max(1, self._train.num_tokens // COUNTED_TOKENS)
        counts = np.zeros(self.manifest.vocab_size, np.int64)
        for some in np.array_split(np.arange(0, rows, step), max(1, rows // step // 4096)):
            ids, _ = self._train.gather(some, np.zeros_like(some), self._train.lengths(some))
            counts += np.bincount(ids, minlength=len(counts))
        return counts

    def batch(self, pack: Pack, epoch: int) -> Batch:
        """A masked batch of training text.

        Args:
            pack: passages.
            epoch: from 0.
        """
        seed = self._settings.machine.seed
        return self._batch(self._train, pack, epoch, seed, self._masking)

    def _batch(self, shards: Shards, pack: Pack, epoch: int, seed: int, masking: Masking) -> Batch:
        sequences = self._sequences(shards, pack, epoch, seed)
        tokens = mask_tokens(sequences, masking, self._vocabulary, seed=seed, epoch=epoch)
        batch = masked_batch(sequences, tokens)
        return dataclasses.replace(batch, sources=tuple(sequences.keys[:, 0].tolist()))

    def _sequences(self, shards: Shards, pack: Pack, epoch: int, seed: int) -> Sequences:
        if self._relation is None:
            return single(shards, pack, self._template)
        return paired(shards, pack, self._template, self._relation, seed=seed, epoch=epoch)

    def _packer(self, shards: Shards, pack_tokens: int, seed: int) -> Packer:
        assert self._settings.loop.max_length is not None
        return Packer(
            shards,
            max_length=self._settings.loop.max_length,
            num_special=self._template.size,
            pack_tokens=max(pack_tokens, self._settings.loop.max_length),
            seed=seed,
        )

    def documents(self, rows: Sequence[int]) -> list[int]:
        """Which documents of the corpus rows of the training text come from."""
        return sorted({self._train.document(row) for row in rows})


class TextFeed:
    """Steps over packs, endless.

    Args:
        text: makes batches.
        packer: plans packs.
        num_packs: of a step.
        parts: that a rank reads one after another, of so many tokens.
        rank: which rank this is.
        num_ranks: how many there are.
    """

    def __init__(
        self,
        text: TextData,
        packer: Packer,
        num_packs: Callable[[int], int] = lambda step: 1,  # noqa: ARG005
        *,
        parts: Callable[[int], int] = lambda tokens: 1,  # noqa: ARG005
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        self._text = text
        self._packer = packer
        self._num_packs = num_packs
        self._parts = parts
        self._rank = rank
        self._num_ranks = num_ranks

    def steps(self, cursor: Cursor) -> Iterator[StepBatches]:
        """The steps from a cursor on: a place among the packs, and the number of the step.

        A step ends with its epoch, though it may then be smaller.
        """
        place, step = Place.at(cursor), cursor.get("step", 0)
        taken: list[Pack] = []
        for pack, after in self._packer.packs(place):
            taken.append(pack)
            ends = after.epoch != place.epoch
            if len(taken) >= self._num_packs(step) or ends:
                step += 1
                micro = self._micro(taken, place.epoch)
                yield StepBatches(micro, place.epoch, ends, {**after.cursor(), "step": step})
                taken = []
            place = after

    def _micro(self, packs: Sequence[Pack], epoch: int) -> tuple[MicroBatch, ...]:
        whole = joined(packs)
        count = self._parts(-(-int(whole.lengths.sum()) // self._num_ranks))
        parts = whole.split(count * self._num_ranks)
        made = []
        for index in range(count):
            part = parts[index * self._num_ranks + self._rank]
            counted = len(part) > 0
            batch = self._text.batch(part if counted else whole.take(slice(0, 1)), epoch)
            made.append(MicroBatch(batch, counted=counted))
        return tuple(made)

    def describe(self, batches: StepBatches) -> str:
        """The documents that a step reads on this rank."""
        rows = [row for micro in batches.micro if micro.counted for row in micro.batch.sources]
        documents = self._text.documents(rows)
        shown = ", ".join(map(str, documents[:10])) + ", ..." * (len(documents) > 10)
        return f"documents {shown} of the shards, epoch {batches.epoch + 1}"


def joined(packs: Sequence[Pack]) -> Pack:
    """The passages of several packs, the shortest first."""
    if len(packs) == 1:
        return packs[0]
    rows, starts, stops = (
        np.concatenate([getattr(pack, name) for pack in packs])
        for name in ("rows", "starts", "stops")
    )
    return Pack(rows, starts, stops).take(np.argsort(stops - starts, kind="stable"))
