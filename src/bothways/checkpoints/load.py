"""From a model folder to `Parts`: configuration, weights, tokenizer and what goes with them.

The weights are put together in `assembling.py`, folders are found by `hub.py`, and `Parts` is in
`parts.py`. Nothing from a model folder is executed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from bothways.checkpoints.assembling import Assembled, Assembler
from bothways.checkpoints.files import find_weights
from bothways.checkpoints.hub import find_folder
from bothways.checkpoints.labels import default_labels, read_labels, read_problem_type
from bothways.checkpoints.parts import Parts
from bothways.checkpoints.report import LoadReport
from bothways.checkpoints.sentence import read_sentence
from bothways.checkpoints.settings import SETTINGS_NAME, read_settings
from bothways.errors import CheckpointError
from bothways.families.registry import find_family
from bothways.families.spec import FamilySpec
from bothways.files import read_json_object
from bothways.model.config import EncoderConfig
from bothways.tokenization.files import READERS
from bothways.tokenization.fitting import check_fits, odd_size
from bothways.tokenization.passport import check_passport
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer

__all__ = ["LoadReport", "Parts", "load_parts"]

logger = logging.getLogger(__name__)


def load_parts(
    source: str | Path,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    assemble: Callable[[EncoderConfig, FamilySpec, int], Assembled] | None = None,
) -> Parts:
    """Everything that a model folder holds, in evaluation mode.

    Args:
        source: a folder in the Hugging Face layout, or the name of a model on the hub.
        device: where the weights go; None for the CPU.
        dtype: of the weights; None for float32, also where the files hold half precision, which
            is exact and what training and the CPU need.
        assemble: makes encoder and head of a folder without weights, from the configuration, the
            family and the number of labels.

    Raises:
        CheckpointError: with every problem of the weights at once.
        UnsupportedModelError: for a family or an option that is not built here.
        TokenizerError: when the folder's tokenizer does not fit its model.

    Example:
        >>> load_parts("path/to/model").report.summary()  # doctest: +SKIP
        '103 loaded, 1 ignored'
    """
    folder = find_folder(source)
    raw = _read_config(folder)
    place = str(folder / "config.json")
    family = find_family(raw, place)
    settings = read_settings(folder)
    labels = _labels(raw, settings, folder)
    options: dict[str, Any] = {
        "device": torch.device(device or "cpu"),
        "dtype": dtype or torch.float32,
    }
    if assemble is None:
        assembler = Assembler(find_weights(folder), family, raw, place, options)
        made = assembler.assemble(str(source), len(labels), settings, folder)
    else:
        made = assemble(family.read_config(raw, place), family, len(labels))
    if made.num_labels and len(labels) not in (0, made.num_labels):
        raise CheckpointError(
            f"{folder}: the head has {made.num_labels} outputs, and there are {len(labels)} "
            f"labels: {list(labels)}"
        )
    sentence = read_sentence(folder)
    parts = Parts(
        encoder=made.encoder.eval(),
        family=family,
        report=made.report,
        head=None if made.head is None else made.head.eval(),
        architecture=made.architecture,
        labels=(labels or default_labels(made.num_labels)) if made.num_labels else (),
        problem_type=read_problem_type(raw, place),
        settings=settings,
        sentence=None if sentence is None else sentence.to(**options),
        raw=raw,
        folder=folder,
    )
    tokenizer, warnings = _tokenizer(folder, parts)
    report = dataclasses.replace(parts.report, warnings=(*parts.report.warnings, *warnings))
    for warning in report.warnings:
        logger.warning("%s: %s", source, warning)
    return dataclasses.replace(parts, tokenizer=tokenizer, report=report)


def _labels(raw: Mapping[str, Any], settings: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """The labels of config.json, which bothways.json must not contradict."""
    named = read_labels(raw, str(folder / "config.json"))
    stored = tuple(settings.get("labels", ()))
    if named and stored and named != stored:
        raise CheckpointError(
            f"{folder}: config.json names the labels {list(named)}, {SETTINGS_NAME} "
            f"{list(stored)}; every prediction would have the wrong name under one of them"
        )
    return stored or named


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if path.exists():
        return read_json_object(path)
    if (folder / "adapter_config.json").exists():
        raise CheckpointError(
            f"{folder} holds an adapter and not a model; merge it into its base model first"
        )
    found = sorted(entry.name for entry in folder.iterdir())[:8]
    raise CheckpointError(
        f"{folder} has no config.json, so it is not the folder of a model; it has: "
        f"{', '.join(found) or 'nothing'}"
    )


def _tokenizer(folder: Path, parts: Parts) -> tuple[Tokenizer | None, list[str]]:
    """The folder's tokenizer, checked against the model, and what is odd about it."""
    if not any(all((folder / name).is_file() for name in names) for names, _ in READERS):
        return None, ["the folder has no tokenizer, so the model reads ids only"]
    tokenizer = load_tokenizer(folder)
    embeddings = parts.config.embeddings
    # Where positions do not begin at the first row, they begin after the padding id.
    start = embeddings.position_start
    check_fits(
        tokenizer,
        vocab_rows=embeddings.vocab_size,
        pad_position_id=start - 1 if start else None,
        needs_mask=parts.masked_lm is not None,
    )
    if "passport" in parts.settings:
        check_passport(tokenizer, parts.settings["passport"])
    odd = odd_size(tokenizer, embeddings.vocab_size)
    return tokenizer, [*([odd] if odd else []), *_odd_ids(tokenizer, parts.raw)]


def _odd_ids(tokenizer: Tokenizer, raw: Mapping[str, Any]) -> list[str]:
    """Ids of the first and last piece in config.json that are not the tokenizer's."""
    vocabulary = tokenizer.vocabulary()
    odd = []
    for key, roles in (("bos_token_id", ("bos", "cls")), ("eos_token_id", ("eos", "sep"))):
        stated = raw.get(key)
        named = [tokenizer.special_tokens[r] for r in roles if r in tokenizer.special_tokens]
        ids = [vocabulary[content] for content in named if content in vocabulary]
        if stated is not None and ids and stated not in ids:
            odd.append(
                f"config.json says {key} {stated}, the tokenizer's is {ids[0]}; "
                "the tokenizer's counts"
            )
    return odd
