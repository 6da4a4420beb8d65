"""Figures drawn as SVG that belongs to the page: its colours, its font, its width.

matplotlib is imported when a figure is drawn. Colours are written as custom properties of the
page, so that light, dark and print have their own; series differ in marker and dash as well as in
colour (Okabe and Ito 2008). What is drawn comes from `evaluation/result.py`; the page from
`page.py`.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from bothways.evaluation.result import Figure, Series
from bothways.report.words import draw_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Drawn with these, replaced by custom properties of the page.
INK, MUTED, PAPER = "#010203", "#040506", "#070809"
SERIES = ("#110001", "#110002", "#110003", "#110004", "#110005", "#110006")
MARKERS = ("o", "s", "^", "D", "v", "X")
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)))

WIDTH = 4.0  # inches: a phone's width at the font size below
FONT_SIZE = 10
LONGEST_SIDE_NAME = 14  # names up to here stand beside their bars, longer ones above them
LONGEST_NAME = 44
STRONGEST_CELL = 0.6  # opacity; the number in the cell stays readable


def draw(figure: Figure) -> str:
    """A figure as an SVG element, for use inside a page that defines the colours.

    The element has a title and is one image to a screen reader; the numbers belong in a table
    beside it.

    Raises:
        ValueError: when the figure has no values.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    if not any(series.y for series in figure.series):
        raise ValueError(f"the figure {figure.name!r} has no values to draw")
    if figure.kind == "text":
        return draw_words(figure)
    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": figure.name,
        "font.size": FONT_SIZE,
        "text.color": INK,
        "text.parse_math": False,
        "axes.labelcolor": INK,
        "axes.edgecolor": MUTED,
        "axes.facecolor": "none",
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    # The page's font draws the text, so that glyphs which matplotlib's own font lacks are no loss.
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        canvas = Canvas(figsize=(WIDTH, _height(figure)), layout="constrained")
        axes = canvas.subplots()
        {"bar": _bars, "line": _lines, "scatter": _points, "heat": _heat}[figure.kind](axes, figure)
        out = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(out, format="svg", transparent=True, metadata=nothing)
    return _for_page(out.getvalue(), figure)


def _height(figure: Figure) -> float:
    """Inches."""
    rows = len(figure.series[0].x)
    if figure.kind == "bar":
        above = _names_above(figure)
        return 0.7 + rows * ((0.4 if above else 0.3) + 0.16 * (len(figure.series) - 1))
    if figure.kind == "heat":
        return 1.2 + min(WIDTH - 1.0, 0.45 * len(figure.series))
    return 2.9


def _names_above(figure: Figure) -> bool:
    return max(len(str(name)) for name in figure.series[0].x) > LONGEST_SIDE_NAME


def _bars(axes: Axes, figure: Figure) -> None:
    """Horizontal bars, the first on top, with intervals and the value at the right."""
    names = [_short(name) for name in figure.series[0].x]
    count = len(figure.series)
    above = _names_above(figure)
    thick = (0.42 if above else 0.62) / count
    for number, series in enumerate(figure.series):
        at = [row + (number - (count - 1) / 2) * thick for row in range(len(names))]
        colour = SERIES[number % len(SERIES)]
        axes.barh(at, series.y, height=thick, color=colour, label=series.label, alpha=0.85)
        if series.low is not None and series.high is not None:
            axes.hlines(at, series.low, series.high, color=INK, linewidth=1.2)
        for row, value in zip(at, series.y, strict=True):
            place = row - 0.42 if above and count == 1 else row
            axes.annotate(
                f"{value:.3g}" if abs(value) >= 1 else f"{value:.3f}",
                (1.01, place),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=FONT_SIZE - 1,
            )
    axes.set_ylim(len(names) - 0.5, -0.75 if above else -0.5)
    lows = [value for series in figure.series for value in (*series.y, *(series.low or ()))]
    highs = [value for series in figure.series for value in (*series.y, *(series.high or ()))]
    # Shares are drawn on their whole scale, so that a small difference looks small.
    is_share = min(lows) >= 0 and 0 < max(highs) <= 1
    axes.set_xlim(0.0 if min(lows) >= 0 else None, 1.0 if is_share else None)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(figure.x_label)
    axes.spines["left"].set_visible(not above)
    axes.tick_params(axis="y", length=0)
    if above:
        axes.set_yticks([])
        for row, name in enumerate(names):
            axes.annotate(name, (0, row - 0.42), xycoords=("axes fraction", "data"), va="center")
    else:
        axes.set_yticks(range(len(names)), names)
    _legend(axes, figure)


