"""From `Parts` to a model folder that this library, transformers and sentence-transformers read.

All files are written beside the old ones and moved in together (`bothways.files`), so a full disk
or a killed process leaves the old model, and the folder a model was loaded from can be saved into.
What the common layout has no place for goes into bothways.json.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from bothways.checkpoints.card import CardFacts, render_card
from bothways.checkpoints.empty import without_memory
from bothways.checkpoints.files import (
    DEFAULT_SHARD_SIZE,
    EXPORT_NAME,
    HEAD_NAME,
    INDEX_NAME,
    INT8_NAME,
    WEIGHTS_NAME,
    Staged,
    stage_weights,
    write_tensors,
)
from bothways.checkpoints.labels import default_labels, write_labels
from bothways.checkpoints.parts import TIES, Parts, published_form
from bothways.checkpoints.sentence import write_sentence
from bothways.checkpoints.settings import SETTINGS_NAME, settings_content
from bothways.checkpoints.vectors import make_vectors
from bothways.errors import CheckpointError
from bothways.families.keys import ConfigKeys
from bothways.families.spec import HeadSpec
from bothways.model.config import EncoderConfig
from bothways.model.heads import describe_head
from bothways.tokenization.passport import make_passport

# Copies of the weights in other forms, which other weights make wrong.
_STALE = (
    INT8_NAME,
    EXPORT_NAME,
    *("model.onnx", "model.onnx.data", "model.xml", "model.bin", "model.pt2"),
)


def save_parts(
    parts: Parts,
    folder: str | Path,
    *,
    overwrite: bool = False,
    card: CardFacts | None = None,
    max_shard_size: int = DEFAULT_SHARD_SIZE,
    beside: Callable[[Staged], None] | None = None,
    weights: bool = True,
) -> None:
    """Write a model folder.

    Args:
        parts: what to write.
        folder: made when absent; the folder that the parts were loaded from is safe too.
        overwrite: allow a folder that holds a model.
        card: facts for README.md; None keeps a README.md that is there, and else says little.
        max_shard_size: bytes of one weight file.
        beside: writes further files, as one step with the others.
        weights: whether weights and model card are written, and not all else alone.

    Raises:
        CheckpointError: when the parts have no weights, a model is there already, or the folder
            cannot be written; what was there before is then intact.

    Example:
        >>> save_parts(parts, "my-model")  # doctest: +SKIP
    """
    folder = Path(folder)
    taken = [name for name in ("config.json", WEIGHTS_NAME, INDEX_NAME) if (folder / name).exists()]
    if taken and not overwrite:
        raise CheckpointError(
            f"{folder} holds a model already ({', '.join(taken)}); choose another folder, or "
            "replace it with overwrite=True"
        )
    if next(parts.encoder.parameters(), None) is None:
        raise CheckpointError(
            "an exported model has no weights to save; copy its folder, or save the model that it "
            "was exported from"
        )
    parts = published_form(parts)
    name = parts.published_head()
    spec = None if name is None else parts.family.head(name, parts.raw)
    settings = dict(parts.settings)
    settings.update(_head_settings(parts, spec))
    with Staged(folder) as files:
        files.json("config.json", _config(parts, name or parts.family.bare, spec))
        if weights:
            stage_weights(files, _weights(parts, spec), max_shard_size)
        loose = parts.head if spec is None and weights else None
        if loose is None:
            files.remove(HEAD_NAME)
        else:
            with files.stream(HEAD_NAME) as file:
                write_tensors(file, _loose_head(loose, parts))
        if beside is not None:
            beside(files)
        for stale in _STALE:
            if not (files.staging / stale).exists():
                files.remove(stale)
        if not (files.staging / INT8_NAME).exists():
            settings.pop("int8", None)
        if parts.tokenizer is not None:
            parts.tokenizer.stage(files)
            settings["passport"] = make_passport(parts.tokenizer) | make_vectors(parts)
        files.json(SETTINGS_NAME, settings_content(settings))
        max_length = None if parts.tokenizer is None else parts.tokenizer.declared_max_length
        if parts.sentence is not None:
            write_sentence(
                parts.sentence,
                files.staging,
                hidden_size=parts.config.hidden_size,
                max_length=max_length,
            )
        if weights and (card is not None or not (folder / "README.md").exists()):
            facts = card or CardFacts(folder.resolve().name, labels=parts.labels)
            usable = parts.config.embeddings.usable_positions
            text = render_card(
                facts,
                in_transformers=parts.in_transformers(),
                max_length=min(max_length or usable, usable),
            )
            files.text("README.md", text)


def _config(parts: Parts, name: str, spec: HeadSpec | None) -> dict[str, Any]:
    raw = {key: value for key, value in parts.raw.items() if key != "architectures"}
    config = _config_with_head_dropout(parts, spec)
    keys = parts.family.write_config(config, raw)
    if spec is not None and parts.head is not None:
        description = describe_head(parts.head)
        if _made_again(spec, config, keys, description) != description:
            keys |= spec.keys(parts.head)
    labels = parts.labels
    if not labels and parts.head is not None and spec is not None and spec.num_outputs is None:
        labels = default_labels(describe_head(parts.head)["num_labels"])
    if labels:
        keys = write_labels(keys, labels, parts.problem_type)
    for dtype_key in ("dtype", "torch_dtype"):
        if dtype_key in keys:
            dtype = parts.encoder.embeddings.words.weight.dtype
            keys[dtype_key] = str(dtype).removeprefix("torch.")
    if _untied(parts, spec):
        keys["tie_word_embeddings"] = False
    elif spec is not None and spec.names.tied:
        keys["tie_word_embeddings"] = True
    return {"architectures": [name], **keys}


def _config_with_head_dropout(parts: Parts, spec: HeadSpec | None) -> EncoderConfig:
    """The configuration with the dropout that the head really has, where that says another."""
    config = parts.config
    if parts.head is None or spec is None:
        return config
    description = describe_head(parts.head)
    rate = description.get("dropout", config.dropout.classifier)
    keys = {**parts.raw, **spec.keys(parts.head)}
    changed = dataclasses.replace(config.dropout, classifier=rate)
    for candidate in (config, dataclasses.replace(config, dropout=changed)):
        if _made_again(spec, candidate, keys, description).get("dropout") == rate:
            return candidate
    return config


def _made_again(
    spec: HeadSpec, config: EncoderConfig, keys: Mapping[str, Any], description: Mapping[str, Any]
) -> dict[str, Any]:
    """What the head would be that this configuration and these keys describe."""
    width = description.get("num_labels", description.get("num_relations", 0))
    with without_memory():
        return describe_head(spec.build(config, ConfigKeys(keys), width))


def _weights(parts: Parts, spec: HeadSpec | None) -> dict[str, Tensor]:
    """Tensors of the encoder and of a head that has a class, by their names in the file."""
    config = parts.config
    prefix = parts.family.prefix if spec is not None else ""
    state: Mapping[str, Tensor] = parts.encoder.state_dict()
    slots = parts.family.names.bind(parts.encoder, config)
    tensors = {prefix + slot.theirs: slot.join(state) for slot in slots}
    if spec is not None and parts.head is not None:
        shared = _shared(parts.head, parts.encoder, spec.names.tied)
        head_state = parts.head.state_dict()
        for slot in spec.names.bind(parts.head, config):
            if slot.ours[0] not in shared:
                tensors[slot.theirs] = slot.join(head_state)
        if len(shared) < len(spec.names.tied):
            tensors.update(
                (second, tensors[first].clone()) for second, first in spec.names.copies.items()
            )
    return tensors


def _loose_head(head: nn.Module, parts: Parts) -> dict[str, Tensor]:
    """Tensors of a head without a class, by our names."""
    shared = _shared(head, parts.encoder, TIES)
    return {name: value for name, value in head.state_dict().items() if name not in shared}


def _shared(head: nn.Module, encoder: nn.Module, ties: Mapping[str, str]) -> set[str]:
    """Parameters of the head that are the encoder's."""
    own, others = dict(head.named_parameters()), dict(encoder.named_parameters())
    return {
        ours for ours, theirs in ties.items() if ours in own and own[ours] is others.get(theirs)
    }


def _untied(parts: Parts, spec: HeadSpec | None) -> bool:
    if spec is None or parts.head is None or not spec.names.tied:
        return False
    return len(_shared(parts.head, parts.encoder, spec.names.tied)) < len(spec.names.tied)


def _head_settings(parts: Parts, spec: HeadSpec | None) -> dict[str, Any]:
    """What bothways.json says about the head."""
    if parts.head is None:
        return dict.fromkeys(("head", "heads", "labels", "pooling", "untrained"))
    description = describe_head(parts.head)
    return {
        "head": description if spec is None else None,
        "heads": parts.settings.get("heads") if parts.head_names else None,
        "labels": list(parts.labels),
        "pooling": description.get("pooling"),
        "untrained": list(parts.report.untrained),
    }
