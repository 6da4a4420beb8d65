"""The pages of the families are made from their specifications, and say what those say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bothways.cli.main import main
from bothways.families.pages import all_pages, family_page, family_rows
from bothways.families.published import PUBLISHED
from bothways.families.registry import FAMILIES

PAGES = Path(__file__).resolve().parents[2] / "docs" / "families"
# A page is about thirty lines of forward pass with a little around it.
MOST_LINES = 60


def test_the_folder_holds_what_the_specifications_say() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == set(all_pages())
    for name, content in all_pages().items():
        made = "run: bothways families --write docs/families"
        assert (PAGES / name).read_text(encoding="utf-8") == content, made


def test_every_family_has_a_page_and_every_page_its_published_shape() -> None:
    families = {name for name, spec in FAMILIES.items() if spec.heads}
    assert families == set(PUBLISHED)
    assert {row["model_type"] for row in family_rows()} == families


@pytest.mark.parametrize("model_type", sorted(PUBLISHED))
def test_a_page_is_short_and_names_every_head(model_type: str) -> None:
    page = family_page(model_type)
    assert page.count("\n") < MOST_LINES
    assert all(name in page for name in FAMILIES[model_type].heads)


@pytest.mark.parametrize(
    ("model_type", "facts"),
    [
        ("bert", ["for layer in 1 .. 12:", "12 heads of 64", "pooled = tanh"]),
        ("roberta", ["514 rows, texts of up to 512 tokens", "[0, 1, 2, ... + 2]"]),
        ("distilbert", ["for layer in 1 .. 6:"]),
        ("albert", ["128 -> 768", "1 with weights of their own", "gelu_tanh"]),
        ("deberta-v2", ["256 log buckets", "content projections shared"]),
        ("modernbert", ["|i - j| <= 64", "theta 160000", "* linear(b)"]),
    ],
)
def test_a_page_tells_what_is_particular(model_type: str, facts: list[str]) -> None:
    page = family_page(model_type)
    assert [fact for fact in facts if fact not in page] == []


def test_the_command_lists_shows_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["families", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["families"]
    assert [row["model_type"] for row in listed] == [row["model_type"] for row in family_rows()]
    assert main(["families", "albert"]) == 0
    assert "128 -> 768" in capsys.readouterr().out
    assert main(["families", "albrt"]) == 2
    assert "albert" in capsys.readouterr().err
