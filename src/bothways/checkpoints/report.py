"""`LoadReport`: what became of every tensor of the files and every parameter of the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LoadReport:
    """An account of one load, for programs and people.

    Attributes:
        source: what was loaded, as the caller named it.
        family: model_type of the family.
        architecture: class that config.json names; of the bare encoder where it names none.
        loaded: tensors of the files that are in the model.
        tied: parameters that are another one, and which.
        untied: parameters that the family ties and this file does not.
        ignored: tensors of the files that are left out on purpose, and why.
        aliases: tensors with an older name, and today's.
        missing: parameters that the files lack, and what was done about it.
        unexpected: tensors of the files that nothing here reads.
        mismatched: tensors with another shape than config.json asks for, and both shapes.
        untrained: parts with new random weights: "head", "pooler".
        warnings: whatever else a careful reader should know.
        stored_dtypes: number formats in the files.
    """

    source: str
    family: str
    architecture: str
    loaded: tuple[str, ...] = ()
    tied: Mapping[str, str] = field(default_factory=dict)
    untied: tuple[str, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    unexpected: tuple[str, ...] = ()
    mismatched: Mapping[str, str] = field(default_factory=dict)
    untrained: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    stored_dtypes: tuple[str, ...] = ()

    @property
    def head_trained(self) -> bool:
        """Whether nothing between text and logits is random."""
        return not self.untrained

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in dataclasses.asdict(self).items()
        }

    def summary(self) -> str:
        """One line: how many tensors went where."""
        counts = {
            "loaded": self.loaded,
            "tied": self.tied,
            "untied": self.untied,
            "under an older name": self.aliases,
            "ignored": self.ignored,
            "missing": self.missing,
            "unexpected": self.unexpected,
        }
        return ", ".join(f"{len(value)} {name}" for name, value in counts.items() if value)


def listing(names: Mapping[str, str] | tuple[str, ...], limit: int = 6) -> str:
    """Some of many names in one line, with how many were left out."""
    shown = (
        [f"{name}: {text}" for name, text in names.items()]
        if isinstance(names, Mapping)
        else list(names)
    )
    more = f", and {len(shown) - limit} more" * (len(shown) > limit)
    return ", ".join(shown[:limit]) + more
