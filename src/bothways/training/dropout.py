"""An encoder with other dropout rates than its checkpoint says."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from bothways.checkpoints.empty import without_memory
from bothways.model.config import DropoutConfig
from bothways.model.encoder import Encoder


def with_dropout(encoder: Encoder, rates: Mapping[str, float]) -> Encoder:
    """The same encoder over the same parameters, with other dropout rates.

    Args:
        encoder: its parameters are used, not copied.
        rates: by their names in `DropoutConfig`; empty changes nothing.

    Raises:
        ConfigError: when a rate is not in [0, 1).
    """
    if not rates:
        return encoder
    dropout: DropoutConfig = dataclasses.replace(encoder.config.dropout, **rates)
    with without_memory():
        made = Encoder(dataclasses.replace(encoder.config, dropout=dropout))
    made.load_state_dict(encoder.state_dict(keep_vars=True), assign=True)
    return made.train(encoder.training)
