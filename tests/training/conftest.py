"""A tiny encoder in a folder, labelled files that it can learn, and text in shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.corpora import make_shards
from tests.training.tiny import save_tiny_model, write_examples


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights, 16 wide and 2 layers deep."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv, dev.csv and test.csv."""
    folder = tmp_path_factory.mktemp("examples")
    for name, count, seed in (("train", 64, 0), ("dev", 24, 1), ("test", 24, 2)):
        write_examples(folder / f"{name}.csv", count, seed=seed)
    return folder


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of 300 made-up documents, read with a vocabulary of 400 pieces."""
    folder = tmp_path_factory.mktemp("text")
    make_shards(folder, held_out=0.05)
    return folder / "shards"
