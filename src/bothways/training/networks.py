"""What a pretraining run trains: new networks of a preset, or those of a folder to go on with.

The shape comes from the preset; vocabulary, padding and first position come from the tokenizer.
New words of a vocabulary begin as the mean of the pieces that they were read as before.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.checkpoints.empty import without_memory
from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts, adapt, new_head, new_parts
from bothways.data.lines import read_lines
from bothways.errors import TokenizerError, UsageError
from bothways.families.presets import generator_of, preset
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder
from bothways.model.heads import MaskedLMHead, TokenHead
from bothways.tokenization.added import with_words
from bothways.tokenization.tokenizer import Tokenizer
from bothways.training.dropout import with_dropout
from bothways.training.masked_lm import MaskedLMObjective
from bothways.training.pretrain_settings import PretrainSettings
from bothways.training.pretrain_tables import Goal
from bothways.training.replaced import ReplacedTokenObjective, Sharing, merge_tables
from bothways.training.text_feed import read_tokenizer

logger = logging.getLogger(__name__)

# Where the generator lies in the folder of a model that finds replaced tokens.
GENERATOR = "generator"


def with_length(
    settings: PretrainSettings, given: int | None, base: Parts | None
) -> PretrainSettings:
    """The settings with a sequence length that the model can read.

    Args:
        settings: filled.
        given: the length that was asked for; None for the usual one, or less where the positions
            are fewer.
        base: the model to go on with; None for a preset.

    Raises:
        UsageError: when more was asked for than there are positions, or a step cannot hold.
    """
    config = preset(settings.preset or "") if base is None else base.config
    usable = config.embeddings.usable_positions
    if given is not None and given > usable:
        raise UsageError(f"--max-length is {given}; this model reads at most {usable} tokens")
    length, tokens = min(settings.loop.max_length or usable, usable), settings.loop.batch_tokens
    if tokens is not None and tokens < length:
        raise UsageError(
            f"--batch-tokens is {tokens}, fewer than one sequence of --max-length {length} has; "
            "give more, or shorter sequences"
        )
    return dataclasses.replace(settings, loop=dataclasses.replace(settings.loop, max_length=length))


def vocabulary(settings: PretrainSettings, base: Parts | None) -> tuple[Tokenizer, Parts | None]:
    """The tokenizer that text is read with, and the base model over its words.

    Raises:
        TokenizerError: when there is none, or it has no mask token.
        UsageError: when the model cannot learn what is asked for.
    """
    goal_of(settings, base)
    if base is not None and base.tokenizer is None and settings.corpus.tokenizer is None:
        raise TokenizerError(f"{settings.from_} has no tokenizer; name one with --tokenizer")
    tokenizer = read_tokenizer(settings, None if base is None else base.tokenizer)
    if settings.corpus.new_words is not None:
        assert base is not None
        words = list(read_lines(settings.corpus.new_words))
        tokenizer, pieces = with_words(tokenizer, words)
        base = with_new_words(base, tokenizer, pieces)
        logger.info("%d of %d words are new to the vocabulary", len(pieces), len(words))
    if tokenizer.mask_id is None:
        raise TokenizerError(
            f"{tokenizer.name} has no mask token, which pretraining needs; train one with "
            "`bothways tokenizer train`"
        )
    if base is not None and tokenizer.largest_id >= base.config.embeddings.vocab_size:
        raise TokenizerError(
            f"{tokenizer.name} has ids up to {tokenizer.largest_id}, and {settings.from_} has "
            f"{base.config.embeddings.vocab_size} rows; take the tokenizer of that model"
        )
    return tokenizer, base


@dataclass(frozen=True)
class Networks:
    """What is trained and what is kept of it.

    Attributes:
        parts: encoder and head.
        generator: the same of the network that replaces tokens; None where there is none.
        objective: over them.
    """

    parts: Parts
    generator: Parts | None
    objective: MaskedLMObjective | ReplacedTokenObjective

    def trained(self) -> Networks:
        """The same after training: tables are plain again, and nothing counts as random."""
        merge_tables(self.parts.encoder)
        generator = None if self.generator is None else self.generator.trained()
        return dataclasses.replace(self, parts=self.parts.trained(), generator=generator)


def goal_of(settings: PretrainSettings, base: Parts | None) -> Goal:
    """What is learned: what was asked for, or what the preset or the model was made for.

    Args:
        settings: filled.
        base: the model to go on with; None for a new one.

    Raises:
        UsageError: when the model lacks what it takes.
    """
    asked, name = settings.objective, settings.from_ or settings.preset or ""
    has_generator = base is not None and _generator_folder(base) is not None
    goal: Goal = asked.goal or ("replaced" if has_generator else "masked-lm")
    if goal == "replaced" and base is not None and not has_generator:
        raise UsageError(
            f"--goal replaced needs a generator, and {name} has none (a folder {GENERATOR!r} in "
            "it); go on with --goal masked-lm"
        )
    if goal == "replaced" and settings.corpus.new_words is not None:
        raise UsageError(
            f"the generator of {name} does not know --new-words; go on with --goal masked-lm"
        )
    if asked.relation != "none":
        if goal == "replaced":
            raise UsageError(f"--relation goes with --goal masked-lm, and {name} finds replaced")
        if not (preset(name) if base is None else base.config).pooler:
            raise UsageError(
                f"--relation is told by a pooler, and {name} has none; take a BERT with one, such "
                "as --preset mini"
            )
    return goal


def build_networks(
    settings: PretrainSettings, tokenizer: Tokenizer, base: Parts | None
) -> Networks:
    """New networks, or copies of loaded ones; random weights come from torch's generator.

    Args:
        settings: of the command, filled.
        tokenizer: that the text is read with.
        base: the model to go on with; None for a new one.

    Raises:
        UsageError: when preset, tokenizer and settings do not go together.
    """
    goal, relation = goal_of(settings, base), settings.objective.relation != "none"
    rates = settings.network.dropout
    if base is None:
        assert settings.preset is not None
        config = fitted(preset(settings.preset), tokenizer)
        parts = new_parts(dataclasses.replace(config, pooler=relation), tokenizer=tokenizer)
        generator = None
        if goal == "replaced":
            generator = new_parts(generator_of(parts.config), tokenizer=tokenizer)
            if settings.objective.sharing == "disentangled":
                # What the encoder adds to the generator's table begins as nothing.
                table = generator.encoder.embeddings.words
                parts.encoder.embeddings.words.load_state_dict(table.state_dict())
    else:
        # The loaded weights are pages of a file; what is trained is memory of its own.
        parts = copied(base, tokenizer)
        folder = _generator_folder(base)
        generator = None if folder is None else copied(load_parts(folder), tokenizer)
    parts = dataclasses.replace(parts, encoder=with_dropout(parts.encoder, rates))
    if goal == "masked-lm":
        parts = _with_masked_lm(parts, relation)
        assert parts.masked_lm is not None
        return Networks(parts, None, MaskedLMObjective(parts.encoder, parts.masked_lm))
    assert generator is not None
    generator = dataclasses.replace(generator, encoder=with_dropout(generator.encoder, rates))
    return _replaced(settings, parts, _with_masked_lm(generator, relation=False))


def _replaced(settings: PretrainSettings, parts: Parts, generator: Parts) -> Networks:
    if parts.head is None or isinstance(parts.head, MaskedLMHead):
        parts = adapt(parts, _detector(parts), kind="replaced")
    assert parts.head is not None
    assert generator.masked_lm is not None
    sharing: Sharing = settings.objective.sharing or _shared_before(parts)
    objective = ReplacedTokenObjective(
        parts.encoder,
        parts.head,
        generator=generator.encoder,
        generator_head=generator.masked_lm,
        sharing=sharing,
        weight=settings.objective.detection_weight,
    )
    return Networks(parts, generator, objective)


def _shared_before(parts: Parts) -> Sharing:
    """How a model of ours shared its embeddings with its generator; others share nothing."""
    sharing: Sharing = parts.settings.get("provenance", {}).get("sharing", "none")
    return sharing


def _detector(parts: Parts) -> nn.Module:
    """The family's head over every token, or ELECTRA's where it publishes none."""
    if parts.family.head_of_kind("replaced") is not None:
        return new_head(parts, "replaced", 1)
    config = parts.config
    return TokenHead(config.hidden_size, 1, dropout=0.0, dense=config.feedforward.activation)


def _with_masked_lm(parts: Parts, relation: bool) -> Parts:
    """The parts under a masked-LM head: their own where they have one, else a new one."""
    head = parts.masked_lm
    if head is not None and (head.relation is not None) == relation:
        return parts
    if head is None and parts.folder is not None:
        logger.warning(
            "%s has no masked-LM head; it gets a new one with random weights", parts.folder
        )
    made = new_head(parts, "masked_lm", 2 if relation else 0)
    return adapt(parts, made, kind="masked_lm")


def begin_at_frequencies(networks: Networks, counts: NDArray[np.int64]) -> None:
    """Let a head that guesses hidden tokens expect each piece as often as it stands in the text.

    The first loss is then about the entropy of single pieces, where it was the logarithm of their
    number, and no step is spent on learning how frequent they are.

    Args:
        networks: with a new head.
        counts: how often each id stands in the text; one is added to each.
    """
    parts = networks.parts if networks.generator is None else networks.generator
    head = parts.masked_lm
    assert head is not None
    bias = head.output.bias
    shares = np.ones(len(bias))
    known = min(len(counts), len(bias))
    shares[:known] += counts[:known]
    with torch.no_grad():
        bias.copy_(torch.from_numpy(np.log(shares / shares.sum())))


def fitted(config: EncoderConfig, tokenizer: Tokenizer) -> EncoderConfig:
    """A preset's shape over the vocabulary, padding and first position of a tokenizer.

    Raises:
        UsageError: when the tokenizer has no padding token and the shape counts positions from it.
    """
    axis, pad_id = config.embeddings, tokenizer.pad_id
    if axis.position_start and pad_id is None:
        raise UsageError(f"{tokenizer.name} has no padding token, and positions start after its id")
    start = pad_id + 1 if axis.position_start and pad_id is not None else 0
    embeddings = dataclasses.replace(
        axis,
        vocab_size=tokenizer.largest_id + 1,
        pad_id=pad_id,
        position_start=start,
        max_positions=axis.usable_positions + start,
    )
    return dataclasses.replace(config, embeddings=embeddings)


def copied(base: Parts, tokenizer: Tokenizer) -> Parts:
    """Copies of a loaded encoder and head in memory of their own, with this tokenizer."""
    encoder, head = copy.deepcopy((base.encoder, base.head))
    return dataclasses.replace(base, encoder=encoder, head=head, tokenizer=tokenizer)


def _generator_folder(base: Parts) -> Path | None:
    folder = None if base.folder is None else Path(base.folder) / GENERATOR
    return folder if folder is not None and (folder / "config.json").is_file() else None


def with_new_words(base: Parts, tokenizer: Tokenizer, pieces: dict[int, list[int]]) -> Parts:
    """A model over more words, each beginning as the mean of what it was read as before.

    Args:
        base: the model.
        tokenizer: with the words.
        pieces: for the id of each new word, the ids that it was read as.
    """
    rows = max(base.config.embeddings.vocab_size, tokenizer.largest_id + 1)
    config = base.config.with_vocab_size(rows)
    return with_tables(base, tokenizer, config, lambda table: _grown(table, rows, pieces))


def with_tables(
    base: Parts, tokenizer: Tokenizer, config: EncoderConfig, change: Callable[[Tensor], Tensor]
) -> Parts:
    """A model over another vocabulary, in memory of its own.

    Args:
        base: the model.
        tokenizer: of the new vocabulary.
        config: the same but for the vocabulary.
        change: makes the new table, or bias, of the old one, a row a piece.
    """
    parts = copied(base, tokenizer)
    table = parts.encoder.embeddings.words.weight
    state = dict(parts.encoder.state_dict(keep_vars=True))
    state["embeddings.words.weight"] = nn.Parameter(change(table))
    with without_memory():
        encoder = Encoder(config)
    encoder.load_state_dict(state, assign=True)
    head = parts.masked_lm
    if head is not None:
        tied = head.output.weight is table
        made = MaskedLMHead(**vars(head)["settings"] | {"vocab_size": config.embeddings.vocab_size})
        state = dict(head.state_dict(keep_vars=True))
        state["output.bias"] = nn.Parameter(change(head.output.bias))
        state["output.weight"] = nn.Parameter(change(head.output.weight))
        made.load_state_dict(state, assign=True)
        if tied:
            made.tie(encoder.embeddings.words)
        parts = dataclasses.replace(parts, head=made.eval())
    return dataclasses.replace(parts, encoder=encoder.eval())


def _grown(table: Tensor, rows: int, pieces: dict[int, list[int]]) -> Tensor:
    """A table, or a bias, with rows for new words."""
    with torch.no_grad():
        grown = table.new_zeros(rows, *table.shape[1:])
        grown[: len(table)] = table
        for token, parts in pieces.items():
            grown[token] = table[parts].mean(0)
    return grown
