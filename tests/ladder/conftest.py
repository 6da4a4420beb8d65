"""Planted ladders and the choices made of them, once for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bothways.ladder.choose import ChooseResult, choose
from tests.cli.command import Command, undisturbed
from tests.ladder.planted import LADDERS, choosing, ladder, write_reviews


@pytest.fixture
def bothways(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs a command in this process."""
    with undisturbed():
        yield Command(capsys)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reviews that are easy to tell apart for who knows the words."""
    return write_reviews(tmp_path_factory.mktemp("data") / "reviews.csv", 250)


@pytest.fixture(scope="session")
def ladders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Candidates by the name of their ladder."""
    folder = tmp_path_factory.mktemp("ladders")
    return {name: ladder(folder / name, words) for name, words in LADDERS.items()}


class Choices(dict[str, ChooseResult]):
    """What is chosen from each ladder, made where it is asked for."""

    def __init__(self, ladders: dict[str, list[Path]], data: Path, folder: Path) -> None:
        super().__init__()
        self.ladders, self.data, self.folder = ladders, data, folder

    def __missing__(self, name: str) -> ChooseResult:
        self[name] = choose(choosing(self.folder / name, self.ladders[name], self.data))
        return self[name]


@pytest.fixture(scope="session")
def choices(
    ladders: dict[str, list[Path]], data: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, ChooseResult]:
    """What is chosen from each ladder."""
    return Choices(ladders, data, tmp_path_factory.mktemp("choices"))
