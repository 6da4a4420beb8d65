"""`bothways plan`: what a pretraining run will take, on paper."""

from __future__ import annotations

from bothways.cli.output import Output
from bothways.training.plan import Effort, Plan, PlanSettings, plan_run

Settings = PlanSettings


def run(settings: PlanSettings) -> Output:
    """Compute, and say with which assumptions."""
    plan = plan_run(settings)
    return Output("\n".join(_lines(settings, plan)), plan.as_dict())


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
                f"finetune {_effort(plan.finetune)} ({settings.examples:,} texts, "
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