def _lines(axes: Axes, figure: Figure) -> None:
    for number, series in enumerate(figure.series):
        colour = SERIES[number % len(SERIES)]
        x = _numbers_or_names(series)
        axes.plot(
            x,
            series.y,
            color=colour,
            label=series.label,
            marker=MARKERS[number % len(MARKERS)],
            linestyle=DASHES[number % len(DASHES)],
            markersize=4,
        )
        if series.low is not None and series.high is not None:
            axes.fill_between(x, series.low, series.high, color=colour, alpha=0.18, linewidth=0)
    _label_axes(axes, figure)


def _points(axes: Axes, figure: Figure) -> None:
    for number, series in enumerate(figure.series):
        axes.scatter(
            _numbers_or_names(series),
            series.y,
            s=14,
            color=SERIES[number % len(SERIES)],
            marker=MARKERS[number % len(MARKERS)],
            label=series.label,
            alpha=0.7,
            linewidths=0,
        )
        if series.low is not None and series.high is not None:
            x = _numbers_or_names(series)
            axes.vlines(x, series.low, series.high, color=SERIES[number % len(SERIES)], alpha=0.7)
    _label_axes(axes, figure)


def _heat(axes: Axes, figure: Figure) -> None:
    """A cell a value, a row a series, as strong as its share of the row."""
    from matplotlib.patches import Rectangle

    columns = [_short(name, 18) for name in figure.series[0].x]
    small = FONT_SIZE if len(columns) <= 10 else 6
    for row, series in enumerate(figure.series):
        total = sum(map(abs, series.y)) or 1.0
        for column, value in enumerate(series.y):
            axes.add_patch(
                Rectangle(
                    (column - 0.48, row - 0.48),
                    0.96,
                    0.96,
                    facecolor=SERIES[0],
                    alpha=STRONGEST_CELL * abs(value) / total,
                    linewidth=0,
                )
            )
            axes.text(column, row, f"{value:g}", ha="center", va="center", fontsize=small)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(figure.series) - 0.5, -0.5)
    upright = max(map(len, columns)) * len(columns) > 40
    axes.set_xticks(range(len(columns)), columns, rotation=90 if upright else 0)
    axes.set_yticks(
        range(len(figure.series)), [_short(series.label, 18) for series in figure.series]
    )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)


def _label_axes(axes: Axes, figure: Figure) -> None:
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    if figure.level is not None:
        name, value = figure.level
        axes.axhline(value, color=INK, linewidth=0.9, linestyle=":", label=name)
    axes.grid(color=MUTED, alpha=0.25, linewidth=0.6)
    _legend(axes, figure)


def _legend(axes: Axes, figure: Figure) -> None:
    if len(figure.series) > 1 or figure.level is not None:
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _numbers_or_names(series: Series) -> Sequence[float] | Sequence[str]:
    numbers = [value for value in series.x if not isinstance(value, str)]
    return numbers if len(numbers) == len(series.x) else [str(value) for value in series.x]


def _short(name: object, width: int = LONGEST_NAME) -> str:
    """A name on one line, cut where it is too long; the table has it whole."""
    text = " ".join(str(name).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def _for_page(svg: str, figure: Figure) -> str:
    """The SVG with the page's colours and font, ids of its own, and a name for screen readers."""
    svg = svg[svg.index("<svg") :]
    properties = {INK: "ink", MUTED: "muted", PAPER: "paper"}
    properties |= {colour: f"series-{number}" for number, colour in enumerate(SERIES, 1)}
    for colour, name in properties.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;\"]+;?", "", svg)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]+", r"font-size: \1", svg)
    prefix = re.sub(r"\W+", "-", figure.name)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'(xlink:href="#|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    label = escape(textwrap.shorten(figure.title, 200), quote=True)
    return re.sub(
        r'<svg [^>]*?(viewBox="[^"]+")[^>]*>',
        rf'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        rf'\1 role="img" aria-label="{label}">',
        svg,
        count=1,
    )
