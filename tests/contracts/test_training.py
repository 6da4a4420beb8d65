"""Every encoder learns: gradients reach each weight, in any number format, and nothing is stale."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch, Layout
from tests.contracts.cases import (
    CASES,
    MASKS,
    SAME,
    alone,
    change,
    make_batch,
    make_encoder,
    make_rectangle,
)

every_case = pytest.mark.parametrize("config", CASES.values(), ids=CASES.keys())
pytestmark = pytest.mark.usefixtures("unchecked")  # types and shapes: see test_forms
LENGTHS = (5, 2, 5, 9, 1)

# Share of the states that rounding may change over a few layers: bfloat16 rounds by 2 ** -9 and
# float16 by 2 ** -12, about twelve times in a row.
LOSS = {torch.bfloat16: 0.05, torch.float16: 0.006}


def gradients(encoder: Encoder, batches: list[Batch]) -> dict[str, Tensor]:
    """Of a sum in which every output number counts differently, so that none cancel."""
    encoder.zero_grad()
    for batch in batches:
        output = encoder(batch)
        kept = torch.cat(batch.layout.split(output.last_hidden))
        total = (kept * torch.linspace(1, 2, kept.shape[1], dtype=kept.dtype)).sin().sum()
        if output.pooled is not None:
            total = total + output.pooled.square().sum()
        torch.autograd.backward(total)
    return {
        name: parameter.grad.clone()
        for name, parameter in encoder.named_parameters()
        if parameter.grad is not None
    }


def cancels(name: str, config: EncoderConfig) -> bool:
    """Whether a bias adds the same number to all scores of a row, which softmax does not see.

    That of content keys does, unless rotations or a product with relative queries tell keys
    apart; that of relative keys always.
    """
    if name.endswith("relative.key.bias"):
        return True
    turned = config.attention.rotary is not None
    crossed = config.relative is not None and "p2c" in config.relative.terms
    return name.endswith("key.bias") and not (turned or crossed)


@every_case
def test_every_weight_gets_a_gradient(config: EncoderConfig) -> None:
    encoder = make_encoder(config)
    # Dropout on, but whole layers stay: one that is left out has no gradient, rightly.
    encoder.config = change(config, dropout__layer=0.0)
    given = gradients(encoder.train(), [make_batch(config, LENGTHS)])
    learned = {name for name, p in encoder.named_parameters() if p.requires_grad}
    assert set(given) == learned
    for name, gradient in given.items():
        assert gradient.isfinite().all()
        if not cancels(name, config):
            assert gradient.abs().max() > 1e-12, name


@every_case
def test_gradients_of_a_batch_are_the_sum_over_its_texts_and_those_of_a_rectangle(
    config: EncoderConfig,
) -> None:
    encoder = make_encoder(config)
    batch = make_batch(config, LENGTHS)
    together = gradients(encoder, [batch])
    apart = gradients(encoder, alone(batch))
    torch.testing.assert_close(together, apart, rtol=SAME, atol=SAME)
    rectangle = make_rectangle(config, MASKS["any"])
    mask = MASKS["any"].flatten()
    assert rectangle.type_ids is not None
    packed = Batch(
        rectangle.ids[mask], Layout.packed(rectangle.layout.lengths), rectangle.type_ids[mask]
    )
    torch.testing.assert_close(
        gradients(encoder, [rectangle]), gradients(encoder, [packed]), rtol=SAME, atol=SAME
    )


@every_case
def test_padding_and_reserved_rows_get_no_gradient(config: EncoderConfig) -> None:
    axis = config.embeddings
    given = gradients(make_encoder(config), [make_batch(config, LENGTHS)])
    if axis.pad_id is not None:
        assert not given["embeddings.words.weight"][axis.pad_id].any()
    if axis.positions == "learned":
        used = given["embeddings.positions.weight"].abs().sum(1) > 0
        rows = torch.arange(len(used))
        longest = max(LENGTHS)
        expected = (rows >= axis.position_start) & (rows < axis.position_start + longest)
        assert torch.equal(used, expected)


@every_case
@pytest.mark.parametrize("dtype", LOSS, ids=str)
@pytest.mark.parametrize("form", ["packed", "rectangle"])
def test_half_precision_is_finite_and_near(
    config: EncoderConfig, dtype: torch.dtype, form: str
) -> None:
    """microsoft/DeBERTa#77, #84; transformers#35382: no NaN, and one number format throughout."""
    mask = MASKS["any"].clone()
    mask[1] = False  # an engine may fill up its batch with rows that hold nothing
    batch = make_batch(config, LENGTHS) if form == "packed" else make_rectangle(config, mask)
    encoder = make_encoder(config, dtype=dtype)
    exact = copy.deepcopy(encoder).double()
    output, expected = encoder(batch), exact(batch)
    assert output.last_hidden.dtype == dtype
    assert output.last_hidden.isfinite().all()
    kept = torch.ones(len(batch.ids), dtype=torch.bool) if form == "packed" else mask.flatten()
    scale = expected.last_hidden[kept].square().mean().sqrt()
    error = (output.last_hidden.double() - expected.last_hidden)[kept].square().mean().sqrt()
    assert error < LOSS[dtype] * scale
    given = gradients(encoder, [batch])
    assert all(gradient.isfinite().all() for gradient in given.values())


