"""Every family times every head gives the numbers of transformers, and the same gradients.

Tiny random models, saved by transformers and loaded here; ragged batches of pairs, one-token
texts and texts of the longest allowed length. transformers reads them padded to a rectangle, we
read them packed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bothways.model.config import EncoderConfig
from bothways.model.encoder import EncoderOutput
from bothways.model.layout import Batch, pack
from tests.parity.families import ROWS, Pair, Row, classes, make_pair

# float32, sums of at most a few dozen terms of size 1.
ATOL = 1e-5


@dataclass(frozen=True)
class Texts:
    """Ragged random token ids, padded on the right.

    Attributes:
        ids, mask, types: (batch, length).
    """

    ids: Tensor
    mask: Tensor
    types: Tensor

    @classmethod
    def draw(cls, config: EncoderConfig) -> Texts:
        """Texts of one token, of odd and even lengths, and of the longest length."""
        axis = config.embeddings
        longest = min(axis.usable_positions, 40)
        lengths = torch.tensor([5, 1, longest, 2, 7, 5])
        mask = torch.arange(longest) < lengths[:, None]
        generator = torch.Generator().manual_seed(11)
        ids = torch.randint(axis.vocab_size - 1, mask.shape, generator=generator)
        pad_id = axis.pad_id or 0
        ids = torch.where(mask, ids + (ids >= pad_id), pad_id)  # no text holds the padding token
        # Pairs: the second text begins after about half.
        second = torch.arange(longest) >= (lengths[:, None] + 1) // 2
        types = (second & mask).long() * (axis.num_types - 1) if axis.num_types > 1 else ids * 0
        return cls(ids, mask, types)

    @cached_property
    def batch(self) -> Batch:
        """As we read them."""
        return pack(self.ids, self.mask, self.types)

    def arguments(self, config: EncoderConfig, *, candidates: bool = False) -> dict[str, Tensor]:
        """As transformers reads them; candidates of one question are a dimension more."""
        given = {"input_ids": self.ids, "attention_mask": self.mask.long()}
        if config.embeddings.num_types:
            given["token_type_ids"] = self.types
        return {name: value[None] for name, value in given.items()} if candidates else given


@dataclass(frozen=True)
class Both:
    """What both libraries made of the same texts."""

    pair: Pair
    texts: Texts
    theirs: Any
    ours: EncoderOutput

    @cached_property
    def logits(self) -> list[tuple[Tensor, Tensor]]:
        """Theirs and ours, of kept tokens or of texts."""
        head, kept = self.pair.ours.head, self.texts.mask
        if head is None:
            return []
        given = head(self.ours, self.texts.batch)
        theirs = self.theirs
        match self.pair.kind:
            case "answer":
                scores = torch.stack([theirs.start_logits, theirs.end_logits], dim=-1)
                return [(scores[kept], given)]
            case "masked_lm" if "prediction_logits" in theirs:
                relation = getattr(theirs, "seq_relationship_logits", None)
                if relation is None:
                    relation = theirs.sop_logits
                assert isinstance(head.relation, torch.nn.Module)
                mine = head.relation(self.ours, self.texts.batch)
                return [(theirs.prediction_logits[kept], given), (relation, mine)]
            case "masked_lm" | "token":
                return [(theirs.logits[kept], given)]
            case "replaced":
                return [(theirs.logits[kept][:, None], given)]
            case "choice":
                return [(theirs.logits.T, given)]
        return [(theirs.logits, given)]


def run(pair: Pair, *, weights: bool = True) -> Both:
    config = pair.ours.config
    texts = Texts.draw(config)
    theirs = pair.theirs(
        **texts.arguments(config, candidates=pair.kind == "choice"),
        output_hidden_states=weights,
        output_attentions=weights,
    )
    ours = pair.ours.encoder(texts.batch, all_hidden=weights, attentions=weights)
    return Both(pair, texts, theirs, ours)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=ATOL)


every_row = pytest.mark.parametrize("row", ROWS, ids=[f"{r.model_type}-{r.name}" for r in ROWS])
every_class = pytest.mark.parametrize(
    ("row", "class_name"),
    [
        pytest.param(row, name, id=f"{row.model_type}-{row.name}-{name}")
        for row in ROWS
        for name in classes(row)
    ],
)


@every_class
def test_states_weights_and_logits_are_those_of_transformers(
    row: Row, class_name: str, tmp_path: Path
) -> None:
    pair = make_pair(row, class_name, tmp_path)
    with torch.no_grad():
        both = run(pair)
        theirs, ours, kept = both.theirs, both.ours, both.texts.mask
        assert ours.all_hidden is not None
        assert ours.attentions is not None
        # Where layers hold several inner ones, transformers 5 records each of these.
        inner = len(pair.ours.config.block_order[0])
        for mine, states in zip(ours.all_hidden, theirs.hidden_states[::inner], strict=True):
            close(mine, states[kept])
        for layer, weights in zip(ours.attentions, theirs.attentions, strict=True):
            for mine, rectangle, mask in zip(layer, weights, kept, strict=True):
                close(mine, rectangle[:, mask][:, :, mask])
        if pair.kind is None:
            close(ours.last_hidden, theirs.last_hidden_state[kept])
            assert ("pooler_output" in theirs) == (ours.pooled is not None)
            if ours.pooled is not None:
                close(ours.pooled, theirs.pooler_output)
        else:
            assert both.logits
        for reference, mine in both.logits:
            assert reference.std() > 0.02  # they vary, so that equality means something
            close(mine, reference)


@every_class
def test_gradients_of_every_weight_are_those_of_transformers(
    row: Row, class_name: str, tmp_path: Path
) -> None:
    pair = make_pair(row, class_name, tmp_path)
    both = run(pair, weights=False)
    pairs = both.logits
    if pair.kind is None:
        pairs = [(both.theirs.last_hidden_state[both.texts.mask], both.ours.last_hidden)]
        if both.ours.pooled is not None:
            pairs.append((both.theirs.pooler_output, both.ours.pooled))
    for side in (0, 1):
        # Each number counts differently, so that no two errors cancel.
        sums = [(p[side] * torch.linspace(0.5, 1.5, p[side].shape[-1])).sin().sum() for p in pairs]
        torch.autograd.backward(torch.stack(sums).sum())
    compared: set[int] = set()
    gradients: list[tuple[Tensor, Tensor]] = []
    for slot, theirs, mine in pair.parameters():
        compared.add(id(theirs))
        # A pooler that no head reads has none; fixed sinusoids neither (transformers 4 freezes
        # them, transformers 5 computes them in another place and forgets to).
        if theirs.grad is None or not any(p.requires_grad for p in mine.values()):
            assert all(parameter.grad is None for parameter in mine.values())
            continue
        for name, reference in slot.split(theirs.grad).items():
            gradient = mine[name].grad
            assert gradient is not None, name
            gradients.append((gradient, reference))
    missed = [n for n, p in pair.theirs.named_parameters() if id(p) not in compared]
    assert not missed
    # Relative to the largest gradient of a tensor, or to a hundredth of the largest of all: the
    # gradient of a key's bias is nothing but rounding, since it adds the same to a row of scores.
    largest = max(float(reference.abs().max()) for _, reference in gradients)
    for gradient, reference in gradients:
        scale = max(float(reference.abs().max()), 1e-2 * largest)
        close(gradient / scale, reference / scale)
