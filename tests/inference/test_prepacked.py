"""Prepacked weights: the same numbers, never stale, and nothing of it to be seen from outside."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from bothways.inference import prepacked
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder
from bothways.model.heads import ClassificationHead
from tests.inference.encoders import batch_of, config, draw_ids, encoder, gated

# Another order of summation in float32, over a few hundred products of numbers near 1.
ROUNDING = 2e-5
BATCH = batch_of(draw_ids([7, 1, 12, 3]))


@torch.inference_mode()
def states(model: Encoder) -> Tensor:
    """A copy of the last states, made without gradients."""
    found: Tensor = model(BATCH).last_hidden
    return found.clone()


def plain(model: Encoder) -> Tensor:
    """What the modules compute without any fast path."""
    prepacked.uninstall(model)
    found = states(model)
    prepacked.install(model)
    return found


def part(model: nn.Module, name: str) -> Any:
    """A module inside another, by its dotted name."""
    return model.get_submodule(name)


def copies(model: nn.Module) -> int:
    """How many copies of weights are held."""
    paths = [
        path
        for module in model.modules()
        for path in module.__dict__.values()
        if isinstance(path, prepacked._FastPath)
    ]
    return sum(path._packed is not None for path in paths)


@pytest.fixture
def model() -> Encoder:
    """An encoder with fast paths whose copies are made."""
    assert prepacked.available(), "torch here has no oneDNN: nothing of this file would be tested"
    made = encoder()
    prepacked.install(made)
    states(made)
    assert copies(made) > 0
    return made


VARIANTS: dict[str, EncoderConfig] = {
    "bert": config(),
    "relu": config(activation="relu"),
    "tanh-gelu": config(activation="gelu_tanh"),
    "silu": config(activation="silu"),
    "gated": gated(config()),
    "gated-without-bias": gated(config(activation="identity"), bias=False),
    "no-key-bias": dataclasses.replace(
        config(), attention=dataclasses.replace(config().attention, bias="no_key")
    ),
    "no-bias": dataclasses.replace(
        config(), attention=dataclasses.replace(config().attention, bias="none")
    ),
}


@pytest.mark.parametrize("shape", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_numbers_are_those_of_the_plain_modules(shape: EncoderConfig) -> None:
    made = encoder(shape)
    expected = states(made)
    prepacked.install(made)
    given = states(made)
    assert copies(made) > 0
    torch.testing.assert_close(given, expected, atol=ROUNDING, rtol=ROUNDING)


def test_some_layer_really_takes_the_other_path(model: Encoder) -> None:
    """Or every comparison of this file would compare a thing with itself."""
    query = part(model, "layers.0.attention.query")
    path = query.__dict__["forward"]
    assert isinstance(path, prepacked.FastLinear)
    with torch.inference_mode():
        query(torch.randn(3, 48))
    assert path._packed is not None
    path._packed.bias = torch.full_like(query.bias, 7.0)
    with torch.inference_mode():
        assert query(torch.zeros(2, 48)).eq(7.0).all()


@pytest.mark.parametrize("shape", [(48,), (1, 48), (1, 1, 48), (2, 48), (2, 3, 48)])
def test_a_layer_keeps_the_shape_of_its_input(shape: tuple[int, ...], model: Encoder) -> None:
    layer = part(model, "layers.0.attention.output")
    rows = torch.randn(shape)
    with torch.inference_mode():
        given = layer(rows)
    expected = nn.functional.linear(rows, layer.weight, layer.bias)
    assert given.shape == expected.shape
    torch.testing.assert_close(given, expected.detach(), atol=ROUNDING, rtol=ROUNDING)


def test_a_single_row_has_the_bits_it_has_among_others(model: Encoder) -> None:
    layer = part(model, "layers.0.attention.output")
    rows = torch.randn(9, 48)
    with torch.inference_mode():
        together = layer(rows)
        assert all(torch.equal(layer(rows[i : i + 1])[0], together[i]) for i in range(9))


# --- what is seen from outside ------------------------------------------------------------------


def test_names_and_parameters_stay_as_they_are(model: Encoder) -> None:
    fresh = encoder()
    assert list(model.state_dict()) == list(fresh.state_dict())
    assert [name for name, _ in model.named_modules()] == [n for n, _ in fresh.named_modules()]
    assert all(
        torch.equal(ours, theirs)
        for ours, theirs in zip(model.parameters(), fresh.parameters(), strict=True)
    )
    assert repr(model) == repr(fresh)


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],  # noqa: S301
)
def test_a_copy_has_fast_paths_of_its_own(
    duplicate: Callable[[Encoder], Encoder], model: Encoder
) -> None:
    before = states(model)
    other = duplicate(model)
    for module in other.modules():
        for path in module.__dict__.values():
            if isinstance(path, prepacked._FastPath):
                assert path.module is module
    assert torch.equal(states(other), before)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    assert not torch.equal(states(other), before)
    assert torch.equal(states(model), before)


def test_installing_twice_changes_nothing_and_uninstalling_takes_all_away(model: Encoder) -> None:
    kept = part(model, "layers.0.attention").__dict__["project"]
    prepacked.install(model)
    assert part(model, "layers.0.attention").__dict__["project"] is kept
    prepacked.uninstall(model)
    assert copies(model) == 0
    assert not any({"forward", "project"} & vars(module).keys() for module in model.modules())


# --- never stale --------------------------------------------------------------------------------


def check_fresh(model: Encoder, before: Tensor) -> None:
    """The output is that of the weights as they are now, and another than before."""
    now = states(model)
    assert not torch.allclose(now, before, atol=1e-3)
    torch.testing.assert_close(now, plain(model), atol=ROUNDING, rtol=ROUNDING)


PROJECTIONS = [
    "layers.0.attention.query",
    "layers.0.attention.key",
    "layers.1.attention.value",
    "layers.0.attention.output",
    "layers.1.feedforward.input",
    "layers.1.feedforward.output",
]


# Softmax takes out what all keys have in common, so the bias of the keys decides nothing.
PARAMETERS = [(name, "weight") for name in PROJECTIONS]
PARAMETERS += [(name, "bias") for name in PROJECTIONS if not name.endswith("key")]


@pytest.mark.parametrize(("name", "kind"), PARAMETERS)
@pytest.mark.parametrize("how", ["in place", "in inference mode", "new", "moved", "loaded"])
def test_a_changed_parameter_is_seen(model: Encoder, name: str, kind: str, how: str) -> None:
    layer = part(model, name)
    before, old = states(model), getattr(layer, kind)
    changed = torch.randn_like(old)
    if how == "in place":
        with torch.no_grad():
            old.copy_(changed)
    elif how == "in inference mode":
        with torch.inference_mode():
            old.copy_(changed)
    elif how == "new":
        setattr(layer, kind, nn.Parameter(changed))
    elif how == "moved":
        old.data = changed
    else:
        model.load_state_dict({f"{name}.{kind}": changed}, strict=False)
    check_fresh(model, before)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_predict_train_predict_has_no_stale_copies(model: Encoder, fused: bool, mode: str) -> None:
    """A fused optimizer changes weights without raising their version; dropout may be off."""
    before = states(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=fused)
    model.train(mode == "training")
    loss = model(BATCH).last_hidden.sin().sum()
    torch.autograd.backward(loss)
    model.eval()
    assert torch.equal(states(model), before)  # copies are there again before the step
    optimizer.step()
    check_fresh(model, before)


def test_a_trip_through_half_precision_rounds_what_is_used(model: Encoder) -> None:
    """`module.to` changes values behind the parameter's back: neither identity nor version tell."""
    before = states(model)
    model.bfloat16().float()
    now = states(model)
    assert not torch.equal(now, before)
    torch.testing.assert_close(now, plain(model), atol=ROUNDING, rtol=ROUNDING)


