"""bothways.json: what a model folder of the common layout has no place for.

    version      of this file's format, 1
    task         what the head is for (`Task.state()`)
    labels       names of the outputs, in the order of the logits; config.json says the same
    pooling      how token states become one vector for the head
    head         kind and arguments of a head that transformers has no class for
    heads        where several share the encoder: task, labels, columns and files of each
    untrained    parts whose weights are random
    columns      which columns of a data file hold what
    files        how data files are read: format, encoding, header, quoting
    policy       what is kept of a text that is too long
    passport     sample texts with their ids, and a few output numbers
    int8         how the int8 weights beside the float ones were judged
    provenance   where the model comes from: data, settings, versions

Each key is absent where there is nothing to say; keys that are not known here are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bothways.errors import CheckpointError
from bothways.files import read_json_object, write_json

SETTINGS_NAME = "bothways.json"
VERSION = 1
_KINDS: dict[str, type] = {
    "version": int,
    "task": dict,
    "labels": list,
    "pooling": str,
    "head": dict,
    "heads": dict,
    "untrained": list,
    "columns": dict,
    "files": dict,
    "policy": str,
    "passport": dict,
    "int8": dict,
    "provenance": dict,
}


def read_settings(folder: Path) -> dict[str, Any]:
    """The content of bothways.json; empty when a folder has none.

    Raises:
        CheckpointError: when it is of a newer format or a key holds the wrong kind of value.
    """
    path = folder / SETTINGS_NAME
    if not path.exists():
        return {}
    content = read_json_object(path)
    version = content.get("version")
    if not isinstance(version, int) or version < 1:
        raise CheckpointError(f"{path} has version {version!r}; expected a number from 1")
    if version > VERSION:
        raise CheckpointError(
            f"{path} has format {version}, this library reads up to {VERSION}; "
            "install a newer bothways to load this model"
        )
    wrong = [
        f"{key} is {content[key]!r}; expected a JSON {kind.__name__}"
        for key, kind in _KINDS.items()
        if content.get(key) is not None and not isinstance(content[key], kind)
    ]
    if wrong:
        raise CheckpointError(f"{path}:\n  " + "\n  ".join(wrong))
    return {key: value for key, value in content.items() if value is not None}


def settings_content(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What to write: the version first, and no empty keys."""
    kept = {key: value for key, value in settings.items() if value not in (None, [], {}, ())}
    return {**kept, "version": VERSION} if "version" in kept else {"version": VERSION, **kept}


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Replace the bothways.json of a model folder, and nothing else.

    Args:
        folder: of the model.
        settings: all of its content.
    """
    write_json(folder / SETTINGS_NAME, settings_content(settings))
