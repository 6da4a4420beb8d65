"""`bothways pretrain`: raw text in, an encoder out."""

from __future__ import annotations

from bothways.cli.output import Output
from bothways.cli.training import follow
from bothways.errors import RunStopped
from bothways.training.pretrain_settings import PretrainSettings

Settings = PretrainSettings


def run(settings: PretrainSettings) -> Output:
    """Train with a progress bar, and say what came of it."""
    from bothways.training.pretrain import PretrainResult, pretrain

    try:
        with follow() as on_event:
            result: PretrainResult = pretrain(settings, on_event=on_event)
    except RunStopped as stopped:
        if not settings.preempt_ok:
            raise
        return Output(f"stopped: {stopped}", {"model": str(settings.output), "stopped": True})
    told = [f"{result.steps:,} steps, {result.tokens:,} tokens, {result.seconds:,.0f} s"]
    for name, scores in (("before", result.before), ("held-out text", result.metrics)):
        if scores:
            listed = "  ".join(f"{metric} {value:.4f}" for metric, value in scores.items())
            told.append(f"{name:<14}{listed}")
    if result.unigram_loss is not None:
        guessed = "masked_lm" if "masked_lm" in result.metrics else "loss"
        told.append(f"guessing by frequency alone: {guessed} {result.unigram_loss:.4f}")
    told.append(f"model: {result.folder}")
    return Output("\n".join(told), result.as_dict())
