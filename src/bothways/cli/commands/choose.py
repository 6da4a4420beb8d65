"""`bothways choose`: candidates in, the smallest that is good enough out."""

from __future__ import annotations

from bothways.cli.output import Output
from bothways.cli.training import follow
from bothways.ladder.settings import ChooseSettings

Settings = ChooseSettings


def run(settings: ChooseSettings) -> Output:
    """Choose with a progress bar, and say what came of it."""
    from bothways.ladder.choose import choose
    from bothways.report.text import render_text

    with follow() as on_event:
        result = choose(settings, on_event=on_event)
    return Output(
        f"{render_text(result.report)}\n\nmodel: {result.model}\nreport: {result.folder}",
        result.as_dict(),
    )
