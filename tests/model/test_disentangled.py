"""Cross terms of disentangled attention against their definition, entry by entry."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from bothways.model.config import EncoderConfig, RelativeConfig
from bothways.model.disentangled import _ROWS, RelativeScores, RelativeTable
from bothways.model.layout import Layout
from tests.contracts.cases import CASES, change

# float64: what is left is rounding.
SAME = 1e-9
# Fewer rows than are worked on together, as many, one more, several times as many and a rest.
LENGTHS = [1, 2, 7, _ROWS, _ROWS + 1, 3 * _ROWS + 5]
# Distances end, in buckets and without, before the longest texts do.
AXES = {
    "plain": RelativeConfig(max_distance=40, key_bias=False),
    "buckets": RelativeConfig(max_distance=150, buckets=10, normalised=True),
    "shared": RelativeConfig(max_distance=300, buckets=32, shared_projections=True),
    "c2p": RelativeConfig(max_distance=40, terms=("c2p",)),
    "p2c": RelativeConfig(max_distance=40, terms=("p2c",)),
}


def config_of(axis: RelativeConfig) -> EncoderConfig:
    return change(CASES["deberta"], relative=axis)


class Given:
    """Random modules, queries and keys of a group."""

    def __init__(self, axis: RelativeConfig, count: int, length: int) -> None:
        config = config_of(axis)
        torch.manual_seed(length)
        self.table = RelativeTable(config).double()
        self.scores = RelativeScores(config).double().eval()
        self.query, self.key = (nn.Linear(24, 24).double() for _ in range(2))
        self.q, self.k = torch.randn(2, count, 3, length, 8, dtype=torch.float64).unbind()
        self.scale = 0.3
        for module in (self.table, self.scores):
            for parameter in module.parameters():
                nn.init.normal_(parameter)

    def bias(self, layout: Layout) -> Tensor:
        made = self.scores.bias(
            self.table(layout.longest), layout, query=self.query, key=self.key, scale=self.scale
        )
        return made(self.q, self.k)

    def defined(self) -> Tensor:
        """Each pair of tokens by itself: find the row of its distance, project it, multiply."""
        length = self.q.shape[2]
        distances = self.table(length)
        keys, queries = self.scores.project(distances, query=self.query, key=self.key)
        place = torch.arange(length)[:, None] - torch.arange(length)[None] + length - 1
        total = torch.zeros(*self.q.shape[:2], length, length, dtype=torch.float64)
        if keys is not None:
            heads = keys[place].unflatten(-1, (3, 8))  # (i, j, h, d)
            total += torch.einsum("nhid,ijhd->nhij", self.q, heads)
        if queries is not None:
            heads = queries[place].unflatten(-1, (3, 8))
            total += torch.einsum("nhjd,ijhd->nhij", self.k, heads)
        return total * self.scale


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("axis", AXES.values(), ids=AXES)
def test_the_terms_are_those_of_the_definition(axis: RelativeConfig, length: int) -> None:
    given = Given(axis, count=3, length=length)
    expected = given.defined()
    # Others in the batch are longer: only the middle of the distances is this group's.
    for lengths in ([length] * 3, [length, length, length + 9, length]):
        found = given.bias(Layout.packed(lengths))
        torch.testing.assert_close(found, expected, rtol=SAME, atol=SAME)
    full = Layout.rectangular(torch.ones(3, length))
    torch.testing.assert_close(given.bias(full), expected, rtol=SAME, atol=SAME)


@pytest.mark.parametrize("axis", AXES.values(), ids=AXES)
def test_gradients_are_those_of_the_definition(axis: RelativeConfig) -> None:
    length = _ROWS + 3
    gradients = []
    for form in ("packed", "definition"):
        given = Given(axis, count=2, length=length)
        given.q.requires_grad_()
        given.k.requires_grad_()
        bias = given.bias(Layout.packed([length] * 2)) if form == "packed" else given.defined()
        torch.autograd.backward(bias.sin().sum())
        tensors = [given.q, given.k, *given.table.parameters(), *given.scores.parameters()]
        gradients.append([tensor.grad for tensor in tensors])
    torch.testing.assert_close(*gradients, rtol=SAME, atol=SAME)


def test_a_table_gives_its_ends_to_what_lies_beyond() -> None:
    table = RelativeTable(config_of(RelativeConfig(max_distance=4)))
    assert table(7).index.tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7]
    assert torch.equal(table(7).vectors, table.vectors.weight[table(7).index])
