"""`bothways quantize`: layers in int8 for the CPU, as many as cost no more than is allowed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bothways.cli.inputs import ColumnSettings, file_options, headed, open_model, task_of, texts
from bothways.cli.output import Output
from bothways.config import CommonSettings
from bothways.errors import UsageError
from bothways.training.quantize_settings import QuantizeSettings

if TYPE_CHECKING:
    from bothways.inference.model import Model


@dataclass(frozen=True)
class Settings:
    """Quantize a model for the CPU, and measure what that costs and gains here.

    Attributes:
        model: folder or hub name.
        data: labelled file of the model's task; texts, where it has none.
        output: folder to write; unset: the int8 weights are put beside the float ones.
        head: of several heads, the one to judge.
    """

    model: str
    data: Path
    output: Path | None = None
    head: str | None = None
    quantize: QuantizeSettings = field(default_factory=QuantizeSettings)
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Read, quantize, judge, write."""
    from bothways.training.quantize import quantize

    common = settings.common
    if common.device not in (None, "cpu"):
        raise UsageError(f"--device is {common.device}; int8 is for the CPU")
    folder = settings.output or Path(settings.model)
    if settings.output is None and not folder.is_dir():
        raise UsageError(f"{settings.model} is no folder here; say where to write (--output)")
    exact = replace(common, device="cpu", precision="float32")
    model = headed(open_model(settings.model, exact), settings.head)
    done = quantize(
        model,
        _examples(model, settings),
        folder,
        settings.quantize,
        data_name=settings.data.name,
        seed=common.seed,
        max_length=common.max_length,
        policy=common.policy,
        overlap=common.overlap,
        batch_tokens=common.batch_tokens,
    )
    running = f"{done.groups - len(done.in_float)} of {done.groups} groups of layers"
    lines = [
        done.sentence,
        f"{running} in int8, weights of {done.weight_bits} bits, {done.megabytes:.1f} MB",
        *(f"  back in float: {name}" for name in done.in_float),
        *done.doubts,
        f"model: {folder}",
    ]
    return Output(
        "\n".join(lines), {"model": settings.model, "output": str(folder), **done.as_dict()}
    )


def _examples(model: Model, settings: Settings) -> list[Any]:
    """Labelled examples, or texts."""
    if settings.quantize.by_cosine or (model.task is None and model.head is None):
        return list(texts(settings.data, settings.columns, settings.common))
    model.task = task = task_of(model, settings.columns)
    return task.read(file_options(settings.common, model).rows(settings.data))
