"""The examples run, and do what they say."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import bothways

# Real activations in float32, summed in another order.
PARITY = 2e-5


@pytest.fixture
def five_lines(project: Path) -> dict[str, Any]:
    return runpy.run_path(str(project / "examples" / "five_lines.py"))


def test_the_five_lines_learn(project: Path, minilm: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(project / "examples" / "five_lines.py"), str(minilm)],
        capture_output=True,
        text=True,
        check=True,
    )
    losses = [float(word) for word in done.stdout.split()]
    assert len(losses) == 8
    assert losses[-1] < 0.7 * losses[0]


def test_the_five_lines_give_what_the_usual_ones_give(
    five_lines: dict[str, Any], minilm: Path
) -> None:
    model = bothways.load(minilm)
    head = torch.nn.Linear(384, 2)
    texts = ["a fine film", "", "a much longer text about nothing in particular, " * 9]
    kinds: Any = transformers
    encoder = kinds.AutoModel.from_pretrained(minilm).eval()
    tokenizer = kinds.AutoTokenizer.from_pretrained(minilm)
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = head(encoder(**batch).last_hidden_state[:, 0])
        given = five_lines["logits_of"](model, head, texts)
    torch.testing.assert_close(given, expected, atol=PARITY, rtol=PARITY)
