"""Documents that cannot lie: commands and flags exist, Python runs, files are where they say."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from bothways.cli.main import COMMANDS
from bothways.config import leaves

PROJECT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
MODULES = {c.name: c.module for group in COMMANDS.values() for c in group}


def blocks(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and content."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """The words after `bothways` of each command line in a page's blocks."""
    lines = [
        line
        for language, block in blocks(text)
        if language in ("", "sh", "bash", "console")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    return [
        shlex.split(line.removeprefix("$ "), comments=True)[1:]
        for line in lines
        if line.removeprefix("$ ").startswith("bothways ")
    ]


def unknown(words: list[str]) -> list[str]:
    """What a command line names that does not exist."""
    name = " ".join(words[:2]) if " ".join(words[:2]) in MODULES else words[0]
    if name not in MODULES:
        return [] if name.startswith("--") else [name]
    known = {
        f for leaf in leaves(import_module(MODULES[name]).Settings).values() for f in leaf.flags
    }
    known |= {"--config", "--json", "--help"}
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [flag for flag in flags if flag not in known]


PAGES = [pytest.param(page, id=str(page.relative_to(PROJECT))) for page in DOCUMENTS]
PYTHON = [
    pytest.param(code, id=f"{page.relative_to(PROJECT)}-{number}")
    for page in DOCUMENTS
    for number, (language, code) in enumerate(blocks(page.read_text(encoding="utf-8")))
    if language == "python"
]


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_left_to_be_filled_in(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert not re.findall(r"^[A-Z_]{4,}$|\b(?:TODO|TBD)\b", text, re.M)


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_flags_exist(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        assert unknown(words) == [], " ".join(words)


@pytest.mark.parametrize("code", PYTHON)
def test_python_runs(
    code: str,
    minilm: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    labels = ("card", "fee") * 12
    rows = [f"text {number} about {label},{label}" for number, label in enumerate(labels)]
    Path("train.csv").write_text("\n".join(["text,category", *rows]), encoding="utf-8")
    if "export(" in code:  # torch traces with symbolic sizes, which checked types refuse
        request.getfixturevalue("unchecked")
    exec(compile(code.replace('"MODEL"', repr(str(minilm))), "document", "exec"), {})  # noqa: S102


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_architecture_names_files_that_exist() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+/\w+\.py)`", text))
    package = PROJECT / "src" / "bothways"
    assert len(named) > 10
    missing = {
        path for path in named if not any((at / path).is_file() for at in (package, PROJECT))
    }
    # Places for things to come, and the pattern of a name.
    assert {path for path in missing if not path.endswith("/x.py")} <= {"serving/app.py"}


def test_the_checks_of_this_file_find_what_is_wrong() -> None:
    page = "```\nbothways embed --modle M \\\n  --json --input a.txt\nbothways embd --x\n```\n"
    assert [unknown(words) for words in commands(page)] == [["--modle"], ["embd"]]
    assert commands("```python\nbothways nothing\n```\n") == []
