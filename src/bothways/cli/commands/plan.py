"""`bothways plan`: what a run will take, on paper, and what a model takes, measured here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from bothways.cli.inputs import ColumnSettings, open_model, texts
from bothways.cli.output import Output
from bothways.config import CommonSettings
from bothways.errors import UsageError
from bothways.training.plan import EXAMPLES, Effort, Plan, PlanSettings, plan_run
from bothways.training.plan_use import UsePlan, plan_use

# Texts of a file that are held to draw the sample from.
MOST_HELD = 100_000


@dataclass(frozen=True)
class Settings(PlanSettings):
    """What a run will take: pretraining on paper; using or fine-tuning a model, measured here.

    Pretraining takes --preset and --tokens; a model --model and --data.

    Attributes:
        model: folder or hub name, to measure.
        data: file with texts as long as those that it will read.
        max_length: longest text in tokens; unset: as the model says.
        threads: of the CPU that measures.
    """

    model: str | None = None
    data: Path | None = None
    max_length: int | None = None
    threads: int | None = None
    columns: ColumnSettings = field(default_factory=ColumnSettings)


def run(settings: Settings) -> Output:
    """Compute or measure, and say with which assumptions."""
    if settings.model is None and settings.data is None:
        plan = plan_run(settings)
        return Output("\n".join(_lines(settings, plan)), plan.as_dict())
    if settings.model is None or settings.data is None:
        missing, given = ("model", "data") if settings.model is None else ("data", "model")
        raise UsageError(f"--{given} without --{missing}; what a model takes depends on both")
    if settings.preset is not None or settings.tokens is not None:
        raise UsageError(
            "--preset and --tokens plan a pretraining, --model and --data the use of "
            "a model; give one of both"
        )
    return _use(settings, settings.model, settings.data)


def _use(settings: Settings, source: str, data: Path) -> Output:
    from bothways.training.runtime import Runtime

    common = CommonSettings(max_length=settings.max_length, threads=settings.threads)
    model = open_model(source, common)
    stream = texts(data, settings.columns, common)
    held = list(islice(stream, MOST_HELD))
    if settings.examples is None:
        settings = dataclasses.replace(settings, examples=len(held) + sum(1 for _ in stream))
    plan = plan_use(
        model,
        held,
        settings,
        policy=model.policy(common.max_length),
        runtime=Runtime(),
    )
    facts = {"model": source, "data": str(data), **plan.as_dict()}
    return Output("\n".join(_use_lines(settings, source, plan)), facts)


def _use_lines(settings: Settings, source: str, plan: UsePlan) -> Iterator[str]:
    yield (
        f"{source}: {plan.tokens_per_text:,.1f} tokens a text, "
        f"{plan.flops_per_text / 1e9:,.2f} billion FLOPs to read it"
    )
    yield (
        f"measured on {plan.sample:,} texts with {plan.machine}: "
        f"{plan.peak_share['inference']:.0%} of that in reading, "
        f"{plan.peak_share['finetune']:.0%} in fine-tuning"
    )
    kinds = {
        "inference": f"{plan.texts:,} texts",
        "finetune": f"{plan.texts:,} texts, {settings.epochs} epochs",
    }
    for rate in plan.rates:
        cost = "" if rate.cost is None else f", ${rate.cost:,.2f}"
        yield (
            f"{rate.work:9} {rate.where:8} {rate.texts_per_hour:,.3g} texts an hour "
            f"({rate.low:,.3g} to {rate.high:,.3g}); {kinds[rate.work]}: {_time(rate.hours)}{cost}"
        )
    yield "assumed"
    yield from (f"  {assumption}" for assumption in plan.assumptions)


def _lines(settings: PlanSettings, plan: Plan) -> list[str]:
    sharded = "" if plan.fits else " only with --sharded, spread over the devices"
    fits = "fits" + sharded if plan.fits_sharded else "does not fit; make the batch smaller"
    lines = [
        (
            f"{settings.preset}: {plan.parameters / 1e6:,.1f} million parameters, "
            f"{plan.flops_per_token / 1e6:,.0f} million FLOPs a token"
        ),
        (
            f"memory   {plan.state_bytes / 1e9:,.1f} GB of weights, gradients and moments, "
            f"{plan.activation_bytes / 1e9:,.1f} GB of activations a device: {fits}"
        ),
        f"pretrain {_effort(plan.run)}",
    ]
    if plan.finetune is not None:
        times = plan.run.flops / plan.finetune.flops
        lines += [
            (
                f"finetune {_effort(plan.finetune)} ({settings.examples or EXAMPLES:,} texts, "
                f"{settings.epochs} epochs)"
            ),
            (
                f"Pretraining takes {times:,.0f} times the work of fine-tuning a published "
                "encoder: where there is one for the language and the domain, take that."
            ),
        ]
    return [*lines, "assumed", *(f"  {assumption}" for assumption in plan.assumptions)]


def _effort(effort: Effort) -> str:
    span = ""
    if effort.hours_high > effort.hours_low:
        span = f" ({_time(effort.hours_low)} to {_time(effort.hours_high)})"
    return (
        f"{effort.tokens:,.3g} tokens, {effort.flops:.2e} FLOPs: {_time(effort.hours)}{span}, "
        f"${effort.cost:,.2f}"
    )


def _time(hours: float) -> str:
    if hours >= 1.0:
        return f"{hours:,.1f} h"
    return f"{hours * 60:.1f} min" if hours * 60 >= 1.0 else f"{hours * 3600:.1f} s"
