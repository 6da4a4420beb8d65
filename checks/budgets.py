"""Budgets that no linter knows: the length of files, names that must not occur, the public names.

Run as `python checks/budgets.py`; prints every breach and exits with 1 if there is one. Each check
is a function from a project folder to complaints.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

MOST_LINES = 400
TEST_SHARE = (0.8, 1.0)
FAMILIES = (
    "albert",
    "bert",
    "camembert",
    "deberta",
    "distilbert",
    "electra",
    "flaubert",
    "modernbert",
    "roberta",
    "xlm",
)
VAGUE_MODULES = ("common", "helper", "helpers", "misc", "shared", "util", "utils")


def long_files(project: Path) -> list[str]:
    """Source files longer than the budget: which noun is hiding in there?"""
    return [
        f"{path.relative_to(project)}: {count} lines; at most {MOST_LINES}"
        for path in _sources(project)
        if (count := _lines(path)) > MOST_LINES
    ]


def vague_modules(project: Path) -> list[str]:
    """Modules whose names say nothing of what is in them."""
    return [
        f"{path.relative_to(project)}: name it after what is in it"
        for path in _sources(project)
        if path.stem in VAGUE_MODULES or path.parent.name in VAGUE_MODULES
    ]


def families_in_model(project: Path) -> list[str]:
    """Names of published families in model/, where variants are data; docstrings may name them."""
    family = re.compile(rf"(?<![a-z])({'|'.join(FAMILIES)})(?![a-z])", re.IGNORECASE)
    return [
        f"{path.relative_to(project)}, line {line}: {word!r} names a family; make it an axis"
        for path in sorted((project / "src" / "bothways" / "model").rglob("*.py"))
        for line, word in _words(ast.parse(path.read_text(encoding="utf-8")))
        if family.search(_spaced(word))
    ]


def public_names(project: Path) -> list[str]:
    """`__all__`, the lazy table and the imports for type checkers name the same, sorted."""
    path = project / "src" / "bothways" / "__init__.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    values = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("__all__", "_HOMES")
    }
    table = {
        (f"bothways.{home}", name)
        for home, names in values["_HOMES"].items()
        for name in names.split()
    }
    typed = {
        (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bothways.")
        for alias in node.names
    }
    complaints = []
    if values["__all__"] != sorted(values["__all__"]):
        complaints.append("__all__ is not sorted")
    if set(values["__all__"]) != {name for _, name in table}:
        wrong = set(values["__all__"]) ^ {name for _, name in table}
        complaints.append(f"__all__ and _HOMES differ in {', '.join(sorted(wrong))}")
    if table != typed:
        wrong = {".".join(pair) for pair in table ^ typed}
        complaints.append(f"_HOMES and the typed imports differ in {', '.join(sorted(wrong))}")
    return [f"{path.relative_to(project)}: {complaint}" for complaint in complaints]


CHECKS: tuple[Callable[[Path], list[str]], ...] = (
    long_files,
    vague_modules,
    families_in_model,
    public_names,
)


def ratio(project: Path) -> str:
    """One line that says how many lines of source and tests there are."""
    source = sum(map(_lines, _sources(project)))
    tests = sum(map(_lines, (project / "tests").rglob("*.py")))
    low, high = TEST_SHARE
    return (
        f"{source} lines of source, {tests} of tests: {tests / source:.2f} test lines a source "
        f"line (wanted: {low} to {high})"
    )


def main() -> int:
    """Run all checks on this project."""
    project = Path(__file__).resolve().parent.parent
    complaints = [complaint for check in CHECKS for complaint in check(project)]
    print("\n".join([*complaints, ratio(project)]))
    return 1 if complaints else 0


def _sources(project: Path) -> list[Path]:
    return sorted((project / "src").rglob("*.py"))


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _spaced(word: str) -> str:
    """`BertLayer` and `load_bert` with their parts apart."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word)


def _words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name and string constant of a file, docstrings left out."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node not in docstrings:
                yield node.lineno, node.value
            continue
        for field in ("id", "attr", "name", "arg", "module", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield getattr(node, "lineno", 0), value


if __name__ == "__main__":
    sys.exit(main())
