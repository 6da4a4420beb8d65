"""Classification: one label a text, or a pair of texts.

Example, head, loss, decoding and metrics. The label order is decided once, sorted, by the training
examples, and travels with the model; cells are text, so that "NA" and "01" stay what they are.
Reading and encoding texts and pairs is in `texts.py`; the network of the head in `model/heads.py`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.data.collate import Source
from bothways.data.rows import Row
from bothways.errors import CheckpointError, DataError, TaskError, UsageError, counted, nearest
from bothways.metrics.classification import Confusion, log_losses
from bothways.model.config import EncoderConfig
from bothways.model.init import initialise
from bothways.model.layout import Batch
from bothways.model.windows import WindowAttentionHead
from bothways.tasks.columns import refuse
from bothways.tasks.label_losses import LabelLoss, weights_words
from bothways.tasks.results import LabelResult, Result
from bothways.tasks.task import Columns, Scorer
from bothways.tasks.temperature import stored_temperature, temperature_state, tempered
from bothways.tasks.texts import (
    POOLINGS,
    PoolingChoice,
    are_pairs,
    encode_texts,
    group_units,
    read_cells,
    text_head,
    texts_of,
)
from bothways.tasks.windows import WindowPooling, first_windows, num_texts, pool_windows
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassifyExample:
    """A text with its label.

    Attributes:
        text: the text.
        pair: the second text of a pair, or None.
        label: the true label; None where it is not known.
        place: `file, line 12`; empty where it came from no file.
        group: what it belongs to, such as a document; None where it stands alone.
    """

    text: str
    pair: str | None = None
    label: str | None = None
    place: str = ""
    group: str | None = None


@dataclass(frozen=True)
class ClassifyTask:
    """Single-label classification.

    Attributes:
        labels: in the order of the logits, sorted; empty before `fit`.
        label_counts: training examples of each label.
        pairs: whether the training examples were pairs; None where that is not known.
        columns: where the fields stand in a file.
        pooling: what the head reads: the pooler's output, the first token, or the mean; auto is
            the pooler where the encoder has one, else the first token.
        window_pooling: how the windows of a long text are put together.
        label_loss: what training minimises.
        temperature: that logits are divided by where probabilities are told; None for none.

    Example:
        >>> task = ClassifyTask().fit([ClassifyExample("good", label="yes"),
        ...                            ClassifyExample("bad", label="no")])
        >>> task.labels
        ('no', 'yes')
    """

    labels: tuple[str, ...] = ()
    label_counts: Mapping[str, int] = field(default_factory=dict)
    pairs: bool | None = None
    columns: Columns = field(default_factory=Columns)
    pooling: PoolingChoice = "auto"
    window_pooling: WindowPooling = "mean"
    label_loss: LabelLoss = field(default_factory=LabelLoss)
    temperature: float | None = None

    name: ClassVar[str] = "classify"
    main_metric: ClassVar[str] = "accuracy"
    metric_directions: ClassVar[Mapping[str, int]] = {
        "accuracy": 1,
        "f1_macro": 1,
        "f1_micro": 1,
        "loss": -1,
    }

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise UsageError(f"pooling is {self.pooling!r}; {nearest(str(self.pooling), POOLINGS)}")

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[ClassifyExample]:
        """Examples of rows.

        Args:
            rows: of one file or several with the same columns.
            labelled: whether each row must have a label; without it labels are not read.

        Raises:
            DataError: for missing columns, cells or labels, or a label that training did not
                have; each with all its rows.
        """
        fitted = bool(self.labels)
        cells = read_cells(list(rows), self.columns, labelled=labelled, fitted=fitted)
        examples = [ClassifyExample(**vars(each)) for each in cells]
        if fitted and labelled:
            self.check(examples)
        return examples

    def examples(self, values: Sequence[Any]) -> list[ClassifyExample]:
        """Unlabelled examples of texts or pairs of texts; ClassifyExamples as they are.

        Raises:
            UsageError: for anything else, with its numbers.
        """
        given = [value for value in values if isinstance(value, ClassifyExample)]
        if len(given) == len(values):
            return given
        return [ClassifyExample(text, pair) for text, pair in texts_of(values)]

    def fit(self, examples: Sequence[ClassifyExample]) -> ClassifyTask:
        """The task with the labels of the training examples, sorted, and their counts.

        Raises:
            DataError: when there is no example, one without a label, or only one label.
        """
        if not examples:
            raise DataError("there are no training examples; expected at least one a label")
        counts = Counter(_truth(examples))
        if len(counts) == 1:
            file = examples[0].place.rpartition(", line")[0]
            raise DataError(
                f"{file or 'the data'}: {counted(len(examples), 'example')} and one label, "
                f"{next(iter(counts))!r}; a classifier needs at least two. Is the label column "
                "the right one (--label)?"
            )
        labels = tuple(sorted(counts))
        logger.info("%d labels, in this order: %s", len(labels), ", ".join(labels))
        ordered = {label: counts[label] for label in labels}
        loss = self.label_loss.fitted(ordered)
        if loss.weights:
            logger.info("weights of the labels: %s", weights_words(labels, loss))
        return replace(
            self,
            labels=labels,
            label_counts=ordered,
            pairs=are_pairs(examples),
            label_loss=loss,
            temperature=None,
        )

    def check(self, examples: Sequence[ClassifyExample]) -> None:
        """Refuse labels that the model does not have.

        Raises:
            DataError: with each such example's file and line.
        """
        known = set(self.labels)
        unknown = [
            (e.place, e.label) for e in examples if e.label is not None and e.label not in known
        ]
        refuse_unknown(unknown, self.labels)

    def encode(
        self, example: ClassifyExample, tokenizer: Tokenizer, policy: CutPolicy
    ) -> list[Encoding]:
        """The encodings of an example; several are windows."""
        return self.encode_all([example], tokenizer, policy)[0][0]

    def encode_all(
        self, examples: Sequence[ClassifyExample], tokenizer: Tokenizer, policy: CutPolicy
    ) -> tuple[list[list[Encoding]], Ledger]:
        """The encodings of many examples, in the tokenizer's own threads, and what was cut.

        Raises:
            TaskError: when the model was trained on pairs and these are none, or the reverse.
        """
        return encode_texts(examples, tokenizer, policy, trained_on_pairs=self.pairs)

    def head(self, config: EncoderConfig, labels: Sequence[str]) -> nn.Module:
        """A new head with random weights.

        Raises:
            UsageError: when the pooler is asked for and the encoder has none.
        """
        return new_classifier(config, len(labels), self.pooling, self.window_pooling)

    def targets(
        self, examples: Sequence[ClassifyExample], sources: Sequence[Source]
    ) -> dict[str, Tensor]:
        """`label`: (sequences,) index of the true label; each window has that of its text."""
        truth = [examples[source.example] for source in sources]
        self.check(truth)
        index = {label: number for number, label in enumerate(self.labels)}
        return {"label": torch.tensor([index[label] for label in _truth(truth)])}

    def count(self, batch: Batch) -> int:
        """Texts: the units of the loss, however many windows they have."""
        return num_texts(batch)

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum of the texts' losses, in float32, and the number of texts."""
        scores = pool_windows(logits.float(), batch, self.window_pooling)
        truth = batch.targets["label"][first_windows(batch)]
        return self.label_loss.of_one(scores, truth), self.count(batch)

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """The most probable label of each example, its windows put together."""
        scores = pool_windows(logits.detach().double(), batch, self.window_pooling)
        shares = tempered(scores, self.temperature).exp().cpu().numpy()
        calibrated = self.temperature is not None
        return [label_result(self.labels, row, calibrated=calibrated) for row in shares]

    def metrics(
        self, results: Sequence[Result], examples: Sequence[ClassifyExample]
    ) -> dict[str, float]:
        """accuracy, f1_macro, f1_micro and loss (mean cross-entropy, in nats)."""
        return self.scorer(results, examples)(np.arange(len(examples)))

    def scorer(self, results: Sequence[Result], examples: Sequence[ClassifyExample]) -> Scorer:
        """`metrics` of any examples, by index."""
        truth = _truth(examples)
        self.check(examples)
        predicted = label_results(results)
        confusion = Confusion(truth, [result.label for result in predicted], self.labels)
        losses = log_losses(
            [result.probabilities[label] for result, label in zip(predicted, truth, strict=True)]
        )

        def scores(some: NDArray[np.int64]) -> dict[str, float]:
            return {**confusion.scores(some), "loss": float(losses[some].mean())}

        return scores

    def units(self, examples: Sequence[ClassifyExample]) -> Sequence[Hashable] | None:
        """The groups, where the examples have them; one without stands alone."""
        return group_units([example.group for example in examples])

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task"; `problem_type` is stored, never guessed."""
        return {
            "name": self.name,
            "problem_type": "single_label_classification",
            "labels": list(self.labels),
            "label_counts": dict(self.label_counts),
            "pairs": self.pairs,
            "columns": asdict(self.columns),
            "pooling": self.pooling,
            "window_pooling": self.window_pooling,
            **temperature_state(self.temperature),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ClassifyTask:
        """The task that `state` described.

        Raises:
            CheckpointError: when the state is of another kind of problem.
        """
        kind = state.get("problem_type", "single_label_classification")
        if kind != "single_label_classification":
            raise CheckpointError(
                f"the stored problem_type is {kind!r}; this version classifies with "
                "'single_label_classification' only"
            )
        return cls(
            labels=tuple(state.get("labels", ())),
            label_counts=dict(state.get("label_counts", {})),
            pairs=state.get("pairs"),
            columns=Columns(**state.get("columns", {})),
            pooling=state.get("pooling", "auto"),
            window_pooling=state.get("window_pooling", "mean"),
            temperature=stored_temperature(state),
        )


def refuse_unknown(unknown: Sequence[tuple[str, str]], labels: Sequence[str]) -> None:
    """Refuse labels that the model does not have.

    Args:
        unknown: place and label of each; nothing happens where there is none.
        labels: those it has.

    Raises:
        DataError: with each place.
    """
    if unknown:
        close = nearest(unknown[0][1], labels)
        hint = f" ({close})" if close.endswith("?") else ""
        refuse(
            "rows with a label that the training data does not have",
            (f"{place or 'an example'}: {label!r}" for place, label in unknown),
            f"the labels are: {', '.join(labels)}{hint}. Mend the rows, take them out, or "
            "train with examples of these labels",
        )


def new_classifier(
    config: EncoderConfig,
    num_labels: int,
    pooling: PoolingChoice,
    window_pooling: WindowPooling,
) -> nn.Module:
    """A head over texts, with random weights.

    Args:
        config: of the encoder.
        num_labels: width of the logits.
        pooling: what the head reads; auto is the pooler where there is one, else the first token.
        window_pooling: with attention the head has one more output.

    Raises:
        UsageError: when the pooler is asked for and the encoder has none.
    """
    plain = text_head(config, num_labels, pooling)
    if window_pooling != "attention":
        return plain
    head = WindowAttentionHead(
        config.hidden_size, num_labels, pooling=plain.pooling, dropout=config.dropout.classifier
    )
    initialise(head, config.initializer_range)
    return head


def label_result(
    labels: Sequence[str], probabilities: NDArray[np.float64], *, calibrated: bool = False
) -> LabelResult:
    """The result that a row of probabilities stands for, the first label winning a tie."""
    values = probabilities.tolist()
    best = max(range(len(values)), key=values.__getitem__)
    shares = dict(zip(labels, values, strict=True))
    return LabelResult(labels[best], values[best], shares, calibrated)


def label_results(results: Sequence[Result]) -> list[LabelResult]:
    """Results, all of which must be labels.

    Raises:
        TaskError: when one is not.
    """
    found = [result for result in results if isinstance(result, LabelResult)]
    if len(found) < len(results):
        raise TaskError(f"{len(results) - len(found)} of {len(results)} results are not labels")
    return found


def _truth(examples: Sequence[ClassifyExample]) -> list[str]:
    """The true labels, all of which must be known."""
    missing = [
        example.place or f"example {number}"
        for number, example in enumerate(examples)
        if example.label is None
    ]
    if missing:
        refuse("examples without a label", missing, "judging and training need labelled examples")
    return [example.label for example in examples if example.label is not None]
