"""When the vectors of a model's passport are compared: at once, or at the first use.

Comparing takes one pass over a few tokens. Where that is quick the model is refused when it is
loaded; a larger one is read from the disk at its first use anyway, and compared then.
"""

from __future__ import annotations

from bothways.checkpoints.parts import Parts
from bothways.checkpoints.vectors import check_vectors
from bothways.inference.changes import version

# Numbers in the layers of an encoder that compares in less than 30 ms on one core: MiniLM of 6
# layers and 384 wide has 10.6 million and takes 15 to 25 ms, BERT-base has 85 and takes 60 to 100.
QUICK = 15_000_000


def unverified() -> None:
    """What a model asks that comes from no folder: nothing."""


class Verification:
    """The comparison, made once; called again, it does nothing.

    Args:
        parts: as they were loaded.
        quick: numbers in the layers up to which they are compared at once.

    Raises:
        CheckpointError: when the weights give other vectors than the model was saved with.
    """

    def __init__(self, parts: Parts, *, quick: int = QUICK) -> None:
        self._parts: Parts | None = parts
        self._loaded = _state(parts)
        if sum(parameter.numel() for parameter in parts.encoder.layers.parameters()) <= quick:
            self()

    def __call__(self) -> None:
        """Compare, unless that is done, or the weights were changed on purpose since loading.

        Raises:
            CheckpointError: as above.
        """
        parts = self._parts
        if parts is None:
            return
        if _state(parts) == self._loaded:
            check_vectors(parts)
        self._parts = None


def _state(parts: Parts) -> tuple[tuple[int, tuple[int, int]], ...]:
    """Which parameters there are, and how often each was written to."""
    return tuple((id(each), version(each)) for each in parts.encoder.parameters())
