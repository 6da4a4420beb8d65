"""Settings of pretraining: what presets fill in, what is refused, what decides a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bothways.cli.arguments import parse
from bothways.config import leaves, read_recipe, to_toml
from bothways.errors import UsageError
from bothways.families.presets import PRESETS
from bothways.training.pretrain_settings import SHARING, USUAL, PretrainSettings
from tests.training.pretraining import text_settings


def settings(**changes: Any) -> PretrainSettings:
    return text_settings(Path("shards"), Path("out"), **changes)


def test_small_presets_take_32_texts_of_128_tokens_a_step() -> None:
    for name in ("tiny", "mini"):
        filled = PretrainSettings(Path("out"), preset=name).filled()
        assert filled.loop.batch_tokens == 32 * 128
        assert filled.loop.max_length == 128
        assert filled.optim.learning_rate == 1e-3


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_fills_what_is_left_out_and_nothing_else(name: str) -> None:
    filled = PretrainSettings(Path("out"), preset=name).filled()
    assert filled.loop.max_length is not None
    assert filled.loop.max_length <= PRESETS[name].embeddings.usable_positions
    assert filled.objective.goal == ("replaced" if name in SHARING else "masked-lm")
    given = settings(preset=name, optim__learning_rate=3e-3, loop__batch_tokens=999).filled()
    assert (given.optim.learning_rate, given.loop.batch_tokens) == (3e-3, 999)
    assert filled.filled() == filled
    assert set(USUAL) <= set(PRESETS)


def test_presets_that_detect_share_as_their_papers_do() -> None:
    assert settings(preset="electra-small").filled().objective.sharing == "embeddings"
    assert settings(preset="deberta-small").filled().objective.sharing == "disentangled"
    other = settings(preset="deberta-small", objective__sharing="none").filled()
    assert other.objective.sharing == "none"


def test_from_is_a_flag_and_a_key(tmp_path: Path) -> None:
    """The word is taken in Python, and nowhere else."""
    given = parse(
        PretrainSettings,
        ["--from", "path/to/model", "--output", "out", "--input", "a.txt,b.txt", "--hours", "2"],
        program="bothways pretrain",
        description="",
    ).settings
    assert given.from_ == "path/to/model"
    assert given.corpus.input == ("a.txt", "b.txt")
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(given), encoding="utf-8")
    assert 'from = "path/to/model"' in path.read_text(encoding="utf-8")
    assert read_recipe(PretrainSettings, path) == given
    assert "from" in leaves(PretrainSettings)
    assert given.deciding()["from"] == "path/to/model"


def test_the_recipe_gives_the_settings_again(tmp_path: Path) -> None:
    given = settings(objective__mask_unit="span", optim__optimizer="muon", resume=True).filled()
    path = tmp_path / "recipe.toml"
    path.write_text(given.recipe(), encoding="utf-8")
    assert read_recipe(PretrainSettings, path) == dataclasses.replace(given, resume=False)


def test_what_changes_no_number_may_differ() -> None:
    one = settings().filled().deciding()
    other = settings(
        resume=True,
        preempt_ok=True,
        machine__threads=3,
        machine__workers=1,
        loop__log_every=5,
        loop__checkpoint_every=7,
        corpus__data=Path("elsewhere"),
    )
    assert other.filled().deciding() == one
    for name, value in (
        ("machine__seed", 1),
        ("loop__accumulate", 2),
        ("objective__mask_share", 0.3),
        ("optim__ramp", 0.5),
    ):
        assert settings(**{name: value}).filled().deciding() != one


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"preset": None}, "give --preset .* or --from .*, one"),
        ({"from_": "m", "preset": "tiny"}, None),
        ({"corpus__data": None}, "give --data .* or --input .*, one"),
        ({"corpus__input": ("a.txt",)}, "not both"),
        ({"loop__steps": None}, "give --steps or --hours, one"),
        ({"corpus__data": None, "corpus__input": ("a.txt",)}, "needs the --tokenizer"),
        ({"corpus__new_words": Path("w.txt")}, "added to the vocabulary of --from"),
        ({"loop__log_every": 11}, "--log-every is 11; expected at most 10"),
        ({"loop__max_length": 2}, "--max-length is 2"),
        ({"loop__spike": 0.5}, "--spike is 0.5"),
        ({"loop__steps": 0, "loop__accumulate": 0}, "--steps is 0.*--accumulate is 0"),
        ({"objective__mask_share": 1.5}, "the mask share is 1.5"),
        (
            {"objective__shown_as_mask": 0.9, "objective__shown_as_random": 0.3},
            "more than 1 together",
        ),
        (
            {"objective__relation": "next-sentence", "objective__goal": "replaced"},
            "--relation goes with --goal masked-lm",
        ),
        ({"resume": True, "overwrite": True}, "--resume or --overwrite"),
        ({"optim__learning_rate": -1.0}, "--learning-rate is -1"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], told: str | None) -> None:
    given = settings(**changes)
    if told is None:
        given.check()
        return
    with pytest.raises(UsageError, match=told):
        given.check()


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'modern-mini'"):
        settings(preset="modernmini").filled()
