"""`bothways plan` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Command

TEXTS = [f"text {number} about nothing much" for number in range(20)]


def test_the_command_measures_here_alone_unless_a_device_is_named(
    bothways: Command, minilm: Path, tmp_path: Path
) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(TEXTS) + "\n", "utf-8")
    found = bothways("plan", "--model", minilm, "--data", data, "--json").json
    assert [rate["where"] for rate in found["rates"]] == ["here", "here"]
    assert found["texts"] == len(TEXTS)
    assert all(rate["cost"] is None for rate in found["rates"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "m"], "--data"),
        (["--data", "d.csv"], "--model"),
        ([], "--preset"),
        (["--model", "m", "--data", "d.csv", "--preset", "mini"], "one of both"),
    ],
)
def test_what_is_missing_or_too_much_is_named(
    bothways: Command, words: list[str], said: str
) -> None:
    bothways.fails("plan", *words, code=2, parts=[said])
