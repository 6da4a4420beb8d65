"""Modules without memory: shapes and names only, to be filled with tensors of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

# Random initial values. On the meta device they are nothing, but drawing nothing goes through
# torch's decompositions, whose import takes seconds and a hundred megabytes.
_DRAWS = {
    nn.init.normal_,
    nn.init.uniform_,
    nn.init.kaiming_uniform_,
    Tensor.normal_,
    Tensor.uniform_,
}


class _NoDraws(TorchFunctionMode):
    """Leaves tensors as they are where random values would be drawn into them."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run a function of torch, or not."""
        del types
        kwargs = kwargs or {}
        if func in _DRAWS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@contextmanager
def without_memory() -> Iterator[None]:
    """Modules made inside have parameters on the meta device.

    Example:
        >>> with without_memory():
        ...     layer = nn.Linear(1_000_000, 1_000_000)
        >>> layer.weight.is_meta
        True
    """
    with torch.device("meta"), _NoDraws():
        yield
