"""From token states to one vector a text: pooling, dense layers, normalisation, in order.

Reading and writing the folder layout of these steps is in `checkpoints/sentence.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bothways.errors import ConfigError
from bothways.model.activations import ACTIVATIONS
from bothways.model.config import Activation
from bothways.model.encoder import EncoderOutput
from bothways.model.layout import Batch
from bothways.model.linear import Linear

PoolingMode = Literal["cls", "mean", "max", "mean_sqrt_len"]


class Pool(nn.Module):
    """One vector a sequence; several modes are put side by side.

    Args:
        modes: first token, mean, max, or sum over the square root of the length.
    """

    def __init__(self, modes: Sequence[PoolingMode]) -> None:
        super().__init__()
        if not modes:
            raise ConfigError("pooling needs at least one mode: cls, mean, max or mean_sqrt_len")
        self.modes = tuple(modes)

    def forward(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "N H"]:
        """Pooled states, (sequences, modes * hidden)."""
        layout, states = batch.layout, output.last_hidden
        parts = []
        for mode in self.modes:
            if mode == "cls":
                whole = states.shape[0] == batch.ids.shape[0]
                parts.append(layout.first(states) if whole else states)
            elif mode == "max":
                parts.append(layout.max(states))
            else:
                mean = layout.mean(states)
                if mode == "mean_sqrt_len":
                    lengths = (
                        torch.tensor(layout.lengths, device=mean.device)
                        if layout.mask is None
                        else layout.mask.sum(1)
                    )
                    mean = mean * lengths.to(mean.dtype).sqrt()[:, None]
                parts.append(mean)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class SentenceDense(nn.Module):
    """activation(linear x).

    Args:
        in_features, out_features: widths.
        bias: whether the linear layer has one.
        activation: applied last.
    """

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool, activation: Activation
    ) -> None:
        super().__init__()
        self.linear = Linear(in_features, out_features, bias=bias)
        self.activation = activation

    def forward(self, vectors: Float[Tensor, "N D"]) -> Float[Tensor, "N E"]:
        """Vectors of another width."""
        return ACTIVATIONS[self.activation](self.linear(vectors))


class SentenceNormalize(nn.Module):
    """Vectors of length one."""

    def forward(self, vectors: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """x / |x|."""
        return F.normalize(vectors, dim=-1)


class SentenceVector(nn.Module):
    """The steps from token states to the vectors that are compared.

    Args:
        pool: first step.
        steps: what follows, in order.
        prompts: text put before an input, by name.
        default_prompt: the name used when none is given, or None.
        similarity: what the vectors are compared by.
        other: what else the folder says about its vectors; kept for saving.
    """

    def __init__(
        self,
        pool: Pool,
        steps: Sequence[SentenceDense | SentenceNormalize] = (),
        *,
        prompts: dict[str, str] | None = None,
        default_prompt: str | None = None,
        similarity: str = "cosine",
        other: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.pool = pool
        self.steps = nn.ModuleList(steps)
        self.prompts = dict(prompts or {})
        self.default_prompt = default_prompt
        self.similarity = similarity
        self.other = dict(other or {})

    @property
    def dense(self) -> list[SentenceDense]:
        """The steps that change the width."""
        return [step for step in self.steps if isinstance(step, SentenceDense)]

    def pooled_by(self, *modes: PoolingMode) -> SentenceVector:
        """The same steps after another pooling.

        Raises:
            ConfigError: when the first dense layer was made for another width.
        """
        if self.dense and len(modes) != len(self.pool.modes):
            raise ConfigError(
                f"pooling {', '.join(map(repr, modes))} makes vectors of another width than "
                f"{', '.join(self.pool.modes)}, which the dense layer after it was made for; leave "
                "the pooling as it is"
            )
        return SentenceVector(
            Pool(modes),
            list(self.steps),  # type: ignore[arg-type]
            prompts=self.prompts,
            default_prompt=self.default_prompt,
            similarity=self.similarity,
            other=self.other,
        )

    def rows(self, batch: Batch) -> Tensor | None:
        """Tokens whose last states are read; None for all."""
        return batch.layout.first_index if self.pool.modes == ("cls",) else None

    def forward(
        self, output: EncoderOutput, batch: Batch, *, normalize: bool | None = None
    ) -> Float[Tensor, "N D"]:
        """Vectors, (sequences, dim).

        Args:
            output: of the encoder.
            batch: that it read.
            normalize: None for what the steps say; True or False overrules them.
        """
        vectors: Tensor = self.pool(output, batch)
        for step in self.steps:
            if normalize is False and isinstance(step, SentenceNormalize):
                continue
            vectors = step(vectors)
        return F.normalize(vectors, dim=-1) if normalize else vectors
