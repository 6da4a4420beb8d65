"""Gradients of a large batch in little memory are those of the batch at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts, adapt
from bothways.data.collate import collate
from bothways.inference.batches import plan_batches
from bothways.model.layout import Batch
from bothways.tasks.embed import EmbedTask
from bothways.tasks.embed_examples import EmbedExample
from bothways.tokenization.policy import CutPolicy
from bothways.training.dropout import with_dropout
from bothways.training.examples import EncodedExamples
from bothways.training.objectives import TaskObjective
from bothways.training.pieces import take
from tests.training.tiny import BAD, GOOD, PLAIN

# Sums of gradients in another order, in float32.
RELATIVE, ABSOLUTE = 1e-4, 1e-6


def example(number: int) -> EmbedExample:
    words = [*PLAIN, *GOOD, *BAD]
    anchor = " ".join(words[number : number + 1 + number % 5])
    return EmbedExample(anchor, " ".join(words[-1 - number : -1]) or "the", (words[-number - 1],))


def objective(
    model: Path, *, rate: float, piece_tokens: int | None, task: EmbedTask | None = None
) -> tuple[TaskObjective, Batch, Parts]:
    parts = load_parts(model)
    parts = dataclasses.replace(
        parts, encoder=with_dropout(parts.encoder, {"hidden": rate, "attention": rate})
    )
    task = (task or EmbedTask()).fit([example(number) for number in range(11)])
    parts = adapt(parts, task.head(parts.config, ()))
    assert parts.tokenizer is not None
    assert parts.reader is not None
    data = EncodedExamples(
        task, [example(n) for n in range(11)], tokenizer=parts.tokenizer, policy=CutPolicy(24)
    )
    made = TaskObjective(parts.encoder, parts.reader, task, piece_tokens=piece_tokens)
    return made.train(), data.batch(range(11)), parts


def gradients(made: TaskObjective, batch: Batch, seed: int = 0) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(seed)
    total = made(batch)
    total.backward()
    found = [p.grad for p in made.parameters() if p.grad is not None]
    assert found
    return total.detach(), found


def close(left: Sequence[Tensor], right: Sequence[Tensor]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, rtol=RELATIVE, atol=ABSOLUTE)


@pytest.mark.parametrize("piece_tokens", [1, 17, 40, 10_000])
@pytest.mark.parametrize("loss", ["negatives", "triplet"])
def test_pieces_of_any_size_give_the_loss_and_gradients_of_the_batch(
    piece_tokens: int, loss: str, tiny_model: Path
) -> None:
    task = EmbedTask(loss_function=loss)  # type: ignore[arg-type]
    whole, batch, _ = objective(tiny_model, rate=0.0, piece_tokens=None, task=task)
    pieces, _, _ = objective(tiny_model, rate=0.0, piece_tokens=piece_tokens, task=task)
    total, expected = gradients(whole, batch)
    again, found = gradients(pieces, batch)
    torch.testing.assert_close(again, total)
    close(found, expected)


def test_dropout_is_drawn_again_as_it_was(tiny_model: Path) -> None:
    """With graphs of all pieces kept, the same draws give the same loss and gradients."""
    made, batch, _ = objective(tiny_model, rate=0.3, piece_tokens=40)
    total, found = gradients(made, batch)
    other, _ = gradients(objective(tiny_model, rate=0.3, piece_tokens=40)[0], batch, seed=1)
    assert abs(float(other - total)) > 1e-3, "dropout is not active"

    plain, _, _ = objective(tiny_model, rate=0.3, piece_tokens=None)
    torch.manual_seed(0)
    pieces = plan_batches(batch.layout.lengths, 40)
    assert len(pieces) > 3
    rows = torch.cat([plain.logits(take(batch, piece)) for piece in pieces])
    order = torch.tensor([index for piece in pieces for index in piece]).argsort()
    expected, _ = plain.task.loss(rows[order], batch)
    expected.backward()
    assert torch.equal(total, expected.detach())
    close(found, [p.grad for p in plain.parameters() if p.grad is not None])


def test_only_one_piece_is_in_memory_at_once(tiny_model: Path) -> None:
    """What the graph keeps of a batch in pieces does not grow with what the encoder computes."""
    kept: dict[int | None, int] = {}
    for piece_tokens in (None, 20):
        made, batch, _ = objective(tiny_model, rate=0.0, piece_tokens=piece_tokens)
        sizes: list[int] = []

        def pack(tensor: Tensor, sizes: list[int] = sizes) -> Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            made(batch)
        kept[piece_tokens] = sum(sizes)
    assert kept[20] * 4 < kept[None]


def test_a_part_of_a_batch_is_the_batch_of_those_texts(tiny_model: Path) -> None:
    _, batch, _ = objective(tiny_model, rate=0.0, piece_tokens=None)
    part = take(batch, [4, 0, 9])
    made = collate([batch.sources[index] for index in (4, 0, 9)])
    assert torch.equal(part.ids, made.ids)
    assert part.layout.lengths == made.layout.lengths
    assert part.special is not None
    assert made.special is not None
    assert torch.equal(part.special, made.special)
    assert part.sources == made.sources
