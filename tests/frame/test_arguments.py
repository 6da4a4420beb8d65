"""The command line over settings: flags, lists, recipes below flags, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.cli.arguments import Invocation, parse
from bothways.config import CommonSettings, leaves
from bothways.errors import UsageError
from tests.frame.settings_for_tests import OptimSettings, RunSettings, WordsSettings


def run(*arguments: str) -> Invocation[RunSettings]:
    return parse(RunSettings, arguments, program="bothways run", description="Run.")


def words(*arguments: str) -> WordsSettings:
    given = parse(WordsSettings, arguments, program="bothways words", description="Read words.")
    return given.settings


def test_flags_are_flat_and_dashed() -> None:
    given = run("--model", "m", "--learning-rate", "2e-5,3e-5", "--max-length=64", "--overwrite")
    assert given == Invocation(
        RunSettings(
            model="m",
            overwrite=True,
            optim=OptimSettings((2e-5, 3e-5), clip=2.0),
            common=CommonSettings(max_length=64),
        ),
        json=False,
        config=None,
    )


def test_lists_are_split_at_commas_and_may_be_several_words() -> None:
    assert run("--model", "m", "--train", "a.csv", "b.csv,c.csv").settings.train == (
        Path("a.csv"),
        Path("b.csv"),
        Path("c.csv"),
    )
    assert words("m", "--layers", "0,-1").layers == (0, -1)


def test_positional_texts_keep_their_commas_and_dashes() -> None:
    assert words("m", "one, two", "three").texts == ("one, two", "three")
    assert words("m", "--", "--not a flag").texts == ("--not a flag",)


@pytest.mark.parametrize(
    ("arguments", "header"), [((), None), (("--header",), True), (("--no-header",), False)]
)
def test_a_switch_that_may_be_unset(arguments: tuple[str, ...], header: bool | None) -> None:
    assert words("m", *arguments).header is header


def test_defaults_give_way_to_the_recipe_and_the_recipe_to_flags(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('model = "from recipe"\nepochs = 7\n[optim]\nclip = 5\n', encoding="utf-8")
    for arguments in (("--config", str(path)), (f"--config={path}",)):
        given = run(*arguments, "--epochs", "2")
        assert given.config == path
        assert given.settings.model == "from recipe"
        assert given.settings.epochs == 2
        assert given.settings.optim == OptimSettings(clip=5.0)


def test_a_recipe_is_checked_only_after_flags_have_won(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('model = "m"\nepochs = 0\n', encoding="utf-8")
    assert run("--config", str(path), "--epochs", "1").settings.epochs == 1
    with pytest.raises(UsageError, match="epochs is 0; it must be at least 1"):
        run("--config", str(path))


def test_a_flag_that_may_stand_alone_has_its_value_and_takes_others() -> None:
    for alone in (["--train", "--model", "m"], ["--model", "m", "--train"]):
        assert run(*alone).settings.train == (Path("a.csv"), Path("b.csv"))
    assert run("--model", "m", "--train", "c.csv").settings.train == (Path("c.csv"),)


def test_unknown_flags_are_told_at_once_with_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        run("--modle", "m", "--lerning-rate=3", "--no-headr", "--overwrite")
    assert str(caught.value).splitlines() == [
        "bothways run: there is no flag --modle; did you mean '--model'?",
        "bothways run: there is no flag --lerning-rate; did you mean '--learning-rate'?",
        "bothways run: there is no flag --no-headr; did you mean '--no-header'?",
    ]


def test_an_unknown_name_in_the_recipe_names_file_and_path(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('model = "m"\n[optim]\nlerning_rate = 1\n', encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        run("--config", str(path))
    assert str(caught.value) == (
        f"{path}: there is no setting optim.lerning_rate; did you mean 'optim.learning_rate'?"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--model"),
        (("--model", "m", "--epochs", "many"), "--epochs"),
        (("--model", "m", "--policy", "hed"), "'hed'"),
        (("--model", "m", "--learning-rate", "1,two"), "'two'"),
        (("--model", "m", "--learning-rate"), "--learning-rate"),
        (("--model", "m", "--train", "a,,b"), "a,,b"),
        (("--model", "m", "stray"), "stray"),
    ],
)
def test_missing_and_malformed_values_exit_with_2(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err


def test_help_shows_every_flag_and_what_the_class_says_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        run("--help")
    assert caught.value.code == 0
    page = capsys.readouterr().out
    for leaf in leaves(RunSettings).values():
        assert leaf.flag in page
    assert "step size; several make a grid." in page
    assert "--config" in page
    assert "--json" in page
    assert "--train PATH,... data files. (default: None)" in " ".join(page.replace("│", "").split())


def test_json_is_told_apart_from_the_settings() -> None:
    assert run("--model", "m", "--json").json
