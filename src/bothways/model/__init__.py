"""The encoder and its parts; axes, no families."""
