"""Replaced-token detection: what is summed, what is shared, and that it learns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bothways.checkpoints.parts import adapt, new_head, new_parts
from bothways.errors import UsageError
from bothways.families.presets import generator_of
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder
from bothways.model.heads import MaskedLMHead, TokenHead
from bothways.model.init import initialise
from bothways.model.layout import Batch
from bothways.training.masked_lm import MASKED, ORIGINALS
from bothways.training.optim import adamw
from bothways.training.replaced import AddedTable, ReplacedTokenObjective, Sharing, merge_tables
from bothways.training.state import named_tensors
from tests.training.masks import masked_batch
from tests.training.test_masked_lm import LENGTHS, without_dropout

VOCAB_SIZE = 60


def small_config(vocab_size: int = VOCAB_SIZE) -> EncoderConfig:
    """ELECTRA's shape with two layers: embeddings half as wide as the encoder."""
    config = without_dropout("electra-small", vocab_size)
    return dataclasses.replace(
        config,
        hidden_size=64,
        num_layers=2,
        embeddings=dataclasses.replace(config.embeddings, size=32),
        attention=dataclasses.replace(config.attention, head_size=16),
        feedforward=dataclasses.replace(config.feedforward, size=128),
    )


def made(sharing: Sharing = "embeddings", vocab_size: int = VOCAB_SIZE) -> ReplacedTokenObjective:
    config = small_config(vocab_size)
    torch.manual_seed(0)
    parts = new_parts(config)
    parts = adapt(parts, new_head(parts, "replaced", 1))
    generator = new_parts(generator_of(config))
    generator = adapt(generator, new_head(generator, "masked_lm", 0))
    assert parts.head is not None
    assert generator.masked_lm is not None
    if sharing == "disentangled":  # as `build_networks` begins
        table = generator.encoder.embeddings.words
        parts.encoder.embeddings.words.load_state_dict(table.state_dict())
    return ReplacedTokenObjective(
        parts.encoder,
        parts.head,
        generator=generator.encoder,
        generator_head=generator.masked_lm,
        sharing=sharing,
    ).train()


def means(objective: ReplacedTokenObjective, batch: Batch, seed: int = 0) -> dict[str, float]:
    torch.manual_seed(seed)
    with torch.no_grad():
        sums = objective(batch)
    values = (sums / torch.tensor(objective.counts(batch))).tolist()
    return dict(zip((part.name for part in objective.parts), values, strict=True))


def test_the_sums_written_out() -> None:
    objective = made().eval()
    batch = masked_batch(small_config(), LENGTHS)
    found = means(objective, batch, seed=5)
    masked, originals = batch.targets[MASKED], batch.targets[ORIGINALS]
    with torch.no_grad():
        output = objective.generator(batch)
        logits = objective.generator_head(output, batch)[masked]
        torch.manual_seed(5)
        places = torch.rand(len(masked), 1)
        drawn = torch.searchsorted(logits.softmax(1).cumsum(1), places)[:, 0]
        ids = batch.ids.clone()
        ids[masked] = drawn
        shown = dataclasses.replace(batch, ids=ids)
        scores = objective.head(objective.encoder(shown), shown)[:, 0]
    replaced = torch.zeros(len(ids))
    replaced[masked] = (drawn != originals).float()
    assert batch.special is not None
    kept = ~batch.special
    expected = {
        "masked_lm": F.cross_entropy(logits, originals).item(),
        "replaced": F.binary_cross_entropy_with_logits(scores[kept], replaced[kept]).item(),
        "accuracy": (logits.argmax(1) == originals).float().mean().item(),
        "replaced_accuracy": ((scores > 0) == replaced.bool())[kept].float().mean().item(),
        "share_replaced": replaced[kept].mean().item(),
    }
    assert found == pytest.approx(expected, rel=1e-5)
    assert [part.weight for part in objective.parts] == [1.0, 50.0, 0.0, 0.0, 0.0]


def test_a_draw_that_is_right_is_an_original() -> None:
    """Clark et al. 2020: such tokens are labelled as real."""
    objective = made().eval()
    batch = masked_batch(small_config(), LENGTHS)
    originals = batch.targets[ORIGINALS]
    # A generator that always says one word: replaced are all masked tokens but those.
    word = int(originals[0])
    with torch.no_grad():
        objective.generator_head.output.bias[word] = 1e4
    found = means(objective, batch)
    tokens = objective.counts(batch)[1]
    assert found["share_replaced"] * tokens == pytest.approx(int((originals != word).sum()))


def test_the_draw_passes_no_gradient_to_the_generator() -> None:
    objective = made("none")
    torch.autograd.backward(objective(masked_batch(small_config(), LENGTHS))[1])
    assert all(p.grad is None or not p.grad.any() for p in objective.generator.parameters())
    assert objective.encoder.embeddings.words.weight.grad is not None


def test_electra_shares_its_tables() -> None:
    objective = made("embeddings")
    ours, theirs = objective.encoder.embeddings, objective.generator.embeddings
    for name in ("words", "positions", "types", "norm"):
        assert getattr(ours, name) is getattr(theirs, name)
    assert ours.projection is not theirs.projection
    assert objective.generator_head.output.weight is ours.words.weight
    names = [name for name, _ in objective.named_parameters() if "words" in name]
    assert names == ["encoder.embeddings.words.weight"]


