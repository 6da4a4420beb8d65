"""The public surface: which names there are, that each resolves, and what importing costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bothways


@pytest.mark.parametrize("name", bothways.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(bothways, name) is not None


def test_public_names_are_sorted_and_listed() -> None:
    assert bothways.__all__ == sorted(bothways.__all__)
    assert set(bothways.__all__) <= set(dir(bothways))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Modle'"):
        bothways.__getattr__("Modle")


def test_every_error_of_the_tree_is_public() -> None:
    from bothways import errors

    tree = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.BothwaysError)
    }
    assert tree <= set(bothways.__all__)


@pytest.mark.parametrize(
    "statement",
    [
        "import bothways",
        "from bothways import BothwaysError, UsageError",
        "from bothways.cli import main",
    ],
)
def test_importing_costs_no_heavy_library(statement: str) -> None:
    """transformers#44273: an import that takes seconds, because it brings everything along."""
    heavy = "torch numpy tokenizers transformers pyarrow sklearn scipy tyro rich matplotlib"
    probe = f"{statement}\nimport sys\nprint(*[n for n in {heavy.split()!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
