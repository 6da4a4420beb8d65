"""`bothways finetune`: labelled data in, a judged model folder out."""

from __future__ import annotations

from bothways.cli.output import Output
from bothways.cli.training import follow
from bothways.training.settings import FinetuneSettings

Settings = FinetuneSettings


def run(settings: FinetuneSettings) -> Output:
    """Train with a progress bar, and say what came of it."""
    from bothways.report.text import render_text
    from bothways.training.finetune import finetune

    with follow() as on_event:
        result = finetune(settings, on_event=on_event)
    return Output(
        f"{render_text(result.report)}\n\nmodel and report: {result.folder}", result.as_dict()
    )