def tables(objective: ReplacedTokenObjective) -> tuple[Tensor, nn.Parameter]:
    table = objective.encoder.embeddings.words
    assert isinstance(table, AddedTable)
    return objective.generator.embeddings.words.weight, table.added


def test_disentangled_sharing_lets_each_loss_move_its_own_table() -> None:
    """He et al. 2023, equation 4: E_D = stop_gradient(E_G) + E_delta."""
    batch = masked_batch(small_config(), LENGTHS)
    for part, moved in ((0, "generator"), (1, "encoder")):
        objective = made("disentangled")
        shared, added = tables(objective)
        torch.autograd.backward(objective(batch)[part])
        assert (shared.grad is not None and bool(shared.grad.any())) == (moved == "generator")
        assert (added.grad is not None and bool(added.grad.any())) == (moved == "encoder")


def test_disentangled_tables_begin_equal_and_are_merged_at_the_end() -> None:
    objective = made("disentangled").eval()
    shared, added = tables(objective)
    ids = torch.arange(VOCAB_SIZE)
    assert torch.equal(objective.encoder.embeddings.words(ids), shared)
    with torch.no_grad():
        added.normal_()
    batch = masked_batch(small_config(), LENGTHS)
    before = objective.encoder(batch).last_hidden
    stored = named_tensors(objective)
    assert "encoder.embeddings.words.added" in stored
    assert sum(tensor is shared for tensor in stored.values()) == 1
    merge_tables(objective.encoder)
    assert type(objective.encoder.embeddings.words) is nn.Embedding
    assert torch.equal(objective.encoder(batch).last_hidden, before)
    assert objective.encoder.state_dict().keys() == Encoder(small_config()).state_dict().keys()


def test_embeddings_of_different_shapes_are_refused() -> None:
    config = small_config()
    other = generator_of(config.with_vocab_size(50))
    with pytest.raises(UsageError, match=r"\(60, 32\) and \(50, 32\)"):
        ReplacedTokenObjective(
            Encoder(config),
            TokenHead(64, 1),
            generator=Encoder(other),
            generator_head=MaskedLMHead(64, 32, 50),
        )


# --- it learns --------------------------------------------------------------------------------

GROUPS = 12
STEPS = 120


def triples(count: int, length: int, seed: int) -> Tensor:
    """Texts of words in threes: each of a three tells the other two."""
    generator = torch.Generator().manual_seed(seed)
    groups = torch.randint(0, GROUPS, (count, length // 3, 1), generator=generator)
    return (5 + groups * 3 + torch.arange(3)).flatten(1)


def batch_of(texts: Tensor, seed: int) -> Batch:
    batch = masked_batch(small_config(), [texts.shape[1] + 2] * len(texts), seed=seed, share=0.2)
    assert batch.special is not None
    whole = batch.ids.clone()
    whole[~batch.special] = texts.flatten()
    masked = batch.targets[MASKED]
    return dataclasses.replace(
        batch,
        ids=whole.index_fill(0, masked, 4),
        targets={MASKED: masked, ORIGINALS: whole[masked]},
    )


def learned(sharing: Sharing, *, shuffled: bool = False) -> dict[str, float]:
    """How good a model is on new texts after some steps on texts, or on texts without order."""
    objective = made(sharing)
    for module in (objective.encoder, objective.head, objective.generator):
        initialise(module, 0.05)
    optimizer = adamw(objective, learning_rate=1e-3, weight_decay=0.0)
    for step in range(STEPS):
        texts = triples(16, 12, seed=step)
        if shuffled:
            order = torch.randperm(texts.numel(), generator=torch.Generator().manual_seed(step))
            texts = texts.flatten()[order].view_as(texts)
        batch = batch_of(texts, seed=step)
        torch.manual_seed(step)
        sums = objective(batch)
        loss = sum(
            part.weight * total / count
            for part, total, count in zip(
                objective.parts, sums, objective.counts(batch), strict=True
            )
        )
        optimizer.zero_grad()
        assert isinstance(loss, Tensor)
        torch.autograd.backward(loss)
        optimizer.step()
    return held_out(objective.eval())


def held_out(
    objective: ReplacedTokenObjective, seeds: Sequence[int] = range(900, 904)
) -> dict[str, float]:
    each = [means(objective, batch_of(triples(64, 12, seed), seed), seed) for seed in seeds]
    return {name: sum(found[name] for found in each) / len(each) for name in each[0]}


@pytest.fixture(scope="module")
def control() -> dict[str, float]:
    return learned("embeddings", shuffled=True)


# Shares of the control's errors and loss. With tables of its own the generator learns faster, and
# what it draws is harder to find.
@pytest.mark.parametrize(
    ("sharing", "errors", "loss"), [("embeddings", 0.6, 0.75), ("disentangled", 0.9, 0.92)]
)
def test_it_converges_and_beats_the_shuffled_control(
    sharing: Sharing, errors: float, loss: float, control: dict[str, float]
) -> None:
    """transformers PR#4656, simpletransformers#356: ports of ELECTRA failed to converge."""
    model = learned(sharing)
    # The control can do no better than say "original" of every token.
    assert control["replaced_accuracy"] == pytest.approx(1 - control["share_replaced"], abs=0.02)
    assert 1 - model["replaced_accuracy"] < errors * model["share_replaced"]
    assert model["replaced"] < loss * control["replaced"]
    assert model["masked_lm"] < control["masked_lm"] - 0.15
