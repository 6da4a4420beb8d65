"""`bothways fill`: guess the words behind masks."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from bothways.cli.inputs import open_model, warn_of_loss
from bothways.cli.output import Output
from bothways.config import CommonSettings
from bothways.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """Guess the words behind masks.

    Attributes:
        texts: one or more texts, each with at least one mask token such as [MASK].
        model: folder or hub name.
        top: candidates a mask.
    """

    model: str
    texts: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    top: int = 5
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Fill."""
    if not settings.texts:
        raise UsageError("give at least one text with a mask token, in quotes")
    model = open_model(settings.model, settings.common)
    common = settings.common
    filled = model.fill(
        settings.texts,
        top=settings.top,
        max_length=common.max_length,
        policy=common.policy,
        batch_tokens=common.batch_tokens,
    )
    warn_of_loss(filled.ledger)
    lines = []
    for text, masks in zip(settings.texts, filled, strict=True):
        lines.append(text)
        for number, candidates in enumerate(masks, start=1):
            lines.append(f"  mask {number}")
            lines += [f"    {each.probability:.3f}  {each.token}" for each in candidates]
    data = [
        {"text": text, "masks": [[dataclasses.asdict(each) for each in mask] for mask in masks]}
        for text, masks in zip(settings.texts, filled, strict=True)
    ]
    return Output(
        "\n".join(lines),
        {"model": settings.model, "texts": data, "ledger": filled.ledger.as_dict()},
    )
