"""A published classifier of entailment, tiny and random."""

from __future__ import annotations

from pathlib import Path

from tests.checkpoints.models import save_theirs
from tests.training.tiny import BAD, GOOD, PLAIN, SPECIAL

NLI = ("Contradiction", "ENTAILMENT", "neutral")


def save_nli(folder: Path) -> Path:
    """A classifier of pairs whose random weights are far enough from zero to differ."""
    words = [*SPECIAL, *GOOD, *BAD, *PLAIN]
    save_theirs(
        folder,
        "BertForSequenceClassification",
        vocab_size=len(words),
        initializer_range=0.5,
        id2label=dict(enumerate(NLI)),
        label2id={label: index for index, label in enumerate(NLI)},
        problem_type="single_label_classification",
    )
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder
