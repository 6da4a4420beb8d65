"""Processes that fork after the engine's threads have been used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bothways.tokenization.forks import SWITCH

SCRIPT = """
import os, sys
from bothways.tokenization.tokenizer import load_tokenizer
tokenizer = load_tokenizer(sys.argv[1])
texts = ["the quick brown fox"] * 64
expected = tokenizer.encode_ids(texts, policy=None)
child = os.fork()
if child == 0:
    same = tokenizer.encode_ids(texts, policy=None) == expected
    os._exit(0 if same else 3)
_, status = os.waitpid(child, 0)
assert tokenizer.encode_ids(texts, policy=None) == expected
print(os.waitstatus_to_exitcode(status), os.environ.get("TOKENIZERS_PARALLELISM"))
"""
ENOUGH_SECONDS = 60  # a child that hangs never ends


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("switch", [None, "true", "false"])
def test_a_forked_child_reads_without_hanging_or_warning(
    minilm: Path, project: Path, switch: str | None
) -> None:
    """transformers#5486, skrub#1251: a child hung, or the engine warned on every fork."""
    environment = {key: value for key, value in os.environ.items() if key != SWITCH}
    if switch is not None:
        environment[SWITCH] = switch
    environment["PYTHONPATH"] = str(project / "src")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(minilm)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=ENOUGH_SECONDS,
        check=True,
    )
    assert done.stdout.split() == ["0", str(switch)]  # and the parent's setting is as before
    assert done.stderr == ""
