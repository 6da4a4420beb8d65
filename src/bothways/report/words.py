"""Texts whose words are coloured by a number, as HTML that belongs to the page.

The sign shows in the line below a word (solid or dotted) as well as in the colour, and the strength
in its thickness, so that nothing rests on colours alone; these are the page's, in light, dark and
print. The numbers are in the table beside it.
"""

from __future__ import annotations

from html import escape

from bothways.evaluation.result import Figure, Series

# A word with less than this share of its text's largest number is left plain.
PLAIN = 0.1
LEVELS = 4
# Colour of the page and kind of line, for what adds and for what takes.
SIGNS = {1: ("--series-1", "solid"), -1: ("--series-2", "dotted")}
LEGEND = "solid line: adds to it; dotted line: takes from it; the thicker, the more"


def draw_words(figure: Figure) -> str:
    """The texts of a figure, one a series, under their labels.

    Args:
        figure: of kind text; x are words with what follows each, y their numbers.
    """
    texts = "".join(
        f'<p class="caption" style="margin-top:.75rem">{escape(text.label)}</p>'
        f'<p style="margin:0;line-height:2">{_words(text)}</p>'
        for text in figure.series
    )
    legend = f'<p class="caption">{LEGEND}</p>'
    return f'<div role="group" aria-label="{escape(figure.title)}">{legend}{texts}</div>'


def _words(text: Series) -> str:
    largest = max((abs(value) for value in text.y), default=0.0) or 1.0
    return "".join(
        _word(str(word), value / largest) for word, value in zip(text.x, text.y, strict=True)
    )


def _word(word: str, share: float) -> str:
    """A word and what follows it, which stays plain."""
    bare = word.rstrip()
    if abs(share) < PLAIN or not bare:
        return escape(word)
    colour, line = SIGNS[1 if share > 0 else -1]
    level = min(LEVELS, 1 + int(abs(share) * LEVELS))
    style = (
        f"background:color-mix(in srgb,var({colour}) {9 * level}%,transparent);"
        f"text-decoration:underline {line} var({colour}) {level}px;text-underline-offset:.25em"
    )
    return f'<span style="{style}">{escape(bare)}</span>{escape(word[len(bare) :])}'
