"""Windows of a long text count as one text: in the loss, in what is predicted, in any order."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from bothways.data.collate import Source, collate
from bothways.model.layout import Batch
from bothways.tasks.classify import ClassifyExample, ClassifyTask, label_results
from bothways.tasks.windows import WindowPooling, first_windows, num_texts, pool_windows
from bothways.tokenization.encoding import Encoding

POOLINGS: tuple[WindowPooling, ...] = ("mean", "max", "attention")
# Float32 arithmetic on a handful of numbers.
SINGLE = 1e-6


def batch(*texts: int, targets: dict[str, Tensor] | None = None) -> Batch:
    """One sequence of three tokens a window; the numbers say which text each is of."""
    piece = Encoding([5] * 3, [0] * 3, [(0, 0)] * 3, [None] * 3, [False] * 3)
    windows = [texts[:place].count(text) for place, text in enumerate(texts)]
    sources = [Source(text, window, piece) for text, window in zip(texts, windows, strict=True)]
    return collate(sources, targets)


def test_texts_are_numbered_as_they_come() -> None:
    some = batch(7, 2, 7, 9)
    assert (num_texts(some), first_windows(some)) == (3, [0, 1, 3])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_text_of_one_window_has_its_softmax(pooling: WindowPooling) -> None:
    logits = torch.randn(4, 3)
    columns = torch.cat([logits, torch.randn(4, 1)], dim=1) if pooling == "attention" else logits
    found = pool_windows(columns, batch(0, 1, 2, 3), pooling)
    assert torch.equal(found, logits.log_softmax(-1))


def test_the_mean_is_of_probabilities() -> None:
    logits = torch.tensor([[0.0, math.log(3)], [math.log(4), 0.0], [0.0, math.log(9)]])
    found = pool_windows(logits, batch(7, 2, 7), "mean").exp()
    assert found[:, 1].tolist() == pytest.approx([(0.75 + 0.9) / 2, 0.2], rel=SINGLE)


def test_the_largest_logit_of_each_label_counts() -> None:
    logits = torch.tensor([[0.0, 5.0], [1.0, 1.0], [3.0, 0.0]])
    found = pool_windows(logits, batch(0, 1, 0), "max")
    assert torch.allclose(found[0], torch.tensor([3.0, 5.0]).log_softmax(-1))


def test_attention_weighs_the_logits_by_the_softmax_of_the_last_column() -> None:
    """Equal to a softmax over the windows' vectors before a linear layer."""
    vectors, layer = torch.randn(5, 8), torch.nn.Linear(8, 4)
    found = pool_windows(layer(vectors), batch(0, 0, 1, 0, 1), "attention")
    for text, rows in enumerate(([0, 1, 3], [2, 4])):
        own = vectors[rows]
        weights = layer(own)[:, -1].softmax(0)
        pooled = (weights[:, None] * own).sum(0)
        assert torch.allclose(found[text], layer(pooled)[:3].log_softmax(-1), atol=SINGLE)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_scores_beyond_the_range_of_exponentials_stay_finite(pooling: WindowPooling) -> None:
    logits = torch.tensor([[1e4, -1e4, 1e4], [-1e4, 1e4, -1e4], [0.0, 0.0, 0.0]])
    logits.requires_grad_()
    found = pool_windows(logits, batch(0, 0, 1), pooling)
    found.sum().backward()
    assert found.isfinite().all()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def fitted(pooling: WindowPooling) -> ClassifyTask:
    examples = [ClassifyExample("x", label=label) for label in ("a", "b")]
    return ClassifyTask(window_pooling=pooling).fit(examples)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_text_of_many_windows_is_one_example(pooling: WindowPooling) -> None:
    """transformers#10682: each window counted as an example of its own."""
    task = fitted(pooling)
    width = 2 + (pooling == "attention")
    one, other = torch.randn(1, width), torch.randn(1, width)
    short = batch(0, 1, targets={"label": torch.tensor([0, 1])})
    long = batch(*[0] * 10, 1, targets={"label": torch.tensor([0] * 10 + [1])})
    loss, count = task.loss(torch.cat([one, other]), short)
    again, count_again = task.loss(torch.cat([one.repeat(10, 1), other]), long)
    assert count == count_again == task.count(long) == 2
    assert float(again) == pytest.approx(float(loss), rel=SINGLE)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_what_is_learned_is_what_is_predicted(pooling: WindowPooling) -> None:
    """The loss is the negative logarithm of the probability that `decode` gives the truth."""
    task, truth = fitted(pooling), [1, 0, 1]
    texts = (0, 1, 0, 2, 1)
    some = batch(*texts, targets={"label": torch.tensor([truth[text] for text in texts])})
    logits = torch.randn(5, 2 + (pooling == "attention"))
    loss, _ = task.loss(logits, some)
    results = label_results(task.decode(logits, some))
    said = [
        result.probabilities[task.labels[label]]
        for result, label in zip(results, truth, strict=True)
    ]
    assert float(loss) == pytest.approx(-sum(map(math.log, said)), rel=1e-5)


def test_the_state_keeps_the_pooling() -> None:
    task = fitted("attention")
    assert ClassifyTask.from_state(task.state()) == task
    assert ClassifyTask.from_state({"labels": ["a"]}).window_pooling == "mean"
