"""The model card: README.md of a folder, from facts that are known when it is saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from bothways.errors import agreeing, counted
from bothways.tokenization.encoding import Ledger


@dataclass(frozen=True)
class CardFacts:
    """What a model card says.

    Attributes:
        title: a name for the model.
        base_model: what it was made from; "" for nothing.
        task: what its head is for; "" for a bare encoder.
        labels: names of the outputs.
        data: a line each about what it was trained on.
        scores: by split, then by metric, as text: "0.812 [0.790, 0.834]".
        ledger: what was cut while training and judging.
        limits: what it should not be used for, a line each.
        use: lines of code that show how it is used.
    """

    title: str
    base_model: str = ""
    task: str = ""
    labels: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    scores: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ledger: Ledger | None = None
    limits: tuple[str, ...] = ()
    use: tuple[str, ...] = ()


# More labels than this are counted and not listed.
_LABELS_SHOWN = 100


def render_card(facts: CardFacts, *, in_transformers: str, max_length: int | None) -> str:
    """A model card in Markdown.

    Args:
        facts: what is known.
        in_transformers: what other libraries read of the folder, in one line.
        max_length: longest text in tokens; None when it is not known.

    Example:
        >>> card = render_card(CardFacts("Topics"), in_transformers="", max_length=512)
        >>> "# Topics" in card.splitlines()
        True
    """
    parts = [_front_matter(facts), f"# {facts.title}"]
    about = [
        facts.task and f"Task: {facts.task}.",
        facts.base_model and f"Made from `{facts.base_model}` with Bothways.",
        f"Reads at most {max_length} tokens of a text." * (max_length is not None),
        in_transformers and in_transformers[0].upper() + in_transformers[1:] + ".",
    ]
    parts.append("  \n".join(line for line in about if line))
    if facts.use:
        parts += ["## Use", "```python\n" + "\n".join(facts.use) + "\n```"]
    if facts.labels:
        shown = ", ".join(f"`{label}`" for label in facts.labels[:_LABELS_SHOWN])
        more = f", and {len(facts.labels) - _LABELS_SHOWN} more"
        parts += ["## Labels", shown + more * (len(facts.labels) > _LABELS_SHOWN)]
    if facts.data:
        parts += ["## Data", _bullets(facts.data)]
    if facts.scores:
        parts += ["## Scores", _table(facts.scores)]
    if facts.ledger is not None:
        parts += ["## Text that was lost", _lost(facts.ledger)]
    parts += ["## Limits", _bullets(facts.limits or ("None were written down.",))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(facts: CardFacts) -> str:
    lines = ["tags:", "- bothways"]
    if facts.task:
        lines.append(f"- {facts.task}")
    if facts.base_model:
        # A JSON string is a YAML string too, whatever stands in it.
        lines.append(f"base_model: {json.dumps(facts.base_model)}")
    return "---\n" + "\n".join(lines) + "\n---"


def _bullets(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(scores: Mapping[str, Mapping[str, str]]) -> str:
    metrics = list(dict.fromkeys(name for split in scores.values() for name in split))
    rows = [["", *metrics], ["---"] * (len(metrics) + 1)]
    rows += [
        [split, *(values.get(name, "") for name in metrics)] for split, values in scores.items()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _lost(ledger: Ledger) -> str:
    if not ledger.lost:
        return (
            f"Nothing: all {ledger.tokens:,} tokens of {counted(ledger.texts, 'text')} were read."
        )
    return (
        f"{ledger.texts_cut:,} of {counted(ledger.texts, 'text')} "
        f"{agreeing(ledger.texts_cut, 'were')} cut, {ledger.tokens_cut:,} of "
        f"{ledger.tokens:,} tokens ({ledger.share_cut:.1%}, end: {ledger.end}); "
        f"{ledger.dropped_characters:,} characters were dropped."
    )
