"""Settings that only one task has: a table of the recipe each, whose fields are the task's own.

Field names are flags and must not occur in another table. What is common to all tasks is in
`settings.py`, which also says which table belongs to which task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ClassifySettings:
    """What only classification has.

    Attributes:
        window_pooling: how the windows of a long text are put together (--policy windows): the
            mean of their probabilities, the largest logit of each label, or a weight for each
            window that is learned.
    """

    window_pooling: Literal["mean", "max", "attention"] = "mean"
