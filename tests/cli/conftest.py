"""The command, a tiny encoder, labelled files, and a classifier that the command made of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bothways.cli.main import main
from tests.cli.command import Command, undisturbed
from tests.training.tiny import save_tiny_model, write_examples


@pytest.fixture
def bothways(capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs a command in this process."""
    with undisturbed():
        yield Command(capsys)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random encoder of 24 positions."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv, dev.csv and test.csv: columns text and label."""
    folder = tmp_path_factory.mktemp("examples")
    for name, count, seed in (("train", 64, 0), ("dev", 24, 1), ("test", 24, 2)):
        write_examples(folder / f"{name}.csv", count, seed=seed)
    return folder


@pytest.fixture(scope="session")
def classifier(tiny: Path, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `bothways finetune` wrote; good and bad are easily told apart."""
    output = tmp_path_factory.mktemp("classifier") / "model"
    words = ["finetune", "--model", str(tiny), "--train", str(examples / "train.csv")]
    words += ["--dev", str(examples / "dev.csv"), "--learning-rate", "2e-2", "--epochs", "6"]
    words += ["--batch-size", "8", "--pooling", "mean", "--output", str(output)]
    with undisturbed():
        assert main(words) == 0
    return output
