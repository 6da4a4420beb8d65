"""Recipes: what is read, what is refused and how, and that writing one gives the same again."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.config import CommonSettings, leaves, read_recipe, to_toml
from bothways.errors import ConfigError, UsageError
from tests.frame.settings_for_tests import OptimSettings, RunSettings


def recipe(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_recipe_fills_tables_and_leaves_the_rest_at_its_default(tmp_path: Path) -> None:
    path = recipe(
        tmp_path,
        """
        model = "some/folder"
        train = ["a.csv", "b.csv"]
        share = 1
        [optim]
        learning_rate = [2e-5, 5e-5]
        [common]
        policy = "head+tail"
        header = false
        """,
    )
    settings = read_recipe(RunSettings, path)
    assert settings == RunSettings(
        model="some/folder",
        train=(Path("a.csv"), Path("b.csv")),
        share=1.0,
        optim=OptimSettings(learning_rate=(2e-5, 5e-5), clip=2.0),
        common=CommonSettings(policy="head+tail", header=False),
    )
    assert isinstance(settings.share, float)


def test_a_single_value_stands_for_a_list_of_one(tmp_path: Path) -> None:
    path = recipe(tmp_path, 'model = "m"\ntrain = "a.csv"\n[optim]\nlearning_rate = 1\n')
    settings = read_recipe(RunSettings, path)
    assert settings.train == (Path("a.csv"),)
    assert settings.optim.learning_rate == (1.0,)


@pytest.mark.parametrize("value", [3, "encoder"])
def test_a_union_takes_each_of_its_types(tmp_path: Path, value: int | str) -> None:
    path = recipe(tmp_path, f'model = "m"\nfreeze = {value!r}\n')
    assert read_recipe(RunSettings, path).freeze == value


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(b'\xef\xbb\xbfmodel = "m"\n')
    assert read_recipe(RunSettings, path).model == "m"


def test_all_unknown_names_are_told_at_once_with_file_path_and_nearest(tmp_path: Path) -> None:
    path = recipe(
        tmp_path,
        """
        model = "m"
        epoch = 3
        learning_rate = 1.0
        [optim]
        lerning_rate = 2e-5
        [comon]
        seed = 1
        """,
    )
    with pytest.raises(UsageError) as caught:
        read_recipe(RunSettings, path)
    lines = str(caught.value).splitlines()
    assert lines == [
        f"{path}: there is no setting epoch; did you mean 'epochs'?",
        f"{path}: there is no setting learning_rate; did you mean 'optim.learning_rate'?",
        f"{path}: there is no setting optim.lerning_rate; did you mean 'optim.learning_rate'?",
        f"{path}: there is no setting comon; did you mean 'common'?",
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("epochs = 2.5", "epochs is 2.5; expected a whole number"),
        ("epochs = true", "epochs is True; expected a whole number"),
        ('share = "half"', "share is 'half'; expected a number"),
        ('overwrite = "yes"', "overwrite is 'yes'; expected true or false"),
        ("output = 3", "output is 3; expected a path"),
        ("model = 3", "model is 3; expected a text"),
        ('train = ["a", 3]', "train is ['a', 3]; expected a list, each a path"),
        (
            "freeze = 1.5",
            "freeze is 1.5; expected a whole number or one of 'encoder', 'embeddings'",
        ),
        ("optim = 3", "optim is 3; expected a table, [optim]"),
        ("epochs = { a = 1 }", "epochs is {'a': 1}; expected a whole number"),
    ],
)
def test_a_value_of_the_wrong_kind(tmp_path: Path, line: str, complaint: str) -> None:
    path = recipe(tmp_path, line)
    with pytest.raises(UsageError) as caught:
        read_recipe(RunSettings, path)
    assert str(caught.value) == f"{path}: {complaint}"


def test_what_has_no_default_must_be_given(tmp_path: Path) -> None:
    path = recipe(tmp_path, "epochs = 2")
    with pytest.raises(UsageError, match="must also give model, which have no default"):
        read_recipe(RunSettings, path)


def test_the_checks_of_a_dataclass_run(tmp_path: Path) -> None:
    path = recipe(tmp_path, 'model = "m"\nepochs = 0')
    with pytest.raises(UsageError, match="epochs is 0; it must be at least 1"):
        read_recipe(RunSettings, path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    broken = recipe(tmp_path, "model = \n")
    with pytest.raises(UsageError, match=r"recipe\.toml is not valid TOML: .*line 1"):
        read_recipe(RunSettings, broken)
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'model = "caf\xe9"')
    with pytest.raises(UsageError, match=r"latin\.toml is not UTF-8 \(byte 12\)"):
        read_recipe(RunSettings, latin)
    with pytest.raises(UsageError, match=r"cannot read the recipe .*none\.toml: No such file"):
        read_recipe(RunSettings, tmp_path / "none.toml")


@dataclass(frozen=True)
class Wrong:
    weights: dict[str, float] = field(default_factory=dict)
    warmup: float | None = 0.06
    clip: float = 1.0
    optim: OptimSettings = field(default_factory=OptimSettings)


def test_settings_that_no_recipe_can_hold_are_refused_together() -> None:
    with pytest.raises(ConfigError) as caught:
        leaves(Wrong)
    message = str(caught.value)
    assert "weights has type dict[str, float]" in message
    assert "warmup may be None, so its default must be None" in message
    assert "clip and optim.clip share --clip" in message


def test_a_switch_and_its_negation_both_count_as_flags() -> None:
    @dataclass(frozen=True)
    class Clash:
        header: bool = True
        no_header: int = 0

    with pytest.raises(ConfigError, match="header and no_header share --no-header"):
        leaves(Clash)


# --- writing ----------------------------------------------------------------------------------

numbers = st.floats(allow_nan=False)
# TOML is UTF-8, so lone surrogates cannot be written.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
common = st.builds(
    CommonSettings,
    seed=st.integers(-(2**62), 2**62),
    device=st.none() | texts,
    policy=st.sampled_from(["head", "tail", "head+tail", "windows"]),
    header=st.none() | st.booleans(),
)
runs = st.builds(
    RunSettings,
    model=texts,
    train=st.lists(st.sampled_from([Path("a b"), Path('q"\\.csv')]), max_size=3).map(tuple),
    epochs=st.integers(1, 9),
    share=st.none() | numbers,
    freeze=st.none() | st.integers(0, 9) | st.sampled_from(["encoder", "embeddings"]),
    output=st.none() | st.just(Path("out")),
    overwrite=st.booleans(),
    optim=st.builds(
        OptimSettings, learning_rate=st.lists(numbers, max_size=3).map(tuple), clip=numbers
    ),
    common=common,
)


@given(settings=runs)
def test_a_written_recipe_reads_back_as_it_was(
    settings: RunSettings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = recipe(tmp_path_factory.getbasetemp(), to_toml(settings))
    assert read_recipe(RunSettings, path) == settings


def test_a_written_recipe_is_tables_after_values_without_what_is_none() -> None:
    assert to_toml(RunSettings(model="m", optim=OptimSettings((1e-5, 2.0)))) == (
        'model = "m"\ntrain = []\nepochs = 3\noverwrite = false\n'
        "\n[optim]\nlearning_rate = [1e-05, 2.0]\nclip = 1.0\n"
        '\n[common]\nseed = 0\nprecision = "auto"\n'
    )


@dataclass(frozen=True)
class Deep:
    run: RunSettings = field(default_factory=lambda: RunSettings(model="m"))
    kind: Literal["a", "b"] = "a"


def test_tables_in_tables_have_dotted_names() -> None:
    table: dict[str, Any] = tomllib.loads(to_toml(Deep()))
    assert table["kind"] == "a"
    assert table["run"]["optim"]["clip"] == 2.0
    assert "run.optim.learning_rate" in leaves(Deep)


def test_defaults_inside_a_table_are_those_of_its_owner() -> None:
    assert leaves(RunSettings)["optim.clip"].default == 2.0
    assert leaves(OptimSettings)["clip"].default == 1.0
    assert leaves(RunSettings)["model"].default is dataclasses.MISSING
