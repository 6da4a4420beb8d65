"""A report as files: report.json for programs, report.md and report.html for people.

They are written together, each whole or not at all. What they say is made in `text.py` and
`page.py`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from bothways.evaluation.result import Report
from bothways.files import Staged, write_text
from bothways.report.page import render_html
from bothways.report.text import render_markdown


def write_report(report: Report, folder: str | Path) -> dict[str, Path]:
    """Write report.json, report.md and report.html.

    Args:
        report: what was found.
        folder: made when absent; older reports in it are replaced.

    Returns:
        The files by their kind: json, md, html.
    """
    contents = {
        "json": report_json(report),
        "md": render_markdown(report),
        "html": render_html(report),
    }
    with Staged(folder) as files:
        for kind, content in contents.items():
            files.text(f"report.{kind}", content)
    return {kind: Path(folder) / f"report.{kind}" for kind in contents}


def write_page(report: Report, path: str | Path) -> None:
    """Write the HTML page alone, where `--report` says."""
    write_text(path, render_html(report))


def report_json(report: Report) -> str:
    """The content of report.json; a number that is none becomes null."""
    return json.dumps(_finite(report.as_dict()), ensure_ascii=False, allow_nan=False, indent=1)


def _finite(value: Any) -> Any:
    """The same value with None for nan and infinities, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
