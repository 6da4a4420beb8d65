"""A recipe followed again on other examples, for questions about parts of the input."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bothways.data.options import FileOptions
from bothways.errors import UsageError
from bothways.tasks.classify import ClassifyExample, ClassifyTask, label_results
from bothways.training.retraining import retraining
from bothways.training.settings import FinetuneSettings, HeadTable
from tests.training.tiny import settings_for


@pytest.fixture
def settings(tiny_model: Path, examples: Path, tmp_path: Path) -> FinetuneSettings:
    """Of a run whose recipe lies in its folder."""
    made = settings_for(
        tiny_model, examples, tmp_path / "model", loop={"epochs": 6, "seeds": 3, "early_stop": 1}
    )
    made.output.mkdir()
    (made.output / "recipe.toml").write_text(made.recipe(), encoding="utf-8")
    return made


def read(path: Path) -> list[ClassifyExample]:
    return ClassifyTask().read(FileOptions().rows(path))


def test_it_learns_from_what_it_is_given(settings: FinetuneSettings, examples: Path) -> None:
    train, test = read(examples / "train.csv"), read(examples / "test.csv")
    retrained = retraining(settings.output, threads=1)

    def right(train: list[ClassifyExample], test: list[ClassifyExample]) -> float:
        said = [result.label for result in label_results(retrained(train, test))]
        assert len(said) == len(test)
        return sum(a == e.label for a, e in zip(said, test, strict=True)) / len(test)

    assert right(train, test) > 0.8
    blank = [[dataclasses.replace(e, text="the film") for e in given] for given in (train, test)]
    assert right(*blank) == pytest.approx(0.5)
    assert [path.name for path in settings.output.iterdir()] == ["recipe.toml"]


def test_a_folder_without_a_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"recipe\.toml in the model's folder"):
        retraining(tmp_path)


def test_several_heads_are_refused(settings: FinetuneSettings) -> None:
    heads = tuple(HeadTable(name=name, task="classify", data=settings.data) for name in "ab")
    several = dataclasses.replace(settings, heads=heads)
    (settings.output / "recipe.toml").write_text(several.recipe(), encoding="utf-8")
    with pytest.raises(UsageError, match="has 2"):
        retraining(settings.output)
