"""A masked-LM loss with compiled layers, in a process without the test run's checks of types.

`python -m tests.training.compiled` prints how far loss and gradients are from plain ones.
"""

from __future__ import annotations

import json
import sys

import torch

from bothways.training.recompute import compile_forward
from tests.training.masks import masked_batch
from tests.training.test_masked_lm import LENGTHS, masked_parts, objective_of, without_dropout


def main() -> None:
    """Compile, run, compare."""
    found = []
    for compiled in (False, True):
        objective = objective_of(masked_parts(without_dropout("tiny"))).eval()
        for block in objective.encoder.layers if compiled else ():
            compile_forward(block.get_submodule("feedforward"), backend="eager")
        loss = objective(masked_batch(objective.encoder.config, LENGTHS))[0]
        torch.autograd.backward(loss)
        slopes = {n: p.grad for n, p in objective.named_parameters() if p.grad is not None}
        found.append(slopes | {"loss": loss})
    plain, other = found
    differences = [float((plain[name] - other[name]).detach().abs().max()) for name in plain]
    same_names = list(plain) == list(other)
    sys.stdout.write(json.dumps({"largest": max(differences), "same_names": same_names}))


if __name__ == "__main__":
    main()
