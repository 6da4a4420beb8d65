"""`Parts`: everything that a model folder holds, and how new parts come to an encoder.

`load.py` makes one from a folder, `save.py` writes one. Parts are replaced, never changed:
`adapt` gives an encoder another head, `new_parts` is an encoder that comes from no folder.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from bothways.checkpoints.empty import without_memory
from bothways.checkpoints.report import LoadReport
from bothways.errors import CheckpointError, UnsupportedModelError
from bothways.families.keys import ConfigKeys
from bothways.families.registry import family_of
from bothways.families.spec import FamilySpec, HeadKind
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder, Pooler
from bothways.model.heads import (
    ClassificationHead,
    MaskedLMHead,
    TokenHead,
    build_head,
    describe_head,
)
from bothways.model.init import initialise
from bothways.model.sentence import SentenceVector

if TYPE_CHECKING:
    from bothways.tokenization.tokenizer import Tokenizer

# Where a head's output layer is the token table: our names in the head and in the encoder.
TIES = {"output.weight": "embeddings.words.weight"}
# A classifier that computes with a layer of its own what the pooler computes.
_POOLER_INSIDE: dict[str, Any] = {"pooling": "cls", "dense": "tanh", "dense_dropout": 0.0}


@dataclass(frozen=True)
class Parts:
    """An encoder and what goes with it.

    Attributes:
        encoder: the network.
        family: what it is called and how it is written.
        report: what became of every tensor in the files.
        head: over the encoder, or None.
        tokenizer: of the checkpoint, or None where the folder has none.
        architecture: class that holds encoder and head in transformers; that of the bare encoder
            where there is no head or none that has a class.
        labels: names of the head's outputs, in order.
        problem_type: what config.json says about the head, or None.
        settings: content of bothways.json.
        sentence: from token states to sentence vectors, where the folder says how.
        raw: content of config.json.
        folder: where it was loaded from, or None.
    """

    encoder: Encoder
    family: FamilySpec
    report: LoadReport
    head: nn.Module | None = None
    tokenizer: Tokenizer | None = None
    architecture: str = ""
    labels: tuple[str, ...] = ()
    problem_type: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    sentence: SentenceVector | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def config(self) -> EncoderConfig:
        """The encoder's shape and equations."""
        return self.encoder.config

    @property
    def reader(self) -> nn.Module | None:
        """What reads the encoder's states for a task: the head, else the sentence's steps."""
        return self.sentence if self.head is None else self.head

    @property
    def head_names(self) -> tuple[str, ...]:
        """Where several heads share the encoder, what they are called; else none."""
        return tuple(self.head) if isinstance(self.head, nn.ModuleDict) else ()

    @property
    def head_trained(self) -> bool:
        """Whether predictions mean anything: nothing between text and logits is random."""
        return self.report.head_trained

    @property
    def masked_lm(self) -> MaskedLMHead | None:
        """The head, where it fills masks."""
        return self.head if isinstance(self.head, MaskedLMHead) else None

    def trained(self) -> Parts:
        """The same parts after training: nothing counts as random any more."""
        return dataclasses.replace(self, report=dataclasses.replace(self.report, untrained=()))

    def in_transformers(self) -> str:
        """What transformers reads of a folder that holds these parts, in one line.

        Example:
            >>> parts.in_transformers()  # doctest: +SKIP
            'in transformers: BertForSequenceClassification, same numbers'
        """
        if next(self.encoder.parameters(), None) is None:
            return "in transformers: nothing, because the folder was exported for another engine"
        if not self.family.heads:
            return "in transformers: nothing, because no published family has these axes"
        name = self.published_head()
        if self.head is None or name is not None:
            return f"in transformers: {name or self.family.bare}, same numbers"
        return (
            f"in transformers: encoder only ({self.family.bare}), because of the head "
            f"({_described(self.head)})"
        )

    def published_head(self) -> str | None:
        """The class of transformers that computes what the head does; None where none does."""
        parts = published_form(self)
        if parts.head is None:
            return None
        return head_class(
            parts.family, parts.head, parts.config, parts.raw, preferred=parts.architecture
        )


def new_parts(
    config: EncoderConfig, *, tokenizer: Tokenizer | None = None, encoder: Encoder | None = None
) -> Parts:
    """Parts of an encoder that comes from no folder, in evaluation mode like loaded ones.

    Args:
        config: of the encoder; its published family is found.
        tokenizer: to save with it.
        encoder: None for new random weights.
    """
    family = family_of(config)
    return Parts(
        encoder=(encoder or Encoder(config)).eval(),
        family=family,
        report=LoadReport("new", family.model_type, family.bare),
        tokenizer=tokenizer,
        architecture=family.bare,
        raw={} if tokenizer is None else _ids_of_ends(tokenizer),
    )


