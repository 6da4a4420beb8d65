"""Layers in int8: exact integers, a step a token, nothing stale, the same bits in any batch."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bothways.checkpoints.parts import Parts, new_parts
from bothways.errors import UsageError
from bothways.inference import int8, prepacked, quantize
from bothways.inference.int8 import (
    EIGHT_BITS,
    SEVEN_BITS,
    Int8Linear,
    Int8Weight,
    instruction_set,
    is_exact,
    largest_exact,
    quantise_rows,
)
from bothways.inference.int8_layers import attach, detach, groups, in_float, int8_of, quantised
from bothways.inference.invariance import is_bit_invariant
from bothways.inference.quantize import search, weight_bits
from bothways.model.config import Activation, EncoderConfig
from bothways.model.encoder import Encoder
from bothways.model.linear import Linear
from tests.inference.encoders import batch_of, config, draw_ids, encoder, gated

# The same numbers in another order of a few float32 operations, of values below about 30.
ROUNDING = 3e-5
# 8 bits for tokens and weights of a random encoder of 2 layers; its states have a deviation of 1.
CLOSE = 0.06
BATCH = batch_of(draw_ids([7, 1, 12, 3]))

pytestmark = pytest.mark.skipif(largest_exact() == 0, reason="no exact product of int8 here")


def in_int8(model: Encoder) -> Encoder:
    """Everything that can be is in int8."""
    prepacked.install(model)
    for group in groups(model):
        for layer in group.layers.values():
            attach(layer, Int8Weight.of(layer.weight, largest_exact()))
    return model


@torch.inference_mode()
def states(model: Encoder) -> Tensor:
    found: Tensor = model(BATCH).last_hidden
    return found.clone()


@pytest.mark.parametrize("rows", [1, 2, 5, 64, 131])
@pytest.mark.parametrize(("width", "outputs"), [(8, 4), (48, 40), (70, 33), (152, 16)])
def test_products_are_those_of_64_bit_integers(rows: int, width: int, outputs: int) -> None:
    generator = torch.Generator().manual_seed(rows * width)
    largest = largest_exact()
    tokens = torch.randint(0, 256, (rows, width), generator=generator, dtype=torch.uint8)
    codes = torch.randint(-largest, largest + 1, (outputs, width), generator=generator).to(
        torch.int8
    )
    ones, zeros = torch.ones(outputs), torch.zeros(outputs, dtype=torch.int64)
    found = int8._product(tokens, int8._packed(codes), ones, zeros)
    # Below 2^24, where float32 holds every integer.
    assert torch.equal(found.long(), tokens.long() @ codes.long().T)


def test_a_processor_that_saturates_is_found_out() -> None:
    """oneDNN restricted to AVX2 adds pairs in 16 bits, so weights of 8 bits are too large."""
    if "x86" not in str(torch.cpu.get_capabilities()["architecture"]):
        pytest.skip("only x86 processors saturate")
    code = (
        "from bothways.inference.int8 import is_exact, largest_exact\n"
        "print(largest_exact(), is_exact(127), is_exact(64))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["64", "False", "True"]


def saturating(rows: Tensor, packed: Tensor, steps: Tensor, zeros: Tensor) -> Tensor:
    """The product as processors without VNNI make it: pairs are added in 16 bits."""
    del zeros
    both = rows.long()[:, None, :] * packed.long()[None]
    even = functional.pad(both, (0, both.shape[-1] % 2))
    pairs = (even[..., ::2] + even[..., 1::2]).clamp(-(2**15), 2**15 - 1)
    return pairs.sum(-1).float() * steps


def test_saturation_is_found_by_multiplying(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights of 8 bits would collapse on such processors, as onnxruntime 6004 reports."""
    layer = nn.Linear(48, 24)
    rows = torch.rand(16, 48)
    with torch.no_grad():
        layer.weight.abs_()  # all products of one sign, so that pairs are large
    exact = functional.linear(rows, layer.weight, layer.bias)
    monkeypatch.setattr(int8, "_product", saturating)
    monkeypatch.setattr(int8, "_packed", lambda codes: codes)
    assert (is_exact(EIGHT_BITS), is_exact(SEVEN_BITS)) == (False, True)
    errors = {
        largest: (
            Int8Linear(Int8Weight.of(layer.weight, largest), layer.bias, "identity")(rows) - exact
        )
        .abs()
        .mean()
        for largest in (EIGHT_BITS, SEVEN_BITS)
    }
    assert errors[EIGHT_BITS] > 10 * errors[SEVEN_BITS]


