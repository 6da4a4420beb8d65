"""`FamilySpec`: everything that is particular to one published family, as data.

A family's file holds a reader and a writer of its config.json, a table of weight names, its heads
by the names transformers has for them, and the recipe of its tokenizer. Equations are not here:
they are axes of `model/config.py`. What no family supports is refused here, with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from bothways.errors import ConfigError, UnsupportedModelError
from bothways.families.keys import ConfigKeys
from bothways.families.names import NameTable
from bothways.model.config import EncoderConfig

HeadKind = Literal[
    "masked_lm",  # logits over the vocabulary, a token each
    "relation",  # how the two texts of a pair go together: next sentence, sentence order
    "replaced",  # whether a token was replaced
    "sequence",  # labels of a text or a pair
    "token",  # labels of each token
    "answer",  # start and end of an answer
    "choice",  # one score a candidate
]


@dataclass(frozen=True)
class HeadSpec:
    """A published head, under the name of its class.

    Attributes:
        kind: what its logits mean.
        names: what a file calls its parameters.
        build: makes it from the encoder's configuration, the keys of config.json and the number
            of outputs.
        num_outputs: where the class fixes it; None where the labels decide.
        keys: keys of config.json that say how a given head is made, where there are any.
        layouts: names that the keys of config.json choose instead of `names`; None for no others.
        published: whether transformers has the class. A head of another class is read from
            checkpoints that hold it, and saved beside the encoder like any head without a class.
    """

    kind: HeadKind
    names: NameTable
    build: Callable[[EncoderConfig, ConfigKeys, int], nn.Module]
    num_outputs: int | None = None
    keys: Callable[[nn.Module], dict[str, Any]] = lambda _: {}
    layouts: Callable[[ConfigKeys], NameTable | None] = lambda _: None
    published: bool = True


@dataclass(frozen=True)
class TokenizerRecipe:
    """How texts of a family become pieces, where its folder does not say so itself.

    Attributes:
        kind: the algorithm.
        cls, sep, pad, mask, unknown: special tokens.
        single: template of one text; A stands for its pieces.
        pair: template of two texts, A and B.
        typed: whether the second text of a pair has type 1.
        order: which special token a new vocabulary has first; the id of padding matters where
            positions are counted from it.
    """

    kind: Literal["wordpiece", "byte_bpe", "sentencepiece", "moses_bpe"]
    cls: str
    sep: str
    pad: str
    mask: str
    unknown: str
    single: str
    pair: str
    typed: bool = False
    order: tuple[str, ...] = ("pad", "unknown", "cls", "sep", "mask")


@dataclass(frozen=True)
class FamilySpec:
    """A published family of encoders.

    Attributes:
        model_type: its word in config.json.
        title: its name for people.
        prefix: what stands before the encoder's names when a head is in the same file.
        bare: the class of the encoder without a head.
        read: keys of config.json to our axes.
        write: our axes to keys of config.json; `read` is its inverse.
        names: what a file calls the encoder's parameters.
        heads: by class name. Where two of one kind are alike, the first is the one for new heads.
        tokenizer: of the family.
        description: one paragraph: where it comes from and when to prefer it.
        changes: what it changes against BERT, in one sentence.
        unread: keys that its configurations carry and its published class does not read, so that
            no value of theirs is a reason to refuse.
    """

    model_type: str
    title: str
    prefix: str
    bare: str
    read: Callable[[ConfigKeys], EncoderConfig]
    write: Callable[[EncoderConfig], dict[str, Any]]
    names: NameTable
    heads: Mapping[str, HeadSpec] = field(default_factory=dict)
    tokenizer: TokenizerRecipe | None = None
    description: str = ""
    changes: str = ""
    unread: frozenset[str] = frozenset()

    def read_config(self, raw: Mapping[str, Any], place: str = "config.json") -> EncoderConfig:
        """The encoder that a config.json describes.

        Args:
            raw: the content of the file.
            place: the file, for messages.

        Raises:
            UnsupportedModelError: with every reason why it is not supported.
            ConfigError: for keys that are absent or have impossible values.
        """
        reasons = refusals({key: raw[key] for key in raw if key not in self.unread})
        if reasons:
            raise UnsupportedModelError(
                f"{place} asks for what is not supported:\n  " + "\n  ".join(reasons)
            )
        try:
            return self.read(ConfigKeys(raw, place))
        except ConfigError as error:
            raise ConfigError(_with_place(str(error), place)) from error

    def write_config(self, config: EncoderConfig, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a config.json for an encoder.

        Args:
            config: the encoder.
            raw: keys of the file it came from; they stay as they are where they still hold.
        """
        kept = dict(raw)
        if kept.get("model_type") == self.model_type:
            same = dataclasses.replace(self.read(ConfigKeys(kept)), pooler=config.pooler)
            if same == config:
                return kept
        return {**kept, "model_type": self.model_type, **self.write(config)}

    def expresses(self, config: EncoderConfig) -> bool:
        """Whether a config.json of this family can say what this encoder is."""
        try:
            read = self.read(ConfigKeys(self.write(config)))
        except (ConfigError, UnsupportedModelError):
            return False
        if config.pooler and not read.pooler:
            return False
        return dataclasses.replace(read, pooler=config.pooler) == config

    def head(self, name: str, raw: Mapping[str, Any]) -> HeadSpec | None:
        """The head of a class, with the names that these keys ask for; None where there is none.

        Args:
            name: of the class.
            raw: keys of config.json.
        """
        spec = self.heads.get(name)
        names = None if spec is None else spec.layouts(ConfigKeys(raw))
        return spec if spec is None or names is None else dataclasses.replace(spec, names=names)

    def head_of_kind(self, kind: HeadKind) -> str | None:
        """The class that new heads of a kind are saved as; None where there is none."""
        return next((name for name, head in self.heads.items() if head.kind == kind), None)


def refusals(raw: Mapping[str, Any]) -> list[str]:
    """Why no family can load a configuration; empty when nothing speaks against it."""
    reasons = [
        f"{key}: the model is a decoder, which reads one way or attends to a second model; an "
        "encoder reads both ways"
        for key in ("is_decoder", "is_encoder_decoder", "add_cross_attention")
        if raw.get(key)
    ]
    if raw.get("auto_map"):
        reasons.append(
            "auto_map: the model brings its own code, and nothing from a model folder is executed"
        )
    if raw.get("pruned_heads"):
        reasons.append(
            f"pruned_heads: {raw['pruned_heads']}: layers with different numbers of attention "
            "heads are not built here"
        )
    positions = raw.get("position_embedding_type") or "absolute"
    if positions != "absolute":
        reasons.append(
            f"position_embedding_type: {positions!r} is not built here; supported: 'absolute'"
        )
    if raw.get("quantization_config"):
        reasons.append("quantization_config: the weights are not plain numbers; use the original")
    return reasons


def _with_place(message: str, place: str) -> str:
    return message if message.startswith(place) else f"{place}: {message}"