def _ids_of_ends(tokenizer: Tokenizer) -> dict[str, int]:
    """Keys of a config.json that, where they are absent, transformers takes from its defaults."""
    first, last = tokenizer.cls_id, tokenizer.sep_id
    ids = {"bos": first, "eos": last, "cls": first, "sep": last}
    return {f"{role}_token_id": piece for role, piece in ids.items() if piece is not None}


def new_head(
    parts: Parts, kind: HeadKind, num_outputs: int, *, pooling: str | None = None
) -> nn.Module:
    """A head with random weights in the form that the family publishes.

    Args:
        parts: an encoder.
        kind: what its logits mean.
        num_outputs: width of the logits.
        pooling: for heads that pool; another than the family's own makes a head that
            transformers has no class for.

    Raises:
        CheckpointError: when the family has no such head.

    Example:
        >>> adapt(parts, new_head(parts, "sequence", 3))  # doctest: +SKIP
    """
    name = parts.family.head_of_kind(kind)
    if name is None:
        raise CheckpointError(
            f"{parts.family.title} has no head of kind {kind!r}; it has: "
            f"{', '.join(sorted({spec.kind for spec in parts.family.heads.values()})) or 'none'}"
        )
    keys = ConfigKeys(parts.raw)
    head = parts.family.heads[name].build(parts.config, keys, num_outputs)
    description = describe_head(head)
    if pooling is not None and description.get("pooling") != pooling:
        arguments = {key: value for key, value in description.items() if key != "kind"}
        head = type(head)(**{**arguments, "pooling": pooling})
    return head


def family_form(parts: Parts, head: nn.Module, kind: HeadKind | None = None) -> nn.Module:
    """The form in which the family publishes a head, for one whose form is open.

    Args:
        parts: an encoder.
        head: any; one that does not classify texts is returned as it is. Where the family's form
            reads a pooler that the encoder lacks, the head gets the pooler's layer, so that a
            frozen encoder holds nothing random; `published_form` moves it. In place of the steps
            of a sentence vector come those of the folder.
        kind: what its logits mean, where it does not classify texts.
    """
    if isinstance(head, TokenHead) and kind and parts.family.head_of_kind(kind):
        return new_head(parts, kind, head.output.out_features)
    if isinstance(head, SentenceVector):
        return parts.sentence or head
    kind = kind or "sequence"
    if not isinstance(head, ClassificationHead) or parts.family.head_of_kind(kind) is None:
        return head
    published = new_head(parts, kind, head.output.out_features)
    if needs_pooler(published) and parts.encoder.pooler is None:
        rate = describe_head(published)["dropout"]
        size, width = parts.config.hidden_size, head.output.out_features
        return ClassificationHead(size, width, dropout=rate, **_POOLER_INSIDE)
    return published


def published_form(parts: Parts) -> Parts:
    """The same numbers, with a head's own layer as the pooler where the family has it there.

    Args:
        parts: returned as they are where there is nothing to move.
    """
    head, encoder = parts.head, parts.encoder
    if type(head) is not ClassificationHead or head.dense is None or encoder.pooler is not None:
        return parts
    description = describe_head(head)
    moved = {**description, "pooling": "pooler", "dense": None, "dense_dropout": None}
    if {**description, **_POOLER_INSIDE} != description or head.norm is not None:
        return parts
    made = build_head(moved)
    assert isinstance(made, ClassificationHead)
    made.output = head.output
    pooler = Pooler(parts.config.hidden_size)
    pooler.dense = head.dense
    encoder = with_pooler(encoder, pooler)
    name = head_class(parts.family, made, encoder.config, parts.raw, kind="sequence")
    if name is None:
        return parts
    made.train(head.training)
    return dataclasses.replace(parts, encoder=encoder, head=made, architecture=name)


