"""What differs from layer to layer: learning rates that fall towards the input, new top layers.

Which layers do not learn at all is in `freezing.py`.

Source: Howard and Ruder 2018 (rates by layer); Zhang et al. 2021 (new top layers).
"""

from __future__ import annotations

from torch import nn

from bothways.errors import UsageError
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder
from bothways.model.init import initialise


def check_reinit(config: EncoderConfig, count: int, freeze: str | None) -> None:
    """Refuse a number of new top layers that there are not, or that would not learn.

    Args:
        config: of the encoder.
        count: new layers from the top.
        freeze: as `freezing.freeze` takes it.

    Raises:
        UsageError: with what was asked and what there is.
    """
    if count == 0:
        return
    _refuse_shared(config, "--reinit-layers")
    frozen = int(freeze) if freeze is not None and freeze.isdigit() else 0
    if count + frozen > config.num_layers:
        beside = f" above {frozen} frozen ones" if frozen else ""
        raise UsageError(
            f"--reinit-layers is {count}{beside}; the encoder has {config.num_layers} layers"
        )


def reinitialise(encoder: Encoder, count: int) -> None:
    """Give the top layers, and the pooler, new random weights from torch's generator.

    Args:
        encoder: changed in place.
        count: layers from the top; 0 changes nothing.
    """
    if count == 0:
        return
    deviation = encoder.config.initializer_range
    for blocks in encoder.config.block_order[-count:]:
        for index in blocks:
            initialise(encoder.layers[index], deviation)
    if encoder.pooler is not None:
        initialise(encoder.pooler, deviation)


def layer_factors(module: nn.Module, encoder: Encoder, decay: float) -> dict[int, float]:
    """Factor on the learning rate of each parameter, by its identity.

    Args:
        module: what is trained; its parameters outside of layers and embeddings, the head among
            them, have 1.
        encoder: in it.
        decay: the top layer has this factor, the one below its square, and so on; the embeddings
            lie below the lowest layer.

    Raises:
        UsageError: when layers share their weights, and so could have no rates of their own.
    """
    _refuse_shared(encoder.config, "--layer-decay")
    factors = dict.fromkeys(map(id, module.parameters()), 1.0)
    order = encoder.config.block_order
    for depth, blocks in enumerate(reversed(order), start=1):
        for index in blocks:
            factors |= dict.fromkeys(map(id, encoder.layers[index].parameters()), decay**depth)
    lowest = decay ** (len(order) + 1)
    return factors | dict.fromkeys(map(id, encoder.embeddings.parameters()), lowest)


def _refuse_shared(config: EncoderConfig, flag: str) -> None:
    blocks = [index for blocks in config.block_order for index in blocks]
    if len(set(blocks)) < len(blocks):
        raise UsageError(f"{flag}: the layers of this encoder share their weights")
