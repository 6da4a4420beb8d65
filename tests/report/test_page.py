"""The HTML page: complete, offline, usable by keyboard and by ear; and looked at in a browser."""

from __future__ import annotations

import html
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from bothways.report.page import render_html
from bothways.report.sentences import sentences
from tests.report.browser import PHONE, shown_in_a_browser
from tests.report.reports import AWKWARD, EMPTY, FIGURES, REPORT, TABLES

# WCAG 2.1, 1.4.3: text against its background.
CONTRAST = 4.5


class Elements(HTMLParser):
    """Start tags with their attributes, in order, and the text of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def page() -> str:
    return render_html(REPORT)


@pytest.fixture(scope="module")
def elements(page: str) -> Elements:
    return Elements(page)


def test_the_page_asks_nothing_of_the_network_and_runs_nothing(
    page: str, elements: Elements
) -> None:
    assert not elements.named("script")
    assert not elements.named("img")
    links = [each.get("href") for tag in ("a", "link") for each in elements.named(tag)]
    assert all(link is not None and link.startswith(("#", "data:")) for link in links)
    assert not re.search(r"@import|url\((?!#)", page)
    # Names of SVG's own vocabulary are no addresses to fetch.
    outside = set(re.findall(r'https?://[^"\s]+', page))
    assert outside == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_everything_the_report_holds_is_on_the_page(elements: Elements) -> None:
    text = " ".join("".join(elements.text).split())
    for sentence in sentences(REPORT):
        assert " ".join(sentence.split()) in text
    for figure in FIGURES:
        assert figure.title in text
    for table in TABLES:
        assert table.title in text
    assert "1 alarm, 1 note, 1 fine, 1 not asked" in text
    assert "[0.750, 0.850]" in text
    assert "12,345" in text
    assert "bothways 0.1.0" in text


def test_bad_news_comes_first(page: str) -> None:
    order = [
        page.index(f'<li class="{name}" id="question-')
        for name in ("alarm", "note", "fine", "not-asked")
    ]
    assert order == sorted(order)
    assert page.index("A shortcut exists") < page.index("<nav")


def test_what_people_wrote_is_text_not_markup(page: str) -> None:
    assert AWKWARD not in page
    assert html.escape(AWKWARD, quote=True).replace("&quot;", "&#34;") in page


def test_every_figure_is_an_image_with_a_name_and_a_table_beside_it(
    page: str, elements: Elements
) -> None:
    images = elements.named("svg")
    titles = [figure.title for figure in FIGURES]
    assert sorted(each["aria-label"] or "" for each in images) == sorted(titles)
    assert {each["role"] for each in images} == {"img"}
    for figure in re.findall(r"<figure.*?</figure>", page, flags=re.DOTALL):
        assert "<figcaption>" in figure
        assert "<table" in figure


def test_figures_and_tables_of_a_question_stand_with_its_findings(page: str) -> None:
    cards = re.findall(
        r'<li class="[a-z-]+" id="question-\d+">\n<h3>(.*?)</h3>(.*?)</li>', page, re.S
    )
    assert [name for name, _ in cards] == ["artifacts", "slices", "truncation", "baseline"]
    slices = dict(cards)["slices"]
    assert slices.count("<figure") == 1
    assert "<summary>Texts of the weakest slice (1)</summary>" in slices
    assert all("<figure" not in card for name, card in cards if name != "slices")
    assert page.count("Texts of the weakest slice") == slices.count("Texts of the weakest slice")
    figures = page[page.index('<section id="figures"') :]
    assert figures.count("<figure") == len(FIGURES) - 1


def test_tables_have_headings_names_and_can_be_scrolled_by_keyboard(
    page: str, elements: Elements
) -> None:
    assert all(each.get("aria-label") for each in elements.named("table"))
    assert {each.get("scope") for each in elements.named("th")} == {"col", "row"}
    regions = [each for each in elements.named("div") if each.get("role") == "region"]
    assert len(regions) == page.count("<table ")
    assert all(each.get("tabindex") == "0" and each.get("aria-label") for each in regions)


def test_landmarks_headings_and_ids_are_in_order(page: str, elements: Elements) -> None:
    tags = Counter(tag for tag, _ in elements.found)
    assert tags["h1"] == tags["main"] == tags["header"] == tags["footer"] == tags["nav"] == 1
    assert elements.named("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {link["href"] for link in elements.named("a")}
    assert targets <= {f"#{name}" for name in ids}
    assert elements.found[[tag for tag, _ in elements.found].index("body") + 1][1]["href"] == (
        "#findings"
    )


def test_severity_is_told_by_word_and_sign_and_not_by_colour_alone(page: str) -> None:
    for sign, word in (("▲", "alarm"), ("●", "note"), ("✓", "fine"), ("○", "not asked")):
        assert f'<span aria-hidden="true">{sign}</span> {word}</span>' in page


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_stands_out_from_its_background_in_light_and_dark(page: str) -> None:
    schemes = re.findall(r":root \{([^}]*--ink[^}]*)\}", page)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", scheme))
        for text in ("ink", "muted", "alarm", "note", "fine", "not-asked"):
            for background in ("paper", "card"):
                bright, dim = sorted(
                    (luminance(colours[text]), luminance(colours[background])), reverse=True
                )
                assert (bright + 0.05) / (dim + 0.05) >= CONTRAST, (text, background)


def test_in_print_nothing_is_a_grid_whose_rows_a_browser_would_tear_apart(page: str) -> None:
    """Or the first page ends after the sentences, and captions stand alone at the foot."""
    _, printed = page.split("@media print")
    assert ".findings, figure { display: block; }" in printed
    assert ".findings li, " not in printed


def test_an_empty_report_is_a_page_too() -> None:
    page = render_html(EMPTY)
    assert "No question was asked." in page
    assert "<figure>" not in page


def test_a_browser_shows_the_page_on_a_phone_without_overflow_or_error(
    page: str, tmp_path: Path
) -> None:
    seen = shown_in_a_browser(page, tmp_path)
    assert seen["errors"] == []
    assert seen["width"] <= PHONE
    assert seen["scroll"] <= seen["width"]
    assert seen["wide"] == []
    assert len(seen["sizes"]) == len(FIGURES)
    assert min(seen["sizes"]) > 60


def test_the_browser_would_see_what_sticks_out(page: str, tmp_path: Path) -> None:
    wide = page.replace("<main>", "<main><p style='width: 500px'>wide</p>")
    seen = shown_in_a_browser(wide, tmp_path)
    assert seen["scroll"] > seen["width"]
    assert len(seen["wide"]) == 1