def adapt(
    parts: Parts,
    head: nn.Module,
    *,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
    kind: HeadKind | None = None,
    trained: bool = False,
) -> Parts:
    """The same encoder under another head.

    A head that reads the pooler gets one: where the encoder has none, a new one with random
    weights is made, and the report says so. Predictions are refused until it is `trained()`.

    Args:
        parts: an encoder; its old head is left out.
        head: a new one, with random weights unless `trained`; it is tied to the encoder where its
            kind is. Steps of a sentence vector are no head: they take the place of the folder's,
            and keep their weights.
        labels: names of its outputs.
        problem_type: for config.json, one of `labels.PROBLEM_TYPES`.
        kind: what its logits mean, where several published classes look alike.
        trained: keep its weights; otherwise they are drawn anew with the encoder's deviation.
    """
    encoder, config = parts.encoder, parts.config
    if isinstance(head, SentenceVector):
        return _as_embedder(parts, head)
    untrained = [] if trained else ["head"]
    if needs_pooler(head) and encoder.pooler is None:
        encoder = with_pooler(encoder)
        config = encoder.config
        untrained.append("pooler")
    if not trained:
        initialise(head, config.initializer_range)
    if isinstance(head, MaskedLMHead):
        head.tie(encoder.embeddings.words)
    head.to(encoder.embeddings.words.weight.device).train(encoder.training)
    report = dataclasses.replace(
        parts.report,
        untrained=tuple(untrained),
        missing={
            **parts.report.missing,
            **dict.fromkeys(untrained, "new random weights; train before predicting"),
        },
    )
    return dataclasses.replace(
        parts,
        encoder=encoder,
        head=head,
        report=report,
        labels=tuple(labels),
        problem_type=problem_type,
        architecture=head_class(parts.family, head, config, parts.raw, kind=kind)
        or parts.family.bare,
    )


def _as_embedder(parts: Parts, sentence: SentenceVector) -> Parts:
    """The bare encoder with the pooling of these steps, and the folder's own after it."""
    if parts.sentence is not None:
        sentence = copy.deepcopy(parts.sentence.pooled_by(*sentence.pool.modes))
    sentence.to(parts.encoder.embeddings.words.weight.device).train(parts.encoder.training)
    return dataclasses.replace(
        parts,
        head=None,
        sentence=sentence,
        labels=(),
        problem_type=None,
        architecture=parts.family.bare,
        report=dataclasses.replace(parts.report, untrained=()),
    )


def needs_pooler(head: nn.Module) -> bool:
    """Whether a head reads the pooler's output."""
    return any(getattr(part, "pooling", None) == "pooler" for part in head.modules())


def with_pooler(encoder: Encoder, pooler: Pooler | None = None) -> Encoder:
    """The same encoder over the same parameters, with a pooler; None for a new random one."""
    config = dataclasses.replace(encoder.config, pooler=True)
    if pooler is None:
        reference = encoder.embeddings.words.weight
        pooler = Pooler(config.hidden_size).to(device=reference.device, dtype=reference.dtype)
        initialise(pooler, config.initializer_range)
    with without_memory():
        made = Encoder(config)
    state = encoder.state_dict(keep_vars=True)
    state |= {f"pooler.{name}": value for name, value in pooler.named_parameters()}
    made.load_state_dict(state, assign=True)
    return made.train(encoder.training)


def head_class(
    family: FamilySpec,
    head: nn.Module,
    config: EncoderConfig,
    raw: Mapping[str, Any],
    *,
    kind: HeadKind | None = None,
    preferred: str = "",
) -> str | None:
    """The class of transformers that computes what this head does; None when there is none.

    Args:
        family: of the encoder.
        head: to be saved.
        config: of the encoder.
        raw: keys of config.json; what the class reads from there can be changed on saving.
        kind: what its logits mean, where several classes look alike.
        preferred: the class it came from, where several look alike.
    """
    wanted = _comparable(head)
    names = sorted(family.heads, key=lambda name: name != preferred)
    for name in names:
        spec = family.heads[name]
        if not spec.published or (kind is not None and spec.kind != kind):
            continue
        width = wanted.get("num_labels", wanted.get("num_relations", 0))
        if spec.num_outputs not in (None, width):
            continue
        try:
            with without_memory():
                made = spec.build(config, ConfigKeys(raw), width)
                if type(made) is type(head):
                    made = spec.build(config, ConfigKeys({**raw, **spec.keys(head)}), width)
        except UnsupportedModelError:
            continue  # the keys describe a head of this class that is not built here
        if _comparable(made) == wanted:
            return name
    return None


def _comparable(head: nn.Module) -> dict[str, Any]:
    """What decides a head's numbers outside training."""
    rates = ("dropout", "dense_dropout")
    return {key: value for key, value in describe_head(head).items() if key not in rates}


def _described(head: nn.Module) -> str:
    description = describe_head(head)
    words = [str(description.pop("kind"))]
    words += [f"{key} {value}" for key, value in description.items() if key in ("pooling", "dense")]
    return ", ".join(words)


def set_parameter(module: nn.Module, name: str, value: nn.Parameter) -> None:
    """Put a parameter in the place of another, by its dotted name."""
    owner, _, last = name.rpartition(".")
    setattr(module.get_submodule(owner), last, value)