# --- where it steps aside -----------------------------------------------------------------------


def test_training_drops_the_copies(model: Encoder) -> None:
    model.train()
    with torch.no_grad():
        model(BATCH)
    assert copies(model) == 0


def test_gradients_flow_through_the_plain_modules(model: Encoder) -> None:
    fresh = encoder()
    for each in (model, fresh):
        torch.autograd.backward(each(BATCH).last_hidden.square().sum())
    for ours, theirs in zip(model.parameters(), fresh.parameters(), strict=True):
        if theirs.grad is not None:
            assert ours.grad is not None
            assert torch.equal(ours.grad, theirs.grad)


def test_half_precision_runs_plainly(model: Encoder) -> None:
    model.bfloat16()
    assert torch.equal(states(model), plain(model))


def test_autocast_gets_the_precision_it_asks_for(model: Encoder) -> None:
    layer = part(model, "layers.0.attention.output")
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.randn(4, 48)).dtype == torch.bfloat16
        given = states(model)
    prepacked.uninstall(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(given, states(model))


def test_export_sees_the_plain_modules(model: Encoder) -> None:
    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = model

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            return self.encoder.padded(ids, mask).last_hidden

    ids = torch.tensor(draw_ids([6, 6]))
    mask = torch.ones_like(ids)
    with torch.no_grad():
        program = torch.export.export(Padded(), (ids, mask))
        graph = str(program.graph)
        assert "mkldnn" not in graph
        expected = model.padded(ids, mask).last_hidden
        given = program.module()(ids, mask)
    torch.testing.assert_close(given, expected, atol=ROUNDING, rtol=ROUNDING)


class Doubled(nn.Linear):
    """A layer as an adapter library would put in the place of another."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Twice the product."""
        return 2 * super().forward(input)


@pytest.mark.parametrize("name", PROJECTIONS)
def test_a_layer_of_another_class_is_called(model: Encoder, name: str) -> None:
    before = states(model)
    layer = part(model, name)
    owner, _, last = name.rpartition(".")
    other = Doubled(layer.in_features, layer.out_features)
    other.load_state_dict(layer.state_dict())
    setattr(part(model, owner), last, other.eval())
    check_fresh(model, before)


@pytest.mark.parametrize("name", PROJECTIONS)
def test_hooks_of_a_layer_are_called(model: Encoder, name: str) -> None:
    seen: list[str] = []

    def watch(*given: object) -> None:
        seen.append(name)

    layer = part(model, name)
    handles = [layer.register_forward_hook(watch), layer.register_forward_pre_hook(watch)]
    states(model)
    assert seen == [name, name]
    for handle in handles:
        handle.remove()
    states(model)
    assert seen == [name, name]


def test_a_weight_that_a_hook_makes_is_used(model: Encoder) -> None:
    before = states(model)
    layer = part(model, PROJECTIONS[0])
    prune.l1_unstructured(layer, "weight", amount=0.9)
    check_fresh(model, before)


def test_a_forward_put_there_by_others_is_called(model: Encoder) -> None:
    before = states(model)
    layer = part(model, PROJECTIONS[0])
    layer.forward = lambda rows: 3 * nn.Linear.forward(layer, rows)
    now = states(model)
    assert not torch.allclose(now, before, atol=1e-3)


def test_dropout_kept_on_in_evaluation_is_drawn() -> None:
    """Some draw several outputs of one text that way, to see how sure a model is."""
    shape = config()
    shape = dataclasses.replace(shape, dropout=dataclasses.replace(shape.dropout, activation=0.5))
    made = encoder(shape)
    prepacked.install(made)
    assert torch.equal(states(made), states(made))
    part(made, "layers.0.feedforward.dropout").train()
    assert not torch.equal(states(made), states(made))


def test_heads_are_packed_too() -> None:
    torch.manual_seed(0)
    head = ClassificationHead(48, 3, pooling="mean", dense="tanh").eval()
    made = encoder()
    with torch.inference_mode():
        output = made(BATCH)
        expected = head(output, BATCH)
        prepacked.install(head)
        given = head(output, BATCH)
    assert copies(head) == 2
    torch.testing.assert_close(given, expected, atol=ROUNDING, rtol=ROUNDING)
