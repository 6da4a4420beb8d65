"""From what a user names to a folder on this machine: a folder, or a name on the hub.

Files of a hub model come from the cache where it has them; only files that hold data are fetched,
never code, and weights in a format that can run code only to be converted (`convert.py`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from bothways.errors import CheckpointError

_FETCHED = ["*.json", "*.jsonl", "*.safetensors", "*.txt", "*.model", "*.codes", "README.md"]
_PICKLED = ["pytorch_model.bin", "pytorch_model-*.bin", "*/pytorch_model.bin"]
_LEFT = ["onnx/*", "openvino/*", "coreml/*", "runs/*", "checkpoint-*/*"]
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def find_folder(source: str | Path, *, pickled: bool = False) -> Path:
    """The folder of a model.

    Args:
        source: a folder, or the name of a model on the hub, such as "org/model".
        pickled: also fetch weights in the format that `convert` reads.

    Raises:
        CheckpointError: when it is neither, or the hub's files cannot be had.
    """
    if not str(source).strip():
        raise CheckpointError(
            "the name of the model is empty; give a folder, or a name on the hub such as org/model"
        )
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise CheckpointError(
            f"{source} is a file; expected the folder of a model: try {folder.parent}"
        )
    name = os.fspath(source)
    if isinstance(source, Path) or not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise CheckpointError(f"there is no folder {source}")
    return _fetch(name, [*_FETCHED, *_PICKLED] if pickled else _FETCHED)


def _fetch(name: str, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=_LEFT))
    except HFValidationError as error:
        raise CheckpointError(
            f"{name!r} is neither a folder here nor a possible name on the hub: {error}"
        ) from error
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{name!r} is neither a folder here nor a model in the hub's cache, and fetching it "
            f"failed: {_first_line(error)}. Check the name and the connection, or give the path "
            "of a folder (a model has config.json in it, a tokenizer tokenizer.json)"
        ) from error


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
