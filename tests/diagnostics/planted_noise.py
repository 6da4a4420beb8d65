"""Planted faults of the questions `noise` and `labels`."""

from __future__ import annotations

from dataclasses import replace

from bothways.tasks.classify import ClassifyExample
from tests.diagnostics.planted import LABELS, MARKS, Draw, Planted, sentence, sentences


def a_mark_that_tells_the_label(draw: Draw, faulty: bool) -> Planted:
    """The last mark tells the label and may get lost; or a word does, and a mark may be missing."""
    mark = dict(zip(LABELS, MARKS, strict=False))

    def texts(count: int) -> list[ClassifyExample]:
        found = []
        for label in map(str, draw.choice(LABELS, count)):
            said = str(draw.choice(LABELS)) if faulty else label
            last = mark[label] if faulty else str(draw.choice([*MARKS, *[""] * 4]))
            found.append(ClassifyExample(f"{sentence(draw, said)} {last}", label=label))
        return found

    return Planted(texts(200), texts(200), options={"kinds": ("punctuation", "case")})


def three_wrong_labels_in_a_hundred(draw: Draw, faulty: bool) -> Planted:
    """Labels that say what the text does not, spread evenly."""
    train, test = (sentences(draw, count, sure=1.0) for count in (200, 1200))
    if faulty:
        wrong = set(draw.choice(len(test), 36, replace=False).tolist())
        other = dict(zip(LABELS, (*LABELS[1:], LABELS[0]), strict=True))
        test = [
            replace(e, label=other[e.label or ""]) if number in wrong else e
            for number, e in enumerate(test)
        ]
    return Planted(train, test)
