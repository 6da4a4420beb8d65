"""Each equation compiled to one graph, in a process without the test run's checks of types.

`python -m tests.contracts.compiled` prints, for each, its number format and how far the graph's
numbers are from plain ones; `test_compile.py` reads that.
"""

from __future__ import annotations

import json
import sys

import torch

from tests.contracts.cases import CASES, draw_ids, make_encoder

# Every equation that a graph can hold; the rest are the same ones with other numbers.
COMPILED = ("bert", "modern", "deberta-v3", "convolution")


def main() -> None:
    """Compile, run on a ragged rectangle, compare."""
    found = {}
    mask = (torch.arange(9) < torch.tensor([9, 4, 1])[:, None]).long()
    for name in COMPILED:
        encoder = make_encoder(CASES[name], dtype=torch.bfloat16)
        ids, types = draw_ids(CASES[name], mask.shape)
        torch.compiler.reset()
        compiled = torch.compile(encoder.padded, backend="eager", fullgraph=True)
        with torch.no_grad():
            made = compiled(ids, mask, types).last_hidden
            plain = encoder.padded(ids, mask, types).last_hidden
        found[name] = (str(made.dtype), float((made - plain).abs().max()))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
