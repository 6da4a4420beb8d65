"""`ConfigKeys`: the keys of a config.json, each read with its type, or refused by name.

A family's reader asks for the keys it knows. A default is what transformers takes when the file
does not name the key; the keys that decide an encoder's shape have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from bothways.errors import ConfigError, UnsupportedModelError, nearest
from bothways.model.config import Activation

ACTIVATION_OF: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "linear": "identity",
}
NAME_OF_ACTIVATION: dict[Activation, str] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
    "identity": "linear",
}
# What a damaged file may say beyond these would fill the memory before the weights are compared.
LARGEST_SIZE = 2**31 - 1
MOST_LAYERS = 10_000


class ConfigKeys:
    """The content of a config.json, read key by key.

    Args:
        raw: the content.
        place: the file, for messages.

    Example:
        >>> keys = ConfigKeys({"hidden_size": 384})
        >>> keys.whole("hidden_size"), keys.whole("type_vocab_size", 2)
        (384, 2)
    """

    def __init__(self, raw: Mapping[str, Any], place: str = "config.json") -> None:
        self.raw = raw
        self.place = place

    def whole(
        self,
        name: str,
        default: int | None = None,
        *,
        minimum: int = 1,
        maximum: int = LARGEST_SIZE,
    ) -> int:
        """A whole number.

        Raises:
            ConfigError: when the key is absent and has no default, or its value is something else.
        """
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self._wrong(name, value, f"a whole number of at least {minimum}")
        if value > maximum:
            raise self._wrong(name, value, f"at most {maximum:,}")
        return value

    def layers(self, name: str) -> int:
        """A number of layers, refused where no encoder has so many, before any is built."""
        return self.whole(name, maximum=MOST_LAYERS)

    def index(self, name: str, default: int | None) -> int | None:
        """A token id or another index, or None."""
        value = self.raw.get(name, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(name, value, "an index of at least 0, or null")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number; null counts as absent."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self._wrong(name, value, "a finite number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def text(self, name: str, default: str) -> str:
        """A word."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, value, "a text")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """A list of words; none where the key is absent or null."""
        value = self.raw.get(name) or ()
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            raise self._wrong(name, value, "a list of texts")
        return tuple(value)

    def activation(self, name: str, default: str = "gelu") -> Activation:
        """An activation by the name that published configurations use.

        Raises:
            UnsupportedModelError: when it is not built here.
        """
        value = self.text(name, default)
        if value not in ACTIVATION_OF:
            raise UnsupportedModelError(
                f"{self.place}: {name} is {value!r}, which is not built here; "
                f"{nearest(value, ACTIVATION_OF)}"
            )
        return ACTIVATION_OF[value]

    def head_size(self, hidden_size: int, num_heads: int) -> int:
        """Width of an attention head.

        Raises:
            ConfigError: when the heads do not divide the hidden size.
        """
        if hidden_size % num_heads:
            raise ConfigError(
                f"{self.place}: the hidden size, {hidden_size}, is not divisible by the number "
                f"of attention heads, {num_heads}"
            )
        return hidden_size // num_heads

    def _value(self, name: str, default: Any) -> Any:
        value = self.raw.get(name)
        if value is None:
            value = default
        if value is None:
            raise ConfigError(
                f"{self.place} has no {name!r}; {nearest(name, self.raw)}"
                if self.raw
                else f"{self.place} is empty"
            )
        return value

    def _wrong(self, name: str, value: Any, expected: str) -> ConfigError:
        return ConfigError(f"{self.place}: {name} is {value!r}; expected {expected}")
