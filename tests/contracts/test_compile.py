"""torch.compile takes an encoder as one graph, in half precision, with the same numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.contracts.compiled import COMPILED

# bfloat16 rounds by 2 ** -9 at states of size 1 to 4; a graph may round in other places.
HALF = 0.05


def test_compiled_encoders_keep_one_number_format_and_their_numbers(project: Path) -> None:
    """transformers#35382, #39017, #48925: compiled, float32 angles met states in half precision.

    `fullgraph` refuses anything that would break the graph, such as a mask that depends on values.
    """
    command = [sys.executable, "-m", "tests.contracts.compiled"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert {dtype for dtype, _ in found.values()} == {"torch.bfloat16"}
    assert set(found) == set(COMPILED)
    assert max(difference for _, difference in found.values()) < HALF
