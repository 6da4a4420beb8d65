"""The budget checks find what they are for, and nothing in what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import budgets


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project that keeps all budgets."""
    package = tmp_path / "src" / "bothways"
    (package / "model").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text("x = 1\n" * 9, encoding="utf-8")
    (package / "model" / "block.py").write_text(
        '"""As in BERT."""\n\n\ndef norm() -> int:\n    """RoBERTa\'s."""\n    return 1  # bert\n',
        encoding="utf-8",
    )
    write_names(tmp_path, ["Encoder", "load"], ("Encoder", "load"))
    return tmp_path


def write_names(project: Path, public: list[str], typed: tuple[str, ...]) -> None:
    (project / "src" / "bothways" / "__init__.py").write_text(
        f"if TYPE_CHECKING:\n    from bothways.model.block import {', '.join(typed)}\n"
        f"__all__ = {public!r}\n"
        '_HOMES = {"model.block": "Encoder load"}\n',
        encoding="utf-8",
    )


def test_a_tree_that_keeps_the_budgets(tree: Path) -> None:
    assert [complaint for check in budgets.CHECKS for complaint in check(tree)] == []


def test_a_file_of_401_lines(tree: Path) -> None:
    path = tree / "src" / "bothways" / "long.py"
    path.write_text("x = 1\n" * 400, encoding="utf-8")
    assert budgets.long_files(tree) == []
    path.write_text("x = 1\n" * 401, encoding="utf-8")
    assert budgets.long_files(tree) == ["src/bothways/long.py: 401 lines; at most 400"]


@pytest.mark.parametrize("name", ["utils.py", "model/helpers.py", "common/__init__.py"])
def test_a_module_that_says_nothing(tree: Path, name: str) -> None:
    path = tree / "src" / "bothways" / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert budgets.vague_modules(tree) == [f"src/bothways/{name}: name it after what is in it"]


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("class BertLayer: ...", "BertLayer"),
        ("def load_roberta(): ...", "load_roberta"),
        ("kind == 'deberta-v2'", "deberta-v2"),
        ("config.is_albert", "is_albert"),
        ("from bothways.families import xlm", "xlm"),
        ("def build(bert=1): ...", "bert"),
        ("print(f'an ELECTRA head {1}')", "an ELECTRA head "),
    ],
)
def test_a_family_named_in_the_model(tree: Path, code: str, word: str) -> None:
    (tree / "src" / "bothways" / "model" / "odd.py").write_text(f"\n{code}\n", encoding="utf-8")
    assert budgets.families_in_model(tree) == [
        f"src/bothways/model/odd.py, line 2: {word!r} names a family; make it an axis"
    ]


def test_words_that_only_look_like_a_family(tree: Path) -> None:
    (tree / "src" / "bothways" / "model" / "fine.py").write_text(
        "hubert = 'Robert'\nliberty = 'Alberta'\n", encoding="utf-8"
    )
    assert budgets.families_in_model(tree) == []


@pytest.mark.parametrize(
    ("public", "typed", "complaint"),
    [
        (["load", "Encoder"], ("Encoder", "load"), "__all__ is not sorted"),
        (["Encoder"], ("Encoder", "load"), "__all__ and _HOMES differ in load"),
        (
            ["Encoder", "load"],
            ("Encoder",),
            "_HOMES and the typed imports differ in bothways.model.block.load",
        ),
    ],
)
def test_public_names_that_do_not_agree(
    tree: Path, public: list[str], typed: tuple[str, ...], complaint: str
) -> None:
    write_names(tree, public, typed)
    assert budgets.public_names(tree) == [f"src/bothways/__init__.py: {complaint}"]


def test_the_ratio_of_tests_to_source(tree: Path) -> None:
    assert budgets.ratio(tree).startswith("10 lines of source, 9 of tests: 0.90 test lines")
