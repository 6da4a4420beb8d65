"""Every command of the table: it is there, its settings fit a recipe, its flags have help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import pytest

from bothways.cli.main import COMMANDS, main
from bothways.config import Leaf, leaves

NAMES = [command.name for group in COMMANDS.values() for command in group]
MODULES = {c.name: c.module for group in COMMANDS.values() for c in group}


def test_no_command_is_named_twice() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_every_module_of_a_command_is_in_the_table(project: Path) -> None:
    folder = project / "src" / "bothways" / "cli" / "commands"
    written = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert written <= {module.rpartition(".")[2] for module in MODULES.values()}


@pytest.mark.parametrize("name", NAMES)
def test_a_command_takes_its_settings_and_nothing_else(name: str) -> None:
    module = import_module(MODULES[name])
    assert leaves(module.Settings)
    assert len(inspect.signature(module.run).parameters) == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_flag_of_a_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    page = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert undocumented(leaves(import_module(MODULES[name]).Settings).values(), page) == []


def undocumented(known: Iterable[Leaf], page: str) -> list[str]:
    """Flags without a text between their metavar and their default."""
    bare = []
    for leaf in (each for each in known if each.flags):
        flag = rf"{re.escape(leaf.flag)}(, --no-\S+)?( [^\s(]\S*)?"
        positional = rf"\[?{re.escape(leaf.flag[2:].upper())}\]?"
        entry = re.search(rf" ({flag}|{positional}) (?P<help>.*?)\((default|required)", page)
        if entry is None or not entry["help"].strip():
            bare.append(leaf.flag)
    return bare


def test_a_flag_without_help_is_found() -> None:
    known = [Leaf("optim.clip", float, 1.0), Leaf("model", str, ""), Leaf("header", bool, True)]
    page = " --clip FLOAT largest norm. (default: 1.0) {} --header, --no-header (default: True)"
    assert undocumented(known, page.format("MODEL (required)")) == ["--model", "--header"]
    assert undocumented(known[:2], page.format("MODEL folder. (required)")) == []
