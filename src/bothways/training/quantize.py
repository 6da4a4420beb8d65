"""Quantizing with a conscience: as many layers in int8 as cost no more than was allowed.

Here: what may be asked, the record of it, and the folder. How a model is judged is in
`int8_trial.py`, the search in `inference/quantize.py`, the product in `inference/int8.py`.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bothways.checkpoints.files import INT8_NAME, Staged
from bothways.checkpoints.settings import SETTINGS_NAME, read_settings, settings_content
from bothways.errors import CheckpointError, DataError, TaskError, UsageError, counted
from bothways.evaluation.intervals import of_perfect_share
from bothways.evaluation.result import Metric
from bothways.files import names_in
from bothways.inference.int8 import instruction_set
from bothways.inference.int8_files import int8_tensors, write_int8
from bothways.inference.model import Model
from bothways.inference.quantize import search, weight_bits
from bothways.training.comparison import times_faster
from bothways.training.int8_trial import COSINE, Trial
from bothways.training.quantize_settings import QuantizeSettings

CARD_TITLE = "## Int8"
CARD_NAME = "README.md"


@dataclass(frozen=True)
class Quantized:
    """What became of a model in int8, measured on this machine.

    Attributes:
        metric: the task's main metric, or cosine: of vectors to the float ones.
        exact, int8: its value in float and in int8.
        drop: in points of 100, with the interval that decided; negative where int8 is better.
        max_drop: that was allowed.
        examples: that it rests on.
        data: where they came from.
        weight_bits: 8, or 7 where the processor would saturate.
        groups: of layers.
        in_float: those that went back to float, worst first.
        times_faster: time in float by that in int8, of the network alone.
        megabytes: of the codes.
        instruction_set: of this processor, for products of integers.
        threads: it was timed on.
    """

    metric: str
    exact: Metric
    int8: Metric
    drop: Metric
    max_drop: float
    examples: int
    data: str
    weight_bits: int
    groups: int
    in_float: tuple[str, ...]
    times_faster: float
    megabytes: float
    instruction_set: str
    threads: int

    @property
    def sentence(self) -> str:
        """What it costs and gains.

        Example:
            >>> print(result.sentence)  # doctest: +SKIP
            accuracy 0.831 in float, 0.830 in int8: a drop of 0.09 points [-0.19, 0.38] on
            1,066 examples of test.csv; 1.90 times faster (AVX2 without VNNI, 2 threads)
        """
        ends = "" if self.drop.low is None else f" [{self.drop.low:.2f}, {self.drop.high:.2f}]"
        return (
            f"{self.metric} {self.exact.value:.3f} in float, {self.int8.value:.3f} in int8: "
            f"a drop of {self.drop.value:.2f} points{ends} on "
            f"{counted(self.examples, 'example')} of {self.data}; "
            f"{self.times_faster:.2f} times faster ({self.instruction_set}, "
            f"{counted(self.threads, 'thread')})"
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """What a careful reader should know besides."""
        found = []
        if self.drop.low is None and self.metric != COSINE:
            share = 1 - (of_perfect_share(Metric(1.0), self.examples).low or 0.0)
            found.append(
                f"No resample differs. That so few differ by chance is not excluded: of other "
                f"texts up to {100 * share:.2f} in 100 may get another result "
                f"({counted(self.examples, 'example')})."
            )
        if self.times_faster < 1:
            found.append("Int8 is slower than float on this machine: there is no reason to use it.")
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """The object that `quantize --json` prints, and "int8" in bothways.json."""
        known = {**dataclasses.asdict(self), "in_float": list(self.in_float)}
        return {**known, "sentence": self.sentence, "doubts": list(self.doubts)}


def quantize(
    model: Model,
    examples: Sequence[Any],
    folder: str | Path,
    settings: QuantizeSettings | None = None,
    *,
    data_name: str = "data",
    seed: int = 0,
    **options: Any,
) -> Quantized:
    """Put a model's layers into int8, less those that cost too much, and write them to its folder.

    Args:
        model: from a folder, in float32 on the CPU.
        examples: labelled examples of its task; texts or pairs where it has none or by cosine.
        folder: where the model is from, or a new one: the model is copied then.
        settings: what int8 may cost; None for the defaults.
        data_name: for the record.
        seed: of the resampling.
        options: for `model.predict`: max_length, policy, overlap, batch_tokens.

    Raises:
        UsageError: when the model is not in float32 on the CPU, or for impossible settings.
        DataError: when there are no examples.
        TaskError: when this machine cannot, or not one group of layers may be in int8.
        CheckpointError: when the folder is taken or cannot be written.

    Example:
        >>> model = bothways.load("my-model", dtype=torch.float32)  # doctest: +SKIP
        >>> quantize(model, examples, "my-model").times_faster  # doctest: +SKIP
        1.9
    """
    settings, folder = settings or QuantizeSettings(), Path(folder)
    settings.check()
    if not examples:
        raise DataError("there are no examples to judge by; expected at least one")
    source = _source(model)
    _check_room(source, folder, overwrite=settings.overwrite)
    bits, max_drop = weight_bits(settings.weight_bits), settings.max_drop
    model.verify()
    trial = Trial(model, examples, settings, options, seed=seed)
    batches = trial.batches()
    found = search(model.parts, trial, batches, bits=bits)
    judged = found.judgement
    if len(found.in_float) == found.groups:
        raise TaskError(
            f"no layer can be in int8: with a single group of them {judged.metric} may drop by "
            f"{judged.at_most:.2f} points, judged by {counted(len(examples), 'example')}, and "
            f"{max_drop:g} are allowed. Give more examples, which narrow the interval, or allow "
            "more (--max-drop)"
        )
    tensors = int8_tensors(found.parts.encoder)
    result = Quantized(
        **vars(judged),
        max_drop=max_drop,
        examples=len(examples),
        data=data_name,
        weight_bits=bits,
        groups=found.groups,
        in_float=found.in_float,
        times_faster=times_faster(model.parts, found.parts, batches),
        megabytes=sum(each.numel() * each.element_size() for each in tensors.values()) / 1e6,
        instruction_set=instruction_set(),
        threads=torch.get_num_threads(),
    )
    if folder.resolve() != source.resolve():
        shutil.copytree(
            source, folder, ignore=shutil.ignore_patterns("checkpoints"), dirs_exist_ok=True
        )
    stored = {**read_settings(source), "int8": result.as_dict()}
    with Staged(folder) as files:
        write_int8(files, tensors)
        files.json(SETTINGS_NAME, settings_content(stored))
        files.text(CARD_NAME, _card(folder / CARD_NAME, result))
    return result


def _source(model: Model) -> Path:
    """The folder of a model that can be quantized.

    Raises:
        UsageError: when there is none, or it does not run in float32 on the CPU.
    """
    parameter = next(model.encoder.parameters(), None)
    if parameter is None:
        raise UsageError("an exported model has no weights to quantize; take the model itself")
    if parameter.dtype != torch.float32 or not parameter.is_cpu:
        raise UsageError(
            f"the model is in {parameter.dtype} on {parameter.device}; int8 is for the CPU, and "
            "made from float32: load it so"
        )
    if model.parts.folder is None:
        raise UsageError("the model comes from no folder; save it first")
    return model.parts.folder


def _check_room(source: Path, folder: Path, *, overwrite: bool) -> None:
    """Refuse to replace anything unasked."""
    taken = names_in(folder)
    if overwrite or not taken:
        return
    if folder.resolve() != source.resolve():
        raise CheckpointError(f"{folder} is not empty; choose another folder, or --overwrite")
    if (folder / INT8_NAME).exists():
        raise CheckpointError(f"{folder} has {INT8_NAME} already; --overwrite replaces it")


def _card(path: Path, result: Quantized) -> str:
    """The model card with what is known about int8, in the place of an older section of it."""
    running = result.groups - len(result.in_float)
    bits, allowed = result.weight_bits, f"{result.max_drop:g}"
    lines = [
        f"{result.sentence[0].upper()}{result.sentence[1:]}.",
        f"{running} of {result.groups} groups of layers run in int8, weights of {bits} bits.",
        f"At most {allowed} points were allowed.",
        *(("Back in float: " + ", ".join(result.in_float) + ".",) if result.in_float else ()),
        *result.doubts,
    ]
    old = path.read_text("utf-8") if path.exists() else f"# {path.parent.resolve().name}\n"
    kept = re.sub(rf"^{CARD_TITLE}\n.*?(?=^## |\Z)", "", old, flags=re.MULTILINE | re.DOTALL)
    return f"{kept.rstrip()}\n\n{CARD_TITLE}\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"
