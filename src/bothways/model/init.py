"""New weights: normal with the configured deviation, biases zero, norms one, sinusoids as given.

Source: Devlin et al. 2019 (truncation left out, as in the published code of most families).
"""

from __future__ import annotations

import torch
from torch import nn

from bothways.model.embeddings import SinusoidalPositions, sinusoidal_table


def initialise(
    module: nn.Module, deviation: float, generator: torch.Generator | None = None
) -> None:
    """Set every parameter of a module and its children anew.

    Args:
        module: an encoder, a head or a part of one.
        deviation: standard deviation of weights and tables.
        generator: source of randomness; None for torch's global one.
    """
    for child in module.modules():
        if isinstance(child, nn.Linear):
            nn.init.normal_(child.weight, std=deviation, generator=generator)
            if child.bias is not None:
                nn.init.zeros_(child.bias)
        elif isinstance(child, SinusoidalPositions):
            with torch.no_grad():
                child.weight.copy_(sinusoidal_table(*child.weight.shape))
        elif isinstance(child, nn.Embedding):
            nn.init.normal_(child.weight, std=deviation, generator=generator)
            if child.padding_idx is not None:
                with torch.no_grad():
                    child.weight[child.padding_idx].zero_()
        elif isinstance(child, nn.LayerNorm):
            nn.init.ones_(child.weight)
            if child.bias is not None:
                nn.init.zeros_(child.bias)
