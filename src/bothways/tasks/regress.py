"""Regression: one number a text, or a pair of texts, in the units of the caller's file.

Targets are standardised while learning (their mean and deviation are the task's), because a head
starts near 0 and learns in steps of about 1. When training is over, `finish` moves this scaling
into the output layer, so that a saved model gives the caller's units wherever it is loaded.
Reading and encoding texts is in `texts.py`, windows of long texts in `windows.py`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.checkpoints.parts import Parts
from bothways.data.collate import Source
from bothways.data.rows import Row
from bothways.errors import DataError, TaskError, UsageError
from bothways.metrics.similarity import Correlations
from bothways.model.config import EncoderConfig
from bothways.model.layout import Batch
from bothways.tasks.columns import LABEL_NAMES, refuse, with_usual
from bothways.tasks.results import Result, ScoreResult
from bothways.tasks.task import Columns, Scorer
from bothways.tasks.texts import (
    RAW_SCORES,
    PoolingChoice,
    are_pairs,
    encode_texts,
    group_units,
    read_cells,
    text_head,
    texts_of,
)
from bothways.tasks.windows import first_windows, mean_of_windows, num_texts
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

NUMBER_NAMES = ("score", "rating", "stars", "similarity", "value", "grade", *LABEL_NAMES)


@dataclass(frozen=True)
class RegressExample:
    """A text with its number.

    Attributes:
        text: the text.
        pair: the second text of a pair, or None.
        label: the true number; None where it is not known.
        place: `file, line 12`; empty where it came from no file.
        group: what it belongs to, such as a document; None where it stands alone.
    """

    text: str
    pair: str | None = None
    label: float | None = None
    place: str = ""
    group: str | None = None


@dataclass(frozen=True)
class RegressTask:
    """One number a text or pair.

    Attributes:
        columns: where the fields stand in a file.
        pairs: whether the training examples were pairs; None where that is not known.
        pooling: what the head reads; auto is the pooler where the encoder has one, else the first
            token.
        rating_scale: least and greatest number that a label may be; empty for any.
        mean, deviation: of the training labels; a label is learned as its distance from the mean
            in deviations.
        scaled: whether the head's output is in the caller's units already.

    Example:
        >>> task = RegressTask().fit([RegressExample("a", label=1.0), RegressExample("b", label=3)])
        >>> task.mean, task.deviation
        (2.0, 1.0)
    """

    columns: Columns = field(default_factory=Columns)
    pairs: bool | None = None
    pooling: PoolingChoice = "auto"
    rating_scale: tuple[float, ...] = ()
    mean: float | None = None
    deviation: float = 1.0
    scaled: bool = False

    name: ClassVar[str] = "regress"
    labels: ClassVar[tuple[str, ...]] = ()
    main_metric: ClassVar[str] = "spearman"
    metric_directions: ClassVar[Mapping[str, int]] = {"spearman": 1, "pearson": 1, "mae": -1}

    def __post_init__(self) -> None:
        ends = self.rating_scale
        if ends and not (len(ends) == 2 and -math.inf < ends[0] < ends[1] < math.inf):
            raise UsageError(
                f"the rating scale is {','.join(f'{end:g}' for end in ends)}; expected its least "
                "and its greatest number, as in --rating-scale 0,5"
            )

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[RegressExample]:
        """Examples of rows.

        Args:
            rows: of one file or several with the same columns.
            labelled: whether each row must have a number; without it labels are not read.

        Raises:
            DataError: for missing columns or cells, labels that are no numbers, or numbers
                outside the scale; each with all its rows.
        """
        given = list(rows)
        columns = self.columns
        if labelled:
            columns = with_usual(given, columns, label=NUMBER_NAMES)
        cells = read_cells(given, columns, labelled=labelled, fitted=self.mean is not None)
        numbers = [None if cell.label is None else number_of(cell.label) for cell in cells]
        wrong = [
            f"{cell.place}: {cell.label!r}"
            for cell, number in zip(cells, numbers, strict=True)
            if number is None and cell.label is not None
        ]
        if wrong:
            advice = "expected such as 3, -0.5 or 1e3; mend the rows, or name the right --label"
            refuse("rows whose label is no number", wrong, advice)
        examples = [
            RegressExample(cell.text, cell.pair, number, cell.place, cell.group)
            for cell, number in zip(cells, numbers, strict=True)
        ]
        self.check(examples)
        return examples

    def examples(self, values: Sequence[Any]) -> list[RegressExample]:
        """Unlabelled examples of texts or pairs of texts; RegressExamples as they are.

        Raises:
            UsageError: for anything else, with its numbers.
        """
        given = [value for value in values if isinstance(value, RegressExample)]
        if len(given) == len(values):
            return given
        return [RegressExample(text, pair) for text, pair in texts_of(values)]

    def fit(self, examples: Sequence[RegressExample]) -> RegressTask:
        """The task with the mean and deviation of the training labels.

        Raises:
            DataError: when there is no example, one without a number, or only one number.
        """
        if not examples:
            raise DataError("there are no training examples; expected at least two")
        truth = numbers_of(examples)
        if truth.min() == truth.max():
            file = examples[0].place.rpartition(", line")[0]
            raise DataError(
                f"{file or 'the data'}: all {len(truth)} examples have the label {truth[0]:g}; "
                "there is nothing to learn. Is the label column the right one (--label)?"
            )
        mean, deviation = float(truth.mean()), float(truth.std())
        logger.info(
            "labels from %g to %g, mean %.4g, deviation %.4g",
            *(truth.min(), truth.max(), mean, deviation),
        )
        return replace(self, mean=mean, deviation=deviation, pairs=are_pairs(examples))

    def check(self, examples: Sequence[RegressExample]) -> None:
        """Refuse numbers outside the scale.

        Raises:
            DataError: with each such example's file and line.
        """
        if not self.rating_scale:
            return
        least, greatest = self.rating_scale
        outside = [
            f"{example.place or 'an example'}: {example.label:g}"
            for example in examples
            if example.label is not None and not least <= example.label <= greatest
        ]
        if outside:
            refuse(
                "labels outside the rating scale",
                outside,
                f"expected {least:g} to {greatest:g}; mend the rows, or --rating-scale",
            )

    def encode(
        self, example: RegressExample, tokenizer: Tokenizer, policy: CutPolicy
    ) -> list[Encoding]:
        """The encodings of an example; several are windows."""
        return self.encode_all([example], tokenizer, policy)[0][0]

    def encode_all(
        self, examples: Sequence[RegressExample], tokenizer: Tokenizer, policy: CutPolicy
    ) -> tuple[list[list[Encoding]], Ledger]:
        """The encodings of many examples, in the tokenizer's own threads, and what was cut."""
        return encode_texts(examples, tokenizer, policy, trained_on_pairs=self.pairs)

    def head(self, config: EncoderConfig, labels: Sequence[str]) -> nn.Module:
        """A new head of one output, with random weights."""
        del labels
        return text_head(config, 1, self.pooling)

    def targets(
        self, examples: Sequence[RegressExample], sources: Sequence[Source]
    ) -> dict[str, Tensor]:
        """`label`: (sequences,) in deviations from the mean; each window has its text's."""
        truth = numbers_of([examples[source.example] for source in sources])
        return {"label": torch.tensor((truth - (self.mean or 0.0)) / self.deviation).float()}

    def count(self, batch: Batch) -> int:
        """Texts: the units of the loss, however many windows they have."""
        return num_texts(batch)

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum of the squared errors of the texts, in float32, and the number of texts."""
        found = mean_of_windows(logits.float(), batch)[:, 0]
        truth = batch.targets["label"][first_windows(batch)]
        return (found - truth).square().sum(), self.count(batch)

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """One number an example, in the caller's units: the mean of its windows."""
        found = mean_of_windows(logits.detach().double(), batch)[:, 0]
        if not self.scaled:
            found = found * self.deviation + (self.mean or 0.0)
        return [ScoreResult(score) for score in found.tolist()]

    def finish(self, parts: Parts) -> Parts:
        """The trained parts with the scaling in the output layer, in place."""
        output = getattr(parts.head, "output", None)
        assert isinstance(output, nn.Linear)
        with torch.no_grad():
            output.weight.mul_(self.deviation)
            output.bias.mul_(self.deviation).add_(self.mean or 0.0)
        return replace(parts, raw={**parts.raw, **RAW_SCORES})

    def metrics(
        self, results: Sequence[Result], examples: Sequence[RegressExample]
    ) -> dict[str, float]:
        """spearman, pearson and mae (mean absolute error, in the caller's units)."""
        return self.scorer(results, examples)(np.arange(len(examples)))

    def scorer(self, results: Sequence[Result], examples: Sequence[RegressExample]) -> Scorer:
        """`metrics` of any examples, by index.

        Predictions that are all the same tell nothing, so their correlation is 0; where the truth
        is all the same there is none (nan).
        """
        truth, predicted = numbers_of(examples), scores_of(results)
        errors = np.abs(truth - predicted)
        correlations = Correlations(truth, predicted)

        def scores(some: NDArray[np.int64]) -> dict[str, float]:
            same = bool((predicted[some] == predicted[some[0]]).all())
            found = {"spearman": 0.0, "pearson": 0.0} if same else correlations.scores(some)
            return {**found, "mae": float(errors[some].mean())}

        return scores

    def units(self, examples: Sequence[RegressExample]) -> Sequence[Hashable] | None:
        """The groups, where the examples have them; one without stands alone."""
        return group_units([example.group for example in examples])

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task": of the saved model, whose head is scaled."""
        return {
            "name": self.name,
            "problem_type": "regression",
            "pairs": self.pairs,
            "columns": asdict(self.columns),
            "pooling": self.pooling,
            "rating_scale": list(self.rating_scale),
            "mean": self.mean,
            "deviation": self.deviation,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RegressTask:
        """The task that `state` described."""
        return cls(
            columns=Columns(**state.get("columns", {})),
            pairs=state.get("pairs"),
            pooling=state.get("pooling", "auto"),
            rating_scale=tuple(state.get("rating_scale", ())),
            mean=state.get("mean"),
            deviation=state.get("deviation", 1.0),
            scaled=True,
        )


def numbers_of(examples: Sequence[RegressExample]) -> NDArray[np.float64]:
    """The true numbers, all of which must be known."""
    missing = [
        example.place or f"example {number}"
        for number, example in enumerate(examples)
        if example.label is None
    ]
    if missing:
        refuse("examples without a number", missing, "judging and training need labelled examples")
    return np.array([example.label for example in examples], dtype=np.float64)


def scores_of(results: Sequence[Result]) -> NDArray[np.float64]:
    """Results as numbers.

    Raises:
        TaskError: when one is no score.
    """
    found = [result.score for result in results if isinstance(result, ScoreResult)]
    if len(found) < len(results):
        raise TaskError(f"{len(results) - len(found)} of {len(results)} results are no scores")
    return np.array(found, dtype=np.float64)


def number_of(cell: str) -> float | None:
    """The number in a cell; None where there is none, or one that is not finite."""
    try:
        number = float(cell.replace("_", "x"))  # Python reads 1_000, which nobody writes
    except ValueError:
        return None
    return number if math.isfinite(number) else None