def test_two_products_of_seven_bit_weights_fit_into_16_bits() -> None:
    assert 2 * 255 * SEVEN_BITS <= 2**15 - 1 < 2 * 255 * EIGHT_BITS
    assert is_exact(SEVEN_BITS)


def test_each_row_of_a_weight_has_its_own_step() -> None:
    weight = torch.tensor([[1.0, -0.5, 0.25], [100.0, 1.0, -50.0], [0.0, 0.0, 0.0]])
    found = Int8Weight.of(weight, EIGHT_BITS)
    assert found.codes.tolist() == [[127, -64, 32], [127, 1, -64], [0, 0, 0]]
    half_a_step = torch.tensor([0.5 / 127, 50 / 127, 0.0])
    assert ((found.dense() - weight).abs().amax(1) <= half_a_step + 1e-6).all()
    assert Int8Weight.of(weight, SEVEN_BITS).largest == 64


def test_each_token_has_its_own_step() -> None:
    """One loud token must not take the quiet ones' digits."""
    quiet, loud = torch.randn(1, 48) * 0.01, torch.randn(1, 48) * 100
    both = torch.cat([quiet, loud])
    codes, step, low = quantise_rows(both)
    error = (codes * step + low - both).abs().amax(1)
    assert error[0] < 0.0002
    assert error[1] < 1.5
    layer = nn.Linear(48, 24)
    fast = Int8Linear(Int8Weight.of(layer.weight, largest_exact()), layer.bias, "identity")
    assert torch.equal(fast(both)[0], fast(quiet)[0])


@pytest.mark.parametrize("width", [5, 8, 48, 70])
def test_the_fast_kernel_quantises_as_the_definition_does(width: int) -> None:
    rows = torch.randn(40, width) * torch.logspace(-3, 3, 40)[:, None] + 1
    codes, step, low = int8._quantised(rows)
    wanted, wanted_step, wanted_low = quantise_rows(rows)
    assert torch.allclose(step, wanted_step, rtol=1e-5)
    assert torch.equal(low, wanted_low)
    # A number halfway between two codes may go to either.
    assert (codes[:, :width].int() - wanted.int()).abs().max() <= 1
    assert (codes[:, :width] != wanted).float().mean() < 0.01


