"""torch.export of encoders: one graph for every batch size and length, the same numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder
from tests.contracts.cases import CASES, draw_ids, make_encoder

# float32, another order of operations.
SAME = 1e-5
# Every equation that a graph can hold; the rest are the same ones with other numbers.
EXPORTED = ["bert", "modern", "relative-buckets", "convolution"]


class Padded(nn.Module):
    """An encoder as the engines see it."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        output = self.encoder.padded(input_ids, attention_mask, token_type_ids)
        return output.last_hidden, output.pooled


def inputs(config: EncoderConfig, batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    ids, types = draw_ids(config, (batch, length))
    lengths = torch.randint(1, length + 1, (batch,))
    return ids, (torch.arange(length) < lengths[:, None]).long(), types


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", EXPORTED)
def test_one_graph_serves_every_batch_size_and_length(name: str) -> None:
    config = CASES[name]
    model = Padded(make_encoder(config, dtype=torch.float32))
    usable = config.embeddings.usable_positions
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", min=2, max=usable)
    shape = {0: batch, 1: length}
    with torch.no_grad():
        program = torch.export.export(
            model, inputs(config, 3, 7), dynamic_shapes=(shape, shape, shape)
        )
        exported = program.module()
        for size in ((3, 7), (1, 2), (5, 12), (2, usable)):
            given = inputs(config, *size)
            for left, right in zip(exported(*given), model(*given), strict=True):
                if right is not None:
                    torch.testing.assert_close(left, right, rtol=SAME, atol=SAME)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("side", ["left", "holes"])
def test_a_graph_takes_any_mask(side: str) -> None:
    config = CASES["bert"]
    model = Padded(make_encoder(config, dtype=torch.float32))
    ids, mask, types = inputs(config, 4, 9)
    with torch.no_grad():
        exported = torch.export.export(model, (ids, mask, types)).module()
        holes = (torch.arange(9) % 3 == 0).long().expand(4, 9)
        other = mask.flip(1) if side == "left" else holes
        for left, right in zip(exported(ids, other, types), model(ids, other, types), strict=True):
            torch.testing.assert_close(left, right, rtol=SAME, atol=SAME)
