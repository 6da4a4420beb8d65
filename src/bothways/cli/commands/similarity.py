"""`bothways similarity`: how alike texts are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from bothways.cli.inputs import open_model, warn_of_loss
from bothways.cli.output import Output
from bothways.config import CommonSettings
from bothways.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """Compare the first text with each of the others.

    Attributes:
        texts: two or more texts.
        model: folder or hub name.
    """

    model: str
    texts: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Compare."""
    if len(settings.texts) < 2:
        raise UsageError(
            f"similarity compares the first text with the others; it got {len(settings.texts)}. "
            "Put each text in quotes"
        )
    model = open_model(settings.model, settings.common)
    first, *others = settings.texts
    common = settings.common
    # All at once, so that an error counts the texts as they were given.
    found = model.similarity(
        settings.texts,
        max_length=common.max_length,
        policy=common.policy,
        batch_tokens=common.batch_tokens,
    )
    warn_of_loss(found.ledger)
    scores = found[0][1:].tolist()
    lines = [f"{score:.3f}  {text}" for score, text in zip(scores, others, strict=True)]
    return Output(
        "\n".join(lines),
        {
            "model": settings.model,
            "text": first,
            "others": others,
            "similarities": scores,
            "ledger": found.ledger.as_dict(),
        },
    )
