"""`Output`, what a command returns, and the one place that writes it to standard output."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(frozen=True)
class Output:
    """What a command has to say.

    Attributes:
        text: for a person; several texts are written as they come, one a line.
        data: for `--json`; a mapping is one object, several mappings are written as they come,
            one a line. None where there is nothing beyond the text.
        exit_code: 0, unless the command did its work and the answer is a failure.
    """

    text: str | Iterable[str]
    data: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None
    exit_code: int = 0


def write(output: Output, stream: TextIO, *, as_json: bool) -> None:
    """Write an output as text or as JSON, ending with a line end.

    Of the processes that a launcher started, the first writes; the others have the same to say.

    Example:
        >>> write(Output("0.9", {"accuracy": 0.9}), sys.stdout, as_json=True)
        {"accuracy": 0.9}
    """
    if os.environ.get("RANK", "0") != "0":
        return
    for line in _json_lines(output) if as_json else _text_lines(output):
        stream.write(line + "\n")


def _text_lines(output: Output) -> Iterable[str]:
    return [output.text] if isinstance(output.text, str) else output.text


def _json_lines(output: Output) -> Iterable[str]:
    if output.data is None:
        data: Iterable[Mapping[str, Any]] = [{"text": "\n".join(_text_lines(output))}]
    else:
        data = [output.data] if isinstance(output.data, Mapping) else output.data
    return (json.dumps(_finite(item), ensure_ascii=False, allow_nan=False) for item in data)


def _finite(value: Any) -> Any:
    """The same with null for what JSON has no word for: infinity and not-a-number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(member) for member in value]
    return value
