"""Shortcuts and copies planted into data; see `planted.py`."""

from __future__ import annotations

from dataclasses import replace

from bothways.tasks.classify import ClassifyExample
from tests.diagnostics.planted import LABELS, MARKS, PLAIN, TELLING, Draw, Planted, sentences


def a_label_leaked_by_punctuation(draw: Draw, faulty: bool) -> Planted:
    """One label ends with an exclamation mark; in the twin marks stand anywhere."""

    def marked(example: ClassifyExample) -> ClassifyExample:
        leaked = faulty and draw.random() < 0.95
        among = ["!"] if leaked and example.label == "glad" else MARKS[::2] if leaked else MARKS
        return replace(example, text=f"{example.text} {draw.choice(among)}")

    train, test = ([marked(e) for e in sentences(draw, count)] for count in (300, 150))
    return Planted(train, test)


def a_label_leaked_by_one_word(draw: Draw, faulty: bool) -> Planted:
    """Two labels, one of which has a word of its own nearly always."""

    def worded(example: ClassifyExample) -> ClassifyExample:
        own = faulty and example.label == "sad" and draw.random() < 0.97
        return replace(example, text=f"{example.text} {'no' if own else draw.choice(PLAIN)}")

    train, test = (
        [worded(e) for e in sentences(draw, count) if e.label != "calm"] for count in (400, 200)
    )
    return Planted(train, test)


def a_second_text_that_does_alone(draw: Draw, faulty: bool) -> Planted:
    """The label is how many of both texts say one thing; or the second text says all of it."""

    def pair(label: int) -> ClassifyExample:
        says = {0: (0, 0), 1: (0, 1) if draw.random() < 0.5 else (1, 0), 2: (1, 1)}[label]
        told = [TELLING[LABELS[side]] for side in says]
        if faulty:
            told[1] = TELLING[LABELS[label]]
        texts = [
            " ".join([*draw.choice(PLAIN, 5), str(draw.choice(words)), *draw.choice(PLAIN, 2)])
            for words in told
        ]
        return ClassifyExample(texts[0], texts[1], LABELS[label])

    train, test = ([pair(int(n)) for n in draw.integers(0, 3, count)] for count in (400, 150))
    return Planted(train, test)


def copies_across_splits(draw: Draw, faulty: bool) -> Planted:
    """A fifth of the test texts is in training, but for a mark or a word at the end."""
    train, test = sentences(draw, 150, 12), sentences(draw, 100, 12)
    if faulty:
        copied = [train[number] for number in draw.choice(150, 20, replace=False).tolist()]
        test[:20] = [replace(e, text=f"{e.text} {draw.choice([*MARKS, 'ba'])}") for e in copied]
    return Planted(train, test)
