"""`bothways demo`, with a tiny encoder in place of the real one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bothways.cli.commands.demo import LEAST_DOCS, QUESTIONS
from bothways.inference.model import load
from tests.cli.command import Command


@pytest.fixture
def told(bothways: Command, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return bothways("demo", "--model", tiny, "--max-length", "24", "--docs", "200").out


def test_it_tells_a_story_and_leaves_a_model(told: str, tmp_path: Path) -> None:
    for part in ("1. Which chapter", "200 to learn from", *QUESTIONS, "3. Yours to try:"):
        assert part in told
    report = json.loads((tmp_path / "demo" / "model" / "report.json").read_text(encoding="utf-8"))
    assert {"majority", "bag_of_words"} <= set(report["baselines"])
    assert "accuracy" in told
    assert (tmp_path / "demo" / "model" / "report.html").exists()
    assert len(load(tmp_path / "demo" / "model").predict(["Return the file."])) == 1


def test_numbers_that_cannot_be_are_refused_before_anything_is_read(
    bothways: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bothways.fails("demo", "--docs", "-3", code=2, parts=["--docs is -3", "at least 100"])
    bothways.fails("demo", "--max-length", "0", code=2, parts=["--max-length is 0"])
    assert not (tmp_path / "demo").exists()


def test_the_fewest_docs_will_do(
    bothways: Command, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chapters that they lack are not judged."""
    monkeypatch.chdir(tmp_path)
    bothways("demo", "--model", tiny, "--max-length", "24", "--docs", LEAST_DOCS)
