"""The recipes that come with the project: complete, valid, and one for each preset to pretrain."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bothways.config import leaves, read_recipe, recipe_values
from bothways.families.presets import PRESETS
from bothways.training.pretrain_settings import PretrainSettings

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
# What a recipe leaves to the command line or to the machine.
LEFT_OUT = {
    "from",
    "resume",
    "overwrite",
    "preempt_ok",
    "corpus.tokenizer",
    "corpus.text",
    "corpus.new_words",
    "network.hidden_dropout",
    "network.attention_dropout",
    "loop.steps",
    "loop.hours",
    "loop.accumulate",
    "loop.evaluate_every",
    "loop.checkpoint_every",
    "machine.device",
    "machine.threads",
    "machine.sharded",
}


def test_there_is_one_for_each_preset_to_pretrain() -> None:
    # The large one differs from the base one in its shape alone.
    assert {path.stem for path in RECIPES} == set(PRESETS) - {"bert-large"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_complete_and_can_be_run(path: Path) -> None:
    given = read_recipe(PretrainSettings, path)
    assert given.preset == path.stem
    given.check()
    # Nothing that decides a number is left to a default that may change.
    assert given.filled() == given
    values = recipe_values(PretrainSettings, path)
    assert set(leaves(PretrainSettings)) - set(values) <= LEFT_OUT
    assert ("loop.steps" in values) != ("loop.hours" in values)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_commented(path: Path) -> None:
    text = path.read_text(encoding="utf-8").splitlines()
    assert text[0].startswith("# ")
    assert f"#     bothways pretrain --config recipes/{path.name}" in text
    assert sum("#" in line for line in text) > 0.4 * len(text)
    assert max(map(len, text)) <= 100


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_names_no_machine(path: Path) -> None:
    given = read_recipe(PretrainSettings, path)
    assert not given.output.is_absolute()
    assert given.corpus.data == Path("shards")
    assert dataclasses.replace(given.machine, workers=2) == type(given.machine)()
