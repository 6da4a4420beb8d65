"""`EntityHead`: labels of a text with two entities, from the states where they begin.

Which tokens these are is a target of the batch, made by the task (`tasks/relate.py`).

Source: Baldini Soares et al. 2019, "Matching the Blanks".
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from bothways.model.dropout import Dropout
from bothways.model.encoder import EncoderOutput
from bothways.model.layout import Batch
from bothways.model.linear import Linear


class EntityHead(nn.Module):
    """Logits a sequence from the states where its two entities begin: dropout, linear over both.

    The batch says where: its target `entities` has two tokens a sequence, counted within it.

    Args:
        hidden_size: width of the encoder.
        num_labels: width of the logits.
        dropout: rate before the linear layer.
    """

    def __init__(self, hidden_size: int, num_labels: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.settings = {"hidden_size": hidden_size, "num_labels": num_labels, "dropout": dropout}
        self.dropout = Dropout(dropout)
        self.output = Linear(2 * hidden_size, num_labels)

    def forward(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "N labels"]:
        """Logits, (sequences, labels)."""
        tokens = batch.layout.first_index[:, None] + batch.targets["entities"]
        both = output.last_hidden[tokens].flatten(1)  # N 2 H -> N 2H
        logits: Tensor = self.output(self.dropout(both))
        return logits
