"""`bothways families`: which families there are, what each changes, when to prefer it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from bothways.cli.output import Output
from bothways.errors import UsageError, nearest


@dataclass(frozen=True)
class Settings:
    """List the families, or show one with its forward pass.

    Attributes:
        name: a model_type, to see that family whole.
        write: write the pages of all families into this folder.
    """

    name: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    write: Path | None = None


def run(settings: Settings) -> Output:
    """List, show or write."""
    from bothways.families.pages import all_pages, family_page, family_rows
    from bothways.files import write_text

    rows = family_rows()
    if settings.write is not None:
        pages = all_pages()
        for name, content in pages.items():
            write_text(settings.write / name, content)
        return Output(f"{settings.write}: {len(pages)} pages", {"pages": sorted(pages)})
    if settings.name:
        known = [row["model_type"] for row in rows]
        wrong = [name for name in settings.name if name not in known]
        if wrong:
            raise UsageError(f"there is no family {wrong[0]!r}; {nearest(wrong[0], known)}")
        pages = {name: family_page(name) for name in settings.name}
        return Output("\n".join(pages.values()), {"pages": pages})
    lines = []
    for row in rows:
        lines.append(f"{row['family']}  ({row['model_type']}, such as {row['checkpoint']})")
        lines += textwrap.wrap(row["description"], 96, initial_indent="  ", subsequent_indent="  ")
        lines += textwrap.wrap(
            f"against BERT: {row['changes']}", 96, initial_indent="  ", subsequent_indent="  "
        )
    return Output("\n".join(lines), {"families": rows})
