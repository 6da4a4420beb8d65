"""Settings that change no number: recomputed activations, compiled layers."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bothways.errors import UsageError
from bothways.model.encoder import Encoder
from bothways.training.dropout import with_dropout
from bothways.training.masked_lm import MaskedLMObjective
from bothways.training.recompute import compile_layers, recompute_activations
from bothways.training.runtime import seeded
from tests.training.masks import masked_batch
from tests.training.runs import tiny_config
from tests.training.test_masked_lm import LENGTHS, masked_parts, objective_of, without_dropout

# A compiled graph may order sums otherwise.
SAME = 1e-5


def objective() -> MaskedLMObjective:
    config = without_dropout("tiny")
    parts = masked_parts(config)
    rates = {"hidden": 0.2, "attention": 0.1}
    parts = dataclasses.replace(parts, encoder=with_dropout(parts.encoder, rates))
    return objective_of(parts).train()


def gradients(made: MaskedLMObjective) -> dict[str, Tensor]:
    with seeded(3, device=torch.device("cpu")):
        loss = made(masked_batch(made.encoder.config, LENGTHS))[0]
        torch.autograd.backward(loss)
    found = {name: p.grad for name, p in made.named_parameters() if p.grad is not None}
    return {"loss": loss.detach(), **found}


def test_recomputed_layers_give_the_same_bits_with_dropout_on() -> None:
    plain, again, off = objective(), objective(), objective().eval()
    recompute_activations(again.encoder)
    expected, found = gradients(plain), gradients(again)
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert not torch.equal(gradients(off)["loss"], expected["loss"])


def test_recomputing_runs_each_layer_twice_in_training_and_once_in_evaluation() -> None:
    encoder = Encoder(tiny_config())
    recompute_activations(encoder)
    calls: list[int] = []
    encoder.layers[0].get_submodule("feedforward").register_forward_pre_hook(
        lambda *given: calls.append(1)
    )
    batch = masked_batch(tiny_config(), [5, 5])
    torch.autograd.backward(encoder(batch).last_hidden.sum())
    assert len(calls) == 2
    with torch.no_grad():
        encoder.eval()(batch)
    assert len(calls) == 3


def test_compiled_layers_give_the_same_numbers_under_the_same_names(project: Path) -> None:
    command = [sys.executable, "-m", "tests.training.compiled"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert found["same_names"]
    assert found["largest"] < SAME


def test_compiling_on_a_cpu_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="plain kernels are as fast"):
        compile_layers(Encoder(tiny_config()), torch.device("cpu"))
