"""Which parameters decay, and the clipping of gradients."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from bothways.errors import TrainingError
from bothways.training.optim import (
    Together,
    adamw,
    clip_gradients,
    make_optimizer,
    muon,
    parameter_groups,
    set_learning_rate,
    stable_adamw,
)
from bothways.training.stable_adamw import StableAdamW
from bothways.training.state import load_optimizer, optimizer_tensors
from bothways.training.stored import StoredTensors
from tests.training.runs import ToyObjective, same_bits

# Two orders of adding the same float32 squares.
NORM_TOLERANCE = 1e-6
# The same equation in another order of operations, in float32.
UPDATE_TOLERANCE = 1e-6


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


# --- bounded updates --------------------------------------------------------------------------


def moved(optimizer: torch.optim.Optimizer, parameter: nn.Parameter, *slopes: float) -> float:
    """How far a parameter of equal numbers goes in the last of some steps."""
    before = 0.0
    for slope in slopes:
        before = float(parameter.detach()[0])
        parameter.grad = torch.full_like(parameter, slope)
        optimizer.step()
    return before - float(parameter.detach()[0])


def test_steady_gradients_give_adamw() -> None:
    ours, theirs = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
    betas = (0.9, 0.99)
    mine = StableAdamW([ours], lr=0.01, betas=betas, weight_decay=0.1)
    other = torch.optim.AdamW([theirs], lr=0.01, betas=betas, weight_decay=0.1)
    for slope in (0.3, 0.3, 0.29, 0.28):
        assert moved(mine, ours, slope) == pytest.approx(moved(other, theirs, slope), abs=1e-6)
    torch.testing.assert_close(ours, theirs, rtol=UPDATE_TOLERANCE, atol=0.0)


def test_a_sudden_gradient_moves_less_than_adamw_would() -> None:
    """Wortsman et al. 2023: the second moment lags behind, and the step is far too large."""
    slopes = (1e-3,) * 20 + (1.0,)
    ours, theirs = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
    betas = (0.9, 0.999)
    mine = moved(StableAdamW([ours], lr=0.01, betas=betas), ours, *slopes)
    other = moved(torch.optim.AdamW([theirs], lr=0.01, betas=betas), theirs, *slopes)
    # By hand: first moment 0.112, root of the second 0.219, and 1 / 0.219 is 4.56.
    assert other == pytest.approx(0.01 * 0.112 / 0.219, rel=0.05)
    assert mine == pytest.approx(other / 4.56, rel=0.1)


# --- Muon -------------------------------------------------------------------------------------


def test_muon_has_the_matrices_of_layers_and_adamw_the_rest() -> None:
    objective = ToyObjective()
    optimizer = muon(objective, learning_rate=1e-3, weight_decay=0.1)
    matrices, *others = (names_in(objective, group) for group in optimizer.param_groups)
    assert matrices == {
        name
        for name, parameter in objective.named_parameters()
        if ".layers." in name and parameter.ndim == 2
    }
    assert "encoder.embeddings.words.weight" in others[0]
    assert "head.output.weight" in others[0]
    assert matrices.union(*others) == dict(objective.named_parameters()).keys()
    assert sum(map(len, (matrices, *others))) == len(list(objective.parameters()))


def test_muon_moves_all_directions_alike() -> None:
    objective = ToyObjective()
    optimizer = muon(objective, learning_rate=1e-3, matrix_learning_rate=0.5, weight_decay=0.0)
    weight = objective.get_parameter("encoder.layers.0.attention.query.weight")
    before = weight.detach().clone()
    for parameter in objective.parameters():
        parameter.grad = torch.randn_like(parameter) * torch.logspace(0, -2, parameter.shape[-1])
    assert weight.grad is not None
    slopes = torch.linalg.svdvals(weight.grad)
    optimizer.step()
    sizes = torch.linalg.svdvals((weight.detach() - before) / 0.5)
    assert float(slopes[0] / slopes[24]) > 50.0
    # As published, the iteration takes all but the smallest to about 0.7 to 1.2, in bfloat16.
    assert 0.5 < float(sizes[24]) <= float(sizes[0]) < 1.4


def test_several_optimizers_have_one_state_and_one_list_of_rates() -> None:
    objective = ToyObjective()
    optimizer = muon(objective, learning_rate=1e-3, matrix_learning_rate=0.02)
    assert set_learning_rate(optimizer, 0.5) == 0.01
    assert sorted({group["lr"] for group in optimizer.param_groups}) == [5e-4, 0.01]
    assert [group["lr"] for member in optimizer.members for group in member.param_groups] == [
        group["lr"] for group in optimizer.param_groups
    ]
    for parameter in objective.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in objective.parameters())
    assert len(optimizer.state) == len(list(objective.parameters()))


@pytest.mark.parametrize("name", ["adamw", "stable-adamw", "muon"])
def test_every_optimizer_goes_on_from_a_file(name: Any, tmp_path: Path) -> None:
    def take(objective: ToyObjective, optimizer: torch.optim.Optimizer, seed: int) -> None:
        torch.manual_seed(seed)
        for parameter in objective.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()

    straight, resumed = ToyObjective(), ToyObjective(seed=1)
    optimizer = make_optimizer(name, straight, learning_rate=1e-2)
    take(straight, optimizer, 0)
    take(straight, optimizer, 1)
    save_file(optimizer_tensors(straight, optimizer), tmp_path / "moments.safetensors")
    resumed.load_state_dict(straight.state_dict())
    other = make_optimizer(name, resumed, learning_rate=1e-2)
    load_optimizer(resumed, other, StoredTensors(tmp_path, "moments.safetensors"))
    take(straight, optimizer, 2)
    take(resumed, other, 2)
    assert same_bits(dict(straight.state_dict()), dict(resumed.state_dict()))


def test_muon_without_layers_is_refused() -> None:
    with pytest.raises(TrainingError, match="use adamw"):
        muon(nn.Linear(3, 3), learning_rate=1e-3)


def test_the_names_give_their_optimizers() -> None:
    module = ToyObjective()
    kinds = {
        name: type(make_optimizer(name, module, learning_rate=1e-3))
        for name in ("adamw", "stable-adamw", "muon")
    }
    assert kinds == {
        "adamw": torch.optim.AdamW,
        "stable-adamw": StableAdamW,
        "muon": Together,
    }
    assert stable_adamw(module, learning_rate=1e-3).param_groups[0]["initial_lr"] == 1e-3
