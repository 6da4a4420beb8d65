"""The chain of tags, beside all paths written out."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from bothways.model.crf import (
    FORBIDDEN,
    CrfHead,
    best_path,
    forbidden_moves,
    log_partition,
    marginals,
    path_score,
    with_head,
)
from bothways.model.encoder import EncoderOutput
from bothways.model.heads import TokenHead, build_head, describe_head
from bothways.model.layout import Batch, Layout

TAGS, LENGTHS = 3, (4, 1, 3)


def score(scores: Tensor, path: tuple[int, ...], transitions: Tensor) -> float:
    """The score of a path, term by term."""
    total = float(transitions[TAGS, path[0]] + transitions[path[-1], TAGS])
    for word, tag in enumerate(path):
        total += float(scores[word, tag])
        if word:
            total += float(transitions[path[word - 1], tag])
    return total


@pytest.fixture
def chain() -> tuple[Tensor, Tensor, Tensor]:
    """Scores, lengths and transitions; what lies beyond a length is meant to disturb."""
    scores = torch.randn(len(LENGTHS), max(LENGTHS), TAGS, dtype=torch.float64)
    for text, length in enumerate(LENGTHS):
        scores[text, length:] = 1e3
    transitions = torch.randn(TAGS + 1, TAGS + 1, dtype=torch.float64)
    return scores, torch.tensor(LENGTHS), transitions


def paths(length: int) -> list[tuple[int, ...]]:
    return list(product(range(TAGS), repeat=length))


def test_the_partition_is_the_sum_over_all_paths(chain: tuple[Tensor, Tensor, Tensor]) -> None:
    scores, lengths, transitions = chain
    found = log_partition(scores, lengths, transitions)
    for text, length in enumerate(LENGTHS):
        every = torch.tensor([score(scores[text], path, transitions) for path in paths(length)])
        assert float(found[text]) == pytest.approx(float(every.logsumexp(0)), rel=1e-5)


def test_the_best_path_is_the_best_of_all(chain: tuple[Tensor, Tensor, Tensor]) -> None:
    scores, lengths, transitions = chain
    found = best_path(scores, lengths, transitions)
    for text, length in enumerate(LENGTHS):
        best = max(paths(length), key=lambda path: score(scores[text], path, transitions))
        assert tuple(found[text, :length].tolist()) == best
        assert not found[text, length:].any()
    own = path_score(scores, found, lengths, transitions)
    for text, length in enumerate(LENGTHS):
        path = tuple(found[text, :length].tolist())
        assert float(own[text]) == pytest.approx(score(scores[text], path, transitions))


def test_marginals_are_sums_over_the_paths_through_a_tag(
    chain: tuple[Tensor, Tensor, Tensor],
) -> None:
    scores, lengths, transitions = chain
    found = marginals(scores, lengths, transitions)
    for text, length in enumerate(LENGTHS):
        weights = {path: score(scores[text], path, transitions) for path in paths(length)}
        total = torch.tensor(list(weights.values()), dtype=torch.float64).exp().sum()
        for word, tag in product(range(length), range(TAGS)):
            through = [value for path, value in weights.items() if path[word] == tag]
            expected = torch.tensor(through, dtype=torch.float64).exp().sum() / total
            assert float(found[text, word, tag]) == pytest.approx(float(expected), rel=1e-9)


def test_forbidden_moves_are_never_taken() -> None:
    """However much the scores want them."""
    allowed = torch.ones(TAGS + 1, TAGS + 1, dtype=torch.bool)
    allowed[0, 1] = allowed[TAGS, 2] = False
    scores = torch.full((1, 3, TAGS), -50.0)
    scores[0, 0, 2] = scores[0, 1, 0] = scores[0, 2, 1] = 50.0
    moves = forbidden_moves(allowed)
    (path,) = best_path(scores, torch.tensor([3]), moves).tolist()
    assert path[0] != 2
    assert (0, 1) not in pairwise(path)
    assert float(marginals(scores, torch.tensor([3]), moves)[0, 0, 2]) == 0.0
    assert moves.min() == FORBIDDEN


def test_the_gradient_is_what_is_expected_minus_what_is(
    chain: tuple[Tensor, Tensor, Tensor],
) -> None:
    """d log Z / d scores are the marginals; beyond a length there is none."""
    scores, lengths, transitions = chain
    scores.requires_grad_()
    log_partition(scores, lengths, transitions).sum().backward()
    assert scores.grad is not None
    with torch.no_grad():
        expected = marginals(scores, lengths, transitions)
    for text, length in enumerate(LENGTHS):
        torch.testing.assert_close(scores.grad[text, :length], expected[text, :length])
        assert not scores.grad[text, length:].any()


def test_the_head_scores_tokens_and_hands_its_transitions_on() -> None:
    head = CrfHead(8, TAGS, dropout=0.0)
    batch = Batch(torch.arange(5), Layout.packed([3, 2]))
    states = torch.randn(5, 8)
    torch.testing.assert_close(head(EncoderOutput(states), batch), head.output(states))
    assert with_head(batch, head).targets["transitions"] is head.transitions
    assert with_head(batch, TokenHead(8, TAGS)) is batch
    assert describe_head(build_head(describe_head(head))) == describe_head(head)
