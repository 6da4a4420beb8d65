"""Figures as SVG inside the page."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from bothways.evaluation.result import Figure, Series
from bothways.report.figures import LONGEST_NAME, draw
from tests.report.reports import AWKWARD, FIGURES


def words(svg: str) -> list[str]:
    """Texts drawn in a figure."""
    return [
        "".join(element.itertext())
        for element in ElementTree.fromstring(svg).iter()
        if element.tag.endswith("}text")
    ]


@pytest.fixture(scope="module")
def drawings() -> dict[str, str]:
    return {figure.name: draw(figure) for figure in FIGURES}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_every_kind_is_valid_svg_in_the_page_s_colours_and_font(
    figure: Figure, drawings: dict[str, str]
) -> None:
    svg = drawings[figure.name]
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == figure.title
    assert root.get("width") is None
    assert not re.findall(r"(?:fill|stroke): ?#", svg)
    assert "var(--ink)" in svg
    assert "font-family" not in svg
    assert "<style" not in svg


def test_the_same_figure_is_drawn_the_same(drawings: dict[str, str]) -> None:
    for figure in (FIGURES[0], FIGURES[5]):
        assert draw(figure) == drawings[figure.name]


def test_two_figures_on_one_page_share_no_id(drawings: dict[str, str]) -> None:
    ids = {name: set(re.findall(r'\bid="([^"]+)"', svg)) for name, svg in drawings.items()}
    assert all(ids.values())
    assert len(set.union(*ids.values())) == sum(map(len, ids.values()))
    for name, svg in drawings.items():
        used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
        assert used
        assert used <= ids[name]


def test_names_are_text_drawn_by_the_page_s_font_and_not_markup_or_formulas(
    drawings: dict[str, str],
) -> None:
    drawn = words(drawings["names"])
    assert AWKWARD in drawn
    assert "a name that is too long to stand beside its…"[:20] in " ".join(drawn)


def test_long_names_are_cut_in_the_figure() -> None:
    name = "x" * 100
    figure = Figure("f", "t", "bar", "", "", (Series("s", (name,), (0.5,)),))
    (cut,) = [word for word in words(draw(figure)) if word.startswith("xx")]
    assert len(cut) == LONGEST_NAME
    assert cut.endswith("…")


def test_values_stand_beside_their_bars(drawings: dict[str, str]) -> None:
    drawn = words(drawings["bars"])
    assert {"0.800", "0.700", "0.600", "0.500"} <= set(drawn)


def test_shares_are_drawn_on_their_whole_scale(drawings: dict[str, str]) -> None:
    close = Figure("f", "t", "bar", "", "", (Series("s", ("a", "b"), (0.81, 0.82)),))
    assert {"0.0", "1.0"} <= set(words(draw(close)))
    assert "1.0" not in words(drawings["gains"])


def test_series_differ_in_more_than_colour(drawings: dict[str, str]) -> None:
    svg = drawings["line"]
    assert "var(--series-1)" in svg
    assert "var(--series-2)" in svg
    assert "stroke-dasharray" in svg


def test_a_row_of_the_heat_map_without_examples_is_drawn_empty(drawings: dict[str, str]) -> None:
    svg = drawings["confusion"]
    assert words(svg).count("0") == 2
    assert "opacity: 0.54" in svg


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="'empty' has no values"):
        draw(Figure("empty", "t", "bar", "", "", (Series("s", (), ()),)))


def test_matplotlib_is_imported_only_when_a_figure_is_drawn() -> None:
    code = (
        "import sys, bothways.report.page, bothways.report.write, bothways.report.text\n"
        "print([name for name in ('matplotlib', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_level_is_drawn_across_with_its_name_and_intervals_of_points_upright() -> None:
    points = (
        Series("small", (1.0,), (0.7,), (0.65,), (0.74,)),
        Series("large", (9.0,), (0.8,), (0.76,), (0.83,)),
    )
    plain = Figure("cost", "Score by cost", "scatter", "ms", "accuracy", points)
    with_level = Figure(
        "cost", "Score by cost", "scatter", "ms", "accuracy", points, ("target", 0.75)
    )
    alone = Figure(
        "cost", "Score by cost", "scatter", "ms", "accuracy", points[:1], ("target", 0.75)
    )
    assert "target" in words(draw(with_level))
    assert "target" not in words(draw(plain))
    assert {"target", "small"} <= set(words(draw(alone)))
    without = tuple(Series(each.label, each.x, each.y) for each in points)
    bare = Figure("cost", "Score by cost", "scatter", "ms", "accuracy", without)
    assert "stroke: var(--series-2)" in draw(plain)
    assert "stroke: var(--series-2)" not in draw(bare)
