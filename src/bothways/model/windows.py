"""A head that also says how much each window of a long text counts.

Windows of one text run in different batches, so no head sees them together: this one gives one
more number a window, and `tasks/windows.py` weighs the windows' logits by the softmax of that
number over the windows of a text. The output layer is linear, so that this is attention over the
windows' vectors. The other heads, and the table of all, are in `heads.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from bothways.model.encoder import EncoderOutput
from bothways.model.layout import Batch

if TYPE_CHECKING:
    from bothways.model.heads import Pooling, Unit


class WindowAttentionHead(nn.Module):
    """Logits a sequence and, in the last column, how much it counts among its text's windows.

    Args:
        hidden_size: width of the encoder.
        num_labels: width of the logits, without that last column.
        pooling: the pooler's output, the first token, or the mean over all tokens.
        dropout: rate before the output layer.
    """

    unit: ClassVar[Unit] = "sequence"

    def __init__(
        self,
        hidden_size: int,
        num_labels: int,
        *,
        pooling: Pooling = "pooler",
        dropout: float = 0.1,
    ) -> None:
        # The table of heads names this one, so its module cannot be imported first.
        from bothways.model.heads import ClassificationHead

        super().__init__()
        self.settings = {
            "hidden_size": hidden_size,
            "num_labels": num_labels,
            "pooling": pooling,
            "dropout": dropout,
        }
        self.windows = ClassificationHead(
            hidden_size, num_labels + 1, pooling=pooling, dropout=dropout
        )

    def forward(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "N labels_and_score"]:
        """Logits and score, (sequences, labels + 1)."""
        logits: Tensor = self.windows(output, batch)
        return logits

    def rows(self, batch: Batch) -> Tensor | None:
        """Tokens whose last states this head reads; None for all."""
        return self.windows.rows(batch)

    def pool(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "N H"]:
        """One vector a sequence."""
        return self.windows.pool(output, batch)
