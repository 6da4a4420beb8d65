"""What a task is: one protocol from rows of a file to metrics.

    rows -> read -> examples -> encode -> encodings (several an example are windows)
    logits -> loss -> (sum, count)          so that accumulation and ranks add up exactly
    logits -> decode -> one result an example -> metrics

One file a task; `TASKS` in `registry.py` names them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.data.collate import Source
from bothways.data.rows import Row
from bothways.model.config import EncoderConfig
from bothways.model.layout import Batch
from bothways.tasks.results import Result
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer


class ExampleOf(Protocol):
    """What every task's examples say of themselves, whatever else they hold."""

    @property
    def text(self) -> str:
        """The text, or the first of several; with `pair`, what tells duplicates."""
        ...

    @property
    def pair(self) -> str | None:
        """The second text, or None."""
        ...

    @property
    def place(self) -> str:
        """`file, line 12`; empty where it came from no file."""
        ...

    @property
    def group(self) -> str | None:
        """What it belongs to, such as a document; never on both sides of a split."""
        ...


Example = TypeVar("Example", bound=ExampleOf)

Scorer = Callable[[NDArray[np.int64]], dict[str, float]]


@dataclass(frozen=True)
class Columns:
    """Which columns of a file hold what; names, or numbers from 1 where there is no header.

    Attributes:
        text: the text.
        text_pair: the second text of a pair, or None.
        label: what is to be predicted, or None where only predicting.
        group: rows of one group never stand on both sides of a split.
    """

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    group: str | None = None


class Task(Protocol[Example]):
    """One thing to do with an encoder; a value, never changed in place."""

    @property
    def name(self) -> str:
        """The word of `--task`."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the outputs, in the order of the logits; empty before `fit`."""
        ...

    @property
    def columns(self) -> Columns:
        """Where its fields stand in a file."""
        ...

    @property
    def main_metric(self) -> str:
        """What the best checkpoint is chosen by."""
        ...

    @property
    def metric_directions(self) -> Mapping[str, int]:
        """1 for each metric where larger is better, -1 where smaller is."""
        ...

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[Example]:
        """Examples of rows; all problems of one kind in one DataError, with file and line."""
        ...

    def examples(self, values: Sequence[Any]) -> list[Example]:
        """Unlabelled examples of what a caller hands to predict: texts, pairs, or examples."""
        ...

    def fit(self, examples: Sequence[Example]) -> Task[Example]:
        """This task with what the training examples decide: the labels and their counts."""
        ...

    def check(self, examples: Sequence[Example]) -> None:
        """Refuse labelled examples that this fitted task cannot judge, all in one DataError."""
        ...

    def encode(self, example: Example, tokenizer: Tokenizer, policy: CutPolicy) -> list[Encoding]:
        """The encodings of an example; several are windows."""
        ...

    def encode_all(
        self, examples: Sequence[Example], tokenizer: Tokenizer, policy: CutPolicy
    ) -> tuple[list[list[Encoding]], Ledger]:
        """`encode` for many at once, in the tokenizer's own threads, and what was cut."""
        ...

    def head(self, config: EncoderConfig, labels: Sequence[str]) -> nn.Module:
        """A new head with random weights: head(output, batch) -> logits."""
        ...

    def targets(self, examples: Sequence[Example], sources: Sequence[Source]) -> dict[str, Tensor]:
        """What the loss compares with, for the sequences of a batch."""
        ...

    def count(self, batch: Batch) -> int:
        """Over how many units `loss` sums; the loop asks before the first forward of a step."""
        ...

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum of the losses, and over how many units."""
        ...

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """One result an example of the batch, windows merged, in order of first appearance."""
        ...

    def metrics(self, results: Sequence[Result], examples: Sequence[Example]) -> dict[str, float]:
        """Scores by name."""
        ...

    def scorer(self, results: Sequence[Result], examples: Sequence[Example]) -> Scorer:
        """`metrics` of any examples, by index, repeats allowed: what resampling calls."""
        ...

    def units(self, examples: Sequence[Example]) -> Sequence[Hashable] | None:
        """For each example what it belongs to (document, query); None where all stand alone."""
        ...

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task", so that the task can be made again."""
        ...
