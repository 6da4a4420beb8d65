"""`bothways distill`: a model in, a smaller one out that does the same."""

from __future__ import annotations

from bothways.cli.output import Output
from bothways.cli.training import follow
from bothways.training.distill_settings import DistillSettings

Settings = DistillSettings


def run(settings: DistillSettings) -> Output:
    """Train with a progress bar, and say what came of it."""
    from bothways.report.text import render_text
    from bothways.training.distill import distill

    with follow() as on_event:
        result = distill(settings, on_event=on_event)
    table = result.comparison.table()
    told = "\n".join(
        f"{name!s:<26}" + "".join(f"{'' if cell is None else cell!s:>24}" for cell in cells)
        for name, *cells in (table.columns, *table.rows)
    )
    if result.report is not None:
        told = render_text(result.report)
    return Output(f"{told}\n\nstudent: {result.folder}", result.as_dict())