@pytest.mark.parametrize("activation", ["identity", "gelu", "relu", "tanh"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("width", [48, 70])
def test_a_layer_gives_what_its_codes_stand_for(
    activation: Activation, bias: bool, width: int
) -> None:
    layer = nn.Linear(width, 40, bias=bias)
    weight = Int8Weight.of(layer.weight, largest_exact())
    rows = torch.randn(3, 11, width) + 0.5
    found = Int8Linear(weight, layer.bias, activation)(rows)
    codes, step, low = int8._quantised(rows.view(-1, width))
    read = codes[:, :width] * step + low
    wanted = functional.linear(read, weight.dense(), layer.bias)
    after = {"gelu": functional.gelu, "relu": torch.relu, "tanh": torch.tanh}.get(activation)
    assert torch.allclose(
        found.view(-1, 40), wanted if after is None else after(wanted), atol=ROUNDING
    )


@pytest.mark.parametrize("rows", [torch.zeros(2, 48), torch.full((2, 48), 3.0), torch.zeros(0, 48)])
def test_rows_without_a_span_are_read_too(rows: Tensor) -> None:
    layer = nn.Linear(48, 8)
    weight = Int8Weight.of(layer.weight, largest_exact())
    found = Int8Linear(weight, layer.bias, "identity")(rows)
    wanted = functional.linear(rows, weight.dense(), layer.bias)
    assert torch.allclose(found, wanted, atol=ROUNDING)


@pytest.mark.parametrize("shape", [config(), gated(config()), config(activation="silu")])
def test_an_encoder_in_int8_is_close_and_not_equal(shape: EncoderConfig) -> None:
    model = encoder(shape)
    prepacked.install(model)
    exact = states(model)
    found = states(in_int8(model))
    difference = (found - exact).abs()
    assert 0 < difference.mean() < CLOSE
    with in_float(model):
        assert torch.equal(states(model), exact)
    assert torch.equal(states(model), found)


def test_every_layer_of_attention_and_feed_forward_is_in_a_group() -> None:
    model = in_int8(encoder(gated(config())))
    names = {name for group in groups(model) for name in group.layers}
    linear = {name for name, part in model.named_modules() if type(part) is Linear}
    assert names == {name for name in linear if name.startswith("layers.")}
    assert set(quantised(model)) == names
    assert [len(group.layers) for group in groups(model)] == [3, 1, 2, 1] * 2


def test_a_text_has_the_same_bits_alone_and_in_a_batch() -> None:
    assert is_bit_invariant(in_int8(encoder()))


def test_a_changed_weight_runs_in_float() -> None:
    model = in_int8(encoder())
    layer = next(iter(groups(model)[1].layers.values()))
    before = states(model)
    with torch.no_grad():
        layer.weight.mul_(2)
    assert int8_of(layer) is None
    changed = states(model)
    detach(layer)
    assert not torch.equal(changed, before)
    assert torch.equal(states(model), changed)


def test_training_and_gradients_see_the_float_weights() -> None:
    model, plain = in_int8(encoder()), encoder()
    output = model(BATCH).last_hidden
    assert torch.equal(output, plain(BATCH).last_hidden)
    output.sum().backward()
    assert all(layer.weight.grad is not None for layer in groups(model)[0].layers.values())


def test_a_copy_of_a_model_runs_in_float() -> None:
    assert quantised(copy.deepcopy(in_int8(encoder()))) == {}


def drop_of(limit: float) -> tuple[Callable[[Parts], tuple[bool, float]], list[float]]:
    """Judges parts by how far their states are from those in float."""
    exact = states(encoder())
    seen: list[float] = []

    def judge(parts: Parts) -> tuple[bool, float]:
        seen.append(float((states(parts.encoder) - exact).abs().mean()))
        return seen[-1] <= limit, seen[-1]

    return judge, seen


def test_layers_return_to_float_until_it_is_good_enough() -> None:
    parts = new_parts(config(), encoder=encoder())
    judge, seen = drop_of(1.0)
    whole = search(parts, judge, [BATCH], bits=weight_bits())
    assert whole.in_float == ()
    assert len(seen) == 1
    judge, seen = drop_of(whole.judgement * 0.7)
    part = search(parts, judge, [BATCH], bits=weight_bits())
    assert 0 < len(part.in_float) < part.groups == 8
    assert part.judgement <= whole.judgement * 0.7
    # What is judged is what is handed out.
    assert judge(part.parts) == (True, part.judgement)
    running = quantised(part.parts.encoder)
    assert {group.name for group in groups(part.parts.encoder)} - set(part.in_float) <= set(running)
    assert not set(part.in_float) & set(running)
    assert quantised(parts.encoder) == {}


def test_nothing_is_left_where_nothing_is_good_enough() -> None:
    judge, _ = drop_of(0.0)
    found = search(new_parts(config(), encoder=encoder()), judge, [BATCH], bits=weight_bits())
    assert len(found.in_float) == found.groups
    assert quantised(found.parts.encoder) == {}
    assert found.judgement > 0


def test_weights_that_would_saturate_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "largest_exact", lambda: SEVEN_BITS)
    assert weight_bits() == 7
    with pytest.raises(UsageError, match="saturate"):
        weight_bits(8)
    with pytest.raises(UsageError, match="must be 8 or 7"):
        weight_bits(4)


def test_the_instruction_set_has_a_name() -> None:
    assert instruction_set()
