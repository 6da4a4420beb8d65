"""The command for whole journeys, and a tiny encoder where the numbers do not matter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Command, undisturbed
from tests.training.tiny import save_tiny_model


@pytest.fixture
def bothways(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs a command in this process."""
    with undisturbed():
        yield Command(capsys)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random encoder, for journeys in which it matters only that something is trained."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "model")
