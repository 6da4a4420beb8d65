"""Choosing from end to end on ladders whose right rung is planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.inference.model import load
from bothways.ladder.choose import ChooseResult, choose
from tests.ladder.planted import DECIDING, choosing, save_encoder, write_reviews
from tests.training.tiny import BAD, GOOD, labels

# Words that decide and that each encoder knows, cheapest first: what it does not know it cannot
# tell apart.
LADDERS = {
    "smallest": (DECIDING, DECIDING, DECIDING),
    "largest": ((), (GOOD[0],), DECIDING),
    "none": ((), (), (GOOD[0], BAD[0])),
}
NAMES = ("small", "middle", "large")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reviews(tmp_path_factory.mktemp("data") / "reviews.csv", 250)


def ladder(folder: Path, words: tuple[tuple[str, ...], ...]) -> list[Path]:
    """Encoders of 1, 2 and 3 layers, the largest first: not in the order that is right."""
    made = [
        save_encoder(folder / name, layers=number, words=known)
        for number, (name, known) in enumerate(zip(NAMES, words, strict=True), start=1)
    ]
    return made[::-1]


@pytest.fixture(scope="module", params=LADDERS)
def climbed(
    request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, ChooseResult]:
    folder = tmp_path_factory.mktemp(request.param)
    settings = choosing(folder / "out", ladder(folder, LADDERS[request.param]), data)
    return request.param, choose(settings)


def test_the_right_rung_is_chosen(climbed: tuple[str, ChooseResult]) -> None:
    name, result = climbed
    outcomes = {Path(entry.source).name: entry.outcome for entry in result.entries}
    expected = {
        "smallest": ["chosen", "not needed", "not needed"],
        "largest": ["below target", "below target", "chosen"],
        "none": ["below target"] * 3,
    }[name]
    assert outcomes == dict(zip(NAMES, expected, strict=True))
    assert result.target_met == (name != "none")
    assert (result.chosen is None) == (name == "none")


def test_what_is_saved_predicts(climbed: tuple[str, ChooseResult]) -> None:
    name, result = climbed
    assert result.model == result.folder / ("best" if name == "none" else "model")
    (found,) = labels(load(result.model).predict(["the film was great"]))
    assert found == "good" or name == "none"
    for kind in ("json", "md", "html"):
        assert (result.folder / f"report.{kind}").exists()


def test_what_was_spent_is_less_than_all_where_the_first_will_do(
    climbed: tuple[str, ChooseResult],
) -> None:
    name, result = climbed
    tried = sum(entry.seconds for entry in result.entries)
    assert (tried < result.all_seconds) == (name == "smallest")
    assert result.spent_seconds >= tried