@every_case
def test_autocast_keeps_going(config: EncoderConfig) -> None:
    encoder = make_encoder(config, dtype=torch.float32)
    batch = make_batch(config, LENGTHS)
    with torch.autocast("cpu", torch.bfloat16):
        output = encoder(batch).last_hidden
        weights = encoder(batch, attentions=True).last_hidden
    assert output.isfinite().all()
    scale = encoder(batch).last_hidden.square().mean().sqrt()
    for given in (output, weights):
        error = (given - encoder(batch).last_hidden).square().mean().sqrt()
        assert error < LOSS[torch.bfloat16] * scale


@every_case
def test_a_batch_first_read_in_inference_mode_can_be_trained_on(config: EncoderConfig) -> None:
    """What a layout remembers must not be locked to inference."""
    encoder = make_encoder(config)
    for batch in (make_batch(config, (3, 5, 3)), make_rectangle(config, MASKS["any"])):
        with torch.inference_mode():
            encoder(batch)
            batch.layout.mean(torch.zeros(len(batch.ids), 2))
            batch.layout.first(torch.zeros(len(batch.ids), 2))
        states = encoder.train()(batch).last_hidden
        total = batch.layout.mean(states).sum() + batch.layout.first(states).sum()
        torch.autograd.backward(total)


@every_case
def test_predict_train_predict_sees_the_new_weights(config: EncoderConfig) -> None:
    encoder = make_encoder(config, dtype=torch.float32)
    batch = make_batch(config, LENGTHS)
    with torch.inference_mode():
        before = encoder(batch).last_hidden
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=0.01)
    gradients(encoder, [batch])
    optimizer.step()
    with torch.inference_mode():
        after = encoder(batch).last_hidden
    assert (after - before).abs().max() > 1e-3
    fresh = Encoder(config).eval()
    fresh.load_state_dict(encoder.state_dict())
    with torch.inference_mode():
        assert torch.equal(fresh(batch).last_hidden, after)


@every_case
def test_dropout_follows_the_seed(config: EncoderConfig) -> None:
    encoder = make_encoder(change(config, dropout__hidden=0.2, dropout__attention=0.2)).train()
    batch = make_batch(config, LENGTHS)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(encoder(batch).last_hidden)
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


class Classifier(nn.Module):
    """The usual one: an encoder, the vector at position 0, a linear layer."""

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.encoder = Encoder.build(vocab_size=20, hidden_size=32, num_heads=4, num_layers=2)
        self.output = nn.Linear(32, num_labels)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.encoder.padded(input_ids, attention_mask).last_hidden
        logits: Tensor = self.output(states[:, 0])
        return logits


def test_the_five_line_classifier_trains() -> None:
    """Does token 7 stand anywhere in the text? Position 0 must look at all the others."""
    ids = torch.randint(8, 20, (64, 9))
    lengths = torch.randint(2, 10, (64,))
    labels = torch.arange(64) % 2
    for row in range(0, 64, 2):
        ids[row, int(torch.randint(1, int(lengths[row]), ()))] = 7
    ids[:, 0] = 1
    mask = (torch.arange(9) < lengths[:, None]).long()
    ids = torch.where(mask.bool(), ids, 7)  # what the mask hides would give it away, wrongly
    model = Classifier(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(ids, mask), 1 - labels)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    accuracy = (model.eval()(ids, mask).argmax(1) == 1 - labels).double().mean()
    assert accuracy > 0.95, losses[::10]
