"""int8.safetensors: the weights of a folder's layers that run in int8, beside the float ones.

Each layer has NAME.codes (out, in) int8 and NAME.steps (out,) float32, by our names in the
encoder. The codes are compared with the float weights when they are read, so that weights which
were replaced do not run in an older form. How they were judged is under "int8" in bothways.json.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from bothways.checkpoints.files import INT8_NAME, Staged, WeightFiles, write_tensors
from bothways.checkpoints.parts import Parts
from bothways.errors import CheckpointError
from bothways.inference.int8 import Int8Weight, instruction_set, largest_exact
from bothways.inference.int8_layers import attach, groups, in_float, layers_of, quantised
from bothways.model.encoder import Encoder

logger = logging.getLogger(__name__)

_PARTS = ("codes", "steps")
# Rows of each layer whose codes are compared with the float weights beside them.
_COMPARED = 4
# Half a step is the most that rounding moves a weight; a little more for rounding the step.
_HALF_A_STEP = 0.51


def use_stored_int8(parts: Parts, verify: Callable[[], None]) -> None:
    """Let layers run in int8 for which the folder has such weights, and say so.

    Args:
        parts: as loaded, in float32.
        verify: compares the float weights with the folder's passport; asked first.

    Raises:
        CheckpointError: when the file is damaged or of other float weights.
    """
    if parts.folder is None or not (parts.folder / INT8_NAME).is_file():
        return
    if parts.encoder.device.type != "cpu":
        logger.info("%s: int8 is for the CPU; the float weights run", parts.folder)
        return
    weights = read_int8(parts.folder / INT8_NAME, parts.encoder)
    largest, exact = max(each.largest for each in weights.values()), largest_exact()
    if largest > exact:
        logger.warning(
            "%s: its int8 weights are up to %d, and with them this processor (%s) would give wrong "
            "sums (exact up to %d); the float weights run. Quantize the model on this machine, or "
            "with --weight-bits 7 on the other",
            *(parts.folder, largest, instruction_set(), exact),
        )
        return
    verify()
    layers = layers_of(parts.encoder)
    for name, weight in weights.items():
        attach(layers[name], weight)
    logger.info("%s: %s", parts.folder, int8_sentence(parts.encoder, parts.settings))


def int8_sentence(encoder: Encoder, settings: Mapping[str, object]) -> str:
    """How much of an encoder runs in int8, and what that was measured to cost; "" for nothing."""
    running, every = quantised(encoder), groups(encoder)
    if not running:
        return ""
    count = sum(group.name in running for group in every)
    facts = settings.get("int8")
    measured = f"; {facts['sentence']}" if isinstance(facts, dict) and "sentence" in facts else ""
    return f"{count} of {len(every)} groups of layers run in int8{measured}"


def write_int8(files: Staged, tensors: Mapping[str, Tensor]) -> None:
    """Stage the file."""
    with files.stream(INT8_NAME) as file:
        write_tensors(file, tensors)


def int8_tensors(encoder: Encoder) -> dict[str, Tensor]:
    """What the file holds."""
    return {
        f"{name}.{part}": getattr(weight, part)
        for name, weight in quantised(encoder).items()
        for part in _PARTS
    }


@contextmanager
def int8_to_save(encoder: Encoder) -> Iterator[Callable[[Staged], None] | None]:
    """What stages the file of an encoder, whose layers are in float meanwhile; None for none."""
    tensors = int8_tensors(encoder)
    with in_float(encoder):
        yield (lambda files: write_int8(files, tensors)) if tensors else None


def read_int8(path: Path, encoder: Encoder) -> dict[str, Int8Weight]:
    """The weights of a file, by layer.

    Raises:
        CheckpointError: when the file is damaged or of other float weights than the encoder's.
    """
    files, layers = WeightFiles([path]), layers_of(encoder)
    names = {name.rpartition(".")[0] for name in files.shapes}
    wanted = {f"{name}.{part}" for name in names for part in _PARTS}
    odd = (wanted ^ set(files.shapes)) | (names - set(layers))
    if odd or not names:
        raise CheckpointError(
            f"{path} does not fit the model beside it: {', '.join(sorted(odd)[:4]) or 'empty'}; "
            "quantize the model again, or delete the file"
        )
    found = {name: _read(files, name) for name in sorted(names)}
    for name, weight in found.items():
        if not _fits(weight, layers[name].weight):
            raise CheckpointError(
                f"{path}: {name} is not what the float weights beside it round to, so they were "
                "replaced since; quantize the model again, or delete the file"
            )
    return found


def _read(files: WeightFiles, name: str) -> Int8Weight:
    # Copies, since the file may be replaced while it is in use.
    codes, steps = (files.tensor(f"{name}.{part}").clone() for part in _PARTS)
    return Int8Weight(codes, steps)


def _fits(weight: Int8Weight, exact: Tensor) -> bool:
    """Whether a few rows are within half a step of the float weights."""
    codes, steps = weight.codes, weight.steps
    if codes.dtype != torch.int8 or steps.dtype != torch.float32:
        return False
    if codes.shape != exact.shape or steps.shape != exact.shape[:1]:
        return False
    some = torch.linspace(0, len(steps) - 1, _COMPARED).long()
    difference = (codes[some] * steps[some, None] - exact.detach()[some].float()).abs()
    return bool((difference <= _HALF_A_STEP * steps[some, None]).all())
