"""A table [[task]] of a recipe: one of several heads that are trained over one encoder.

Its keys are flat, named as the flags of `bothways finetune` are. What all heads share (encoder,
optimizer, loop, lengths) is in the recipe's other tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from bothways.errors import nearest
from bothways.tasks.registry import TASKS
from bothways.training.run_tables import DataSettings
from bothways.training.task_tables import (
    AnswerSettings,
    ClassifySettings,
    RegressSettings,
    RelateSettings,
    RerankSettings,
    TagSettings,
)

# Task -> the field of `FinetuneSettings` whose settings only that task has; they become fields of
# the task by their names. Given with another task they are refused.
TASK_TABLES: dict[str, str] = {
    "classify": "classify",
    "answer": "answer",
    "embed": "embed",
    "regress": "regress",
    "tag": "tag",
    "rerank": "rerank",
    "relate": "relate",
}
# An embedder has no head, and several labels are a setting of classify.
NO_HEADS = ("embed", "multi-label")


@dataclass(frozen=True)
class HeadTable:
    """One of several heads.

    Attributes:
        name: of the head, a word.
        task: what it shall do.
        pooling: what the head reads, as `[network] pooling` says it for one.
        weight: how often an epoch reads its data; 0.5 is half of them, others each time.
        data: what it is learned from and judged on.
        policy, overlap: what it reads of long texts; unset: as the recipe says for all.
        encoding, format, header, quoting: of its files; unset: as the recipe says for all.
        classify, answer, regress, tag, rerank, relate: what only that task has.
    """

    name: str
    task: str = "classify"
    pooling: Literal["auto", "pooler", "cls", "mean"] = "auto"
    weight: float = 1.0
    data: DataSettings = field(default_factory=DataSettings)
    policy: Literal["head", "tail", "head+tail", "windows"] | None = None
    overlap: int | None = None
    encoding: str | None = None
    format: str | None = None
    header: bool | None = None
    quoting: bool | None = None
    classify: ClassifySettings = field(default_factory=ClassifySettings)
    answer: AnswerSettings = field(default_factory=AnswerSettings)
    regress: RegressSettings = field(default_factory=RegressSettings)
    tag: TagSettings = field(default_factory=TagSettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)
    relate: RelateSettings = field(default_factory=RelateSettings)

    @property
    def reading(self) -> dict[str, Any]:
        """What is said of its files and texts, by the names of `CommonSettings`."""
        names = ("policy", "overlap", "encoding", "format", "header", "quoting")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of `FinetuneSettings` that are its own."""
        tables = [table for table in TASK_TABLES.values() if hasattr(self, table)]
        return {name: getattr(self, name) for name in ("task", "data", *tables)}

    def wrong(self) -> list[str]:
        """What cannot be, in words."""
        problems = []
        if not re.fullmatch(r"[A-Za-z_][\w-]*", self.name) or hasattr(nn.ModuleDict, self.name):
            problems.append("a name is a word of letters, digits, - and _, and none of torch's own")
        known = [name for name in TASKS if name not in NO_HEADS]
        if self.task not in known:
            problems.append(f"no head does {self.task!r}; {nearest(self.task, known)}")
        if not 0.0 < self.weight < float("inf"):
            problems.append(f"weight is {self.weight}; expected a number above 0")
        return problems
