"""A small corpus in shards, and settings of short pretraining runs over it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from bothways.training.pretrain_settings import PretrainSettings
from bothways.training.pretrain_tables import (
    CorpusSettings,
    LoopSettings,
    MachineSettings,
    NetworkSettings,
    ObjectiveSettings,
    OptimSettings,
)

TABLES: dict[str, type[Any]] = {
    "corpus": CorpusSettings,
    "objective": ObjectiveSettings,
    "network": NetworkSettings,
    "optim": OptimSettings,
    "loop": LoopSettings,
    "machine": MachineSettings,
}


def text_settings(shards: Path, output: Path, **changes: Any) -> PretrainSettings:
    """Settings of a run of 12 steps; `loop__steps=3` is the field steps of the table loop."""
    given: dict[str, dict[str, Any]] = {
        "corpus": {"data": shards},
        "loop": {"steps": 12, "batch_tokens": 384, "max_length": 32, "held_out_tokens": 600},
        "machine": {"device": "cpu", "workers": 0},
        "optim": {"learning_rate": 2e-3},
    }
    plain: dict[str, Any] = {"preset": "tiny"}
    for name, value in changes.items():
        table, _, key = name.partition("__")
        if key in ("", "_"):
            plain[name] = value
        else:
            given.setdefault(table, {})[key] = value
    if given["loop"].get("hours"):
        given["loop"]["steps"] = None
    tables = {name: TABLES[name](**values) for name, values in given.items()}
    if plain.get("from_"):
        plain["preset"] = None
    return PretrainSettings(output, **plain, **tables)


def small(settings: PretrainSettings, **changes: Any) -> PretrainSettings:
    """Other values of top-level fields."""
    return dataclasses.replace(settings, **changes)


def lines(folder: Path, split: str = "train") -> list[dict[str, Any]]:
    """Lines of metrics.jsonl."""
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [line for line in map(json.loads, text.splitlines()) if line["split"] == split]


def curve(folder: Path) -> list[tuple[int, float]]:
    """Steps and losses."""
    return [(line["step"], line["loss"]) for line in lines(folder)]
