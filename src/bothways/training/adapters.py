"""LoRA: low-rank changes of an encoder's projections, learned by peft in place of the encoder.

Put into the weights when a run is over, so that what is judged and saved is an ordinary model;
and, where asked for, into a folder of their own by the names of transformers, which peft reads over
the base model. Only this file imports peft.

Source: Hu et al. 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bothways.checkpoints.files import Staged, write_tensors
from bothways.checkpoints.parts import Parts, published_form
from bothways.errors import MissingExtraError, UsageError, nearest
from bothways.model.encoder import Encoder
from bothways.training.tuning_table import TuningSettings

FOLDER = "adapter"
_NAME = "default"


@dataclass(frozen=True)
class LowRank:
    """The change of one projection: up down times the scale.

    Attributes:
        down: (rank, in).
        up: (out, rank).
    """

    down: Tensor
    up: Tensor


def adapted_projections(encoder: nn.Module, targets: Sequence[str]) -> list[str]:
    """Names of the linear layers of an encoder's blocks that LoRA changes.

    Args:
        encoder: its layers are searched.
        targets: last parts of their names.

    Raises:
        UsageError: for a target that no layer has, with the nearest one.
    """
    linears = {
        name: name.rpartition(".")[2]
        for name, module in encoder.named_modules()
        if isinstance(module, nn.Linear) and name.startswith("layers.")
    }
    known = sorted(set(linears.values()))
    wrong = [target for target in targets if target not in known]
    if wrong:
        hints = "; ".join(f"{target!r}: {nearest(target, known)}" for target in wrong)
        raise UsageError(f"--lora-targets: no projection of the layers is called {hints}")
    return [name for name, last in linears.items() if last in targets]


def check_targets(encoder: Encoder, tuning: TuningSettings) -> None:
    """Refuse what `add_adapters` would refuse, before anything else is done.

    Raises:
        UsageError: as `adapted_projections`.
        MissingExtraError: when peft is not installed.
    """
    if tuning.lora_rank:
        adapted_projections(encoder, tuning.lora_targets)
        _peft()


def add_adapters(encoder: Encoder, tuning: TuningSettings) -> None:
    """Freeze an encoder and put low-rank changes beside its projections, random from torch's seed.

    Args:
        encoder: changed in place.
        tuning: rank, scale and targets.

    Raises:
        UsageError: as `adapted_projections`.
        MissingExtraError: when peft is not installed.
    """
    names = adapted_projections(encoder, tuning.lora_targets)
    peft = _peft()
    config = peft.LoraConfig(
        r=tuning.lora_rank, lora_alpha=_alpha(tuning), target_modules=names, lora_dropout=0.0
    )
    training = encoder.training
    encoder.requires_grad_(False)
    peft.inject_adapter_in_model(config, encoder, adapter_name=_NAME)
    encoder.train(training)


def merge_adapters(encoder: nn.Module) -> dict[str, LowRank]:
    """Put the changes into the weights, and the plain layers back in their places.

    Args:
        encoder: changed in place.

    Returns:
        The changes by the names of the layers.
    """
    layer = _peft().tuners.lora.Linear
    changes = {}
    for name, module in list(encoder.named_modules()):
        if not isinstance(module, layer):
            continue
        plain = module.get_base_layer()
        with torch.no_grad():  # counted by torch, so that copies for inference are made again
            plain.weight.add_(module.get_delta_weight(_NAME))
        changes[name] = LowRank(
            module.lora_A[_NAME].weight.detach().clone(),
            module.lora_B[_NAME].weight.detach().clone(),
        )
        owner, _, last = name.rpartition(".")
        setattr(encoder.get_submodule(owner), last, plain)
    return changes


def check_adapter(parts: Parts, tuning: TuningSettings) -> None:
    """Refuse what peft could not read over transformers' class.

    Raises:
        UsageError: when the head has no class there, or a projection is a part of a larger one.
    """
    if tuning.lora_save != "adapter":
        return
    if parts.head is not None and parts.published_head() is None:
        raise UsageError(
            "--lora-save adapter: transformers has no class with this head; use --pooling auto, "
            "or --lora-save merged"
        )
    _their_names(parts, adapted_projections(parts.encoder, tuning.lora_targets))


def save_adapter(
    parts: Parts,
    changes: Mapping[str, LowRank],
    folder: Path,
    *,
    base_model: str,
    tuning: TuningSettings,
) -> None:
    """Write adapter_config.json and adapter_model.safetensors, head included.

    Args:
        parts: the trained model.
        changes: of its projections, by our names.
        folder: of the model; the adapter gets one inside.
        base_model: what it was trained from.
        tuning: rank, scale and targets.
    """
    parts = published_form(parts)
    names = _their_names(parts, list(changes))
    tensors = {}
    for ours, change in changes.items():
        tensors[f"{names[ours]}.lora_A.weight"] = change.down
        tensors[f"{names[ours]}.lora_B.weight"] = change.up
    whole = _whole_modules(parts)
    config = {
        "base_model_name_or_path": base_model,
        "bias": "none",
        "inference_mode": True,
        "lora_alpha": _alpha(tuning),
        "lora_dropout": 0.0,
        "modules_to_save": sorted(whole) or None,
        "peft_type": "LORA",
        "r": tuning.lora_rank,
        "target_modules": sorted(names.values()),
        "task_type": "SEQ_CLS" if parts.problem_type is not None else None,
    }
    for learned in whole.values():
        tensors |= learned
    found = {f"base_model.model.{name}": value.cpu() for name, value in tensors.items()}
    with Staged(folder / FOLDER) as files:
        files.json("adapter_config.json", config)
        with files.stream("adapter_model.safetensors") as file:
            write_tensors(file, found)


def _whole_modules(parts: Parts) -> dict[str, dict[str, Tensor]]:
    """Modules that learned as they are, the head and a pooler, with their tensors by name."""
    name = parts.published_head()
    if name is None or parts.head is None:
        return {}
    spec = parts.family.head(name, parts.raw)
    assert spec is not None, "a published head has a description"
    slots = spec.names.bind(parts.head, parts.config)
    state = parts.head.state_dict()
    found: dict[str, dict[str, Tensor]] = {}
    for slot in slots:
        found.setdefault(slot.theirs.partition(".")[0], {})[slot.theirs] = slot.join(state)
    if parts.encoder.pooler is not None:
        whole, prefix = parts.encoder.state_dict(), parts.family.prefix
        for slot in parts.family.names.bind(parts.encoder, parts.config):
            if slot.ours[0].startswith("pooler."):
                module = prefix + slot.theirs.partition(".")[0]
                found.setdefault(module, {})[prefix + slot.theirs] = slot.join(whole)
    return found


def _their_names(parts: Parts, ours: Sequence[str]) -> dict[str, str]:
    """What transformers calls layers of the encoder, prefix included.

    Raises:
        UsageError: for layers that are one with others there.
    """
    prefix = parts.family.prefix if parts.head is not None else ""
    slots = parts.family.names.bind(parts.encoder, parts.config)
    alone = {slot.ours[0]: slot.theirs for slot in slots if len(slot.ours) == 1}
    fused = [name for name in ours if f"{name}.weight" not in alone]
    if fused:
        raise UsageError(
            f"--lora-save adapter: in {parts.family.title} {fused[0]} is one matrix with others; "
            "use --lora-save merged, or other --lora-targets"
        )
    return {name: prefix + alone[f"{name}.weight"].removesuffix(".weight") for name in ours}


def _alpha(tuning: TuningSettings) -> float:
    return 2.0 * tuning.lora_rank if tuning.lora_alpha is None else tuning.lora_alpha


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("peft", "lora") from error
    return peft
