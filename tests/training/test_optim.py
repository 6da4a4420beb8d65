"""Which parameters decay, and the clipping of gradients."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from bothways.errors import TrainingError
from bothways.training.optim import adamw, clip_gradients, parameter_groups, set_learning_rate
from tests.training.runs import ToyObjective

# Two orders of adding the same float32 squares.
NORM_TOLERANCE = 1e-6


def names_in(module: nn.Module, group: dict[str, object]) -> set[str]:
    of = {id(parameter): name for name, parameter in module.named_parameters()}
    parameters = group["params"]
    assert isinstance(parameters, list)
    return {of[id(parameter)] for parameter in parameters}


def test_biases_and_norms_do_not_decay() -> None:
    objective = ToyObjective()
    decayed, plain = parameter_groups(objective, weight_decay=0.01)
    assert decayed["weight_decay"] == 0.01
    assert plain["weight_decay"] == 0.0
    names = names_in(objective, plain)
    assert names == {
        name for name, _ in objective.named_parameters() if name.endswith("bias") or "norm" in name
    }
    assert names | names_in(objective, decayed) == dict(objective.named_parameters()).keys()


def test_frozen_parameters_are_left_out_and_tied_ones_stand_once() -> None:
    module = nn.ModuleDict({"table": nn.Embedding(5, 4), "output": nn.Linear(4, 5)})
    module["output"].weight = module["table"].weight
    module["output"].bias.requires_grad_(False)
    (group,) = parameter_groups(module, weight_decay=0.1)
    assert len(group["params"]) == 1


def test_nothing_to_train_is_refused() -> None:
    with pytest.raises(TrainingError, match="every parameter is frozen"):
        parameter_groups(nn.Linear(2, 2).requires_grad_(False), weight_decay=0.0)


def test_the_optimizer_is_fused_adamw_and_keeps_its_peak_rate() -> None:
    optimizer = adamw(ToyObjective(), learning_rate=5e-5)
    assert optimizer.defaults["fused"] is True
    assert set_learning_rate(optimizer, 0.5) == 2.5e-5
    assert {group["lr"] for group in optimizer.param_groups} == {2.5e-5}
    assert set_learning_rate(optimizer, 1.0) == 5e-5


def test_decay_moves_matrices_and_not_biases_without_a_gradient_signal() -> None:
    layer = nn.Linear(3, 3)
    nn.init.ones_(layer.weight)
    nn.init.ones_(layer.bias)
    optimizer = adamw(layer, learning_rate=0.1, weight_decay=0.5)
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert torch.allclose(layer.weight, torch.full((3, 3), 0.95))
    assert torch.equal(layer.bias, torch.ones(3))


@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1000.0])
def test_clipping_equals_torch(max_norm: float) -> None:
    ours = [nn.Parameter(torch.zeros(n)) for n in (3, 50, 7)]
    theirs = copy.deepcopy(ours)
    for mine, other in zip(ours, theirs, strict=True):
        mine.grad = torch.randn_like(mine)
        other.grad = mine.grad.clone()
    expected = nn.utils.clip_grad_norm_(theirs, max_norm)
    norm = clip_gradients(ours, max_norm)
    assert abs(float(norm - expected)) < NORM_TOLERANCE * float(expected)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(mine.grad, other.grad, rtol=NORM_TOLERANCE, atol=0.0)


def test_without_a_limit_only_the_norm_is_taken() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([3000.0, 4000.0])
    assert float(clip_gradients([parameter], 0.0)) == 5000.0
    assert parameter.grad.tolist() == [3000.0, 4000.0]


def test_parameters_without_a_gradient_are_left_out() -> None:
    used, unused = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    used.grad = torch.tensor([2.0])
    assert float(clip_gradients([used, unused], 1.0)) == 2.0
    assert abs(float(used.grad) - 1.0) < NORM_TOLERANCE
