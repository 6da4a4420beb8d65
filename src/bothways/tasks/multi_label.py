"""Classification with several labels a text, or none: each label is asked about on its own.

Sigmoid, not softmax: a probability for each label, and a threshold for each, 0.5 until it is tuned
on dev. The problem type is stored with the head, never guessed from the number of labels. What is
shared with `classify.py` (pairs, head, units) comes from there.

Dimension letters: N windows, T texts, C labels.
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
from bothways.errors import CheckpointError, DataError, UsageError, counted, nearest
from bothways.metrics.label_sets import LabelSets, best_threshold
from bothways.model.config import EncoderConfig
from bothways.model.layout import Batch
from bothways.tasks.classify import new_classifier, refuse_unknown
from bothways.tasks.label_losses import LabelLoss, weights_words
from bothways.tasks.label_sets import (
    MultiLabelExample,
    known_label_sets,
    label_set,
    label_set_results,
)
from bothways.tasks.results import LabelSetResult, Result
from bothways.tasks.task import Columns, Scorer
from bothways.tasks.temperature import stored_temperature, temperature_state
from bothways.tasks.texts import (
    POOLINGS,
    PoolingChoice,
    are_pairs,
    encode_texts,
    group_units,
    read_cells,
    texts_of,
)
from bothways.tasks.windows import WindowPooling, first_windows, num_texts, pool_label_logits
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

PROBLEM_TYPE = "multi_label_classification"
UNTUNED = 0.5


@dataclass(frozen=True)
class MultiLabelTask:
    """Several labels a text.

    Attributes:
        labels: in the order of the logits, sorted; empty before `fit`.
        label_counts: training examples that have each label.
        thresholds: probability from which each label is said; empty for 0.5.
        pairs: whether the training examples were pairs; None where that is not known.
        columns: where the fields stand in a file.
        pooling: what the head reads, as in `ClassifyTask`.
        window_pooling: how the windows of a long text are put together.
        label_separator: between the labels of a cell.
        label_loss: what training minimises.
        temperature: that logits are divided by where probabilities are told; None for none.
            Thresholds are of the probabilities without it, so it changes no prediction.

    Example:
        >>> task = MultiLabelTask().fit([MultiLabelExample("good", labels=("a", "b")),
        ...                              MultiLabelExample("bad", labels=())])
        >>> task.labels
        ('a', 'b')
    """

    labels: tuple[str, ...] = ()
    label_counts: Mapping[str, int] = field(default_factory=dict)
    thresholds: tuple[float, ...] = ()
    pairs: bool | None = None
    columns: Columns = field(default_factory=Columns)
    pooling: PoolingChoice = "auto"
    window_pooling: WindowPooling = "mean"
    label_separator: str = ";"
    label_loss: LabelLoss = field(default_factory=LabelLoss)
    temperature: float | None = None

    name: ClassVar[str] = "multi-label"
    # Needs no threshold, so it tells epochs apart before the thresholds are tuned.
    main_metric: ClassVar[str] = "average_precision"
    metric_directions: ClassVar[Mapping[str, int]] = {
        "average_precision": 1,
        "f1_micro": 1,
        "f1_macro": 1,
        "accuracy": 1,
        "loss": -1,
    }

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise UsageError(f"pooling is {self.pooling!r}; {nearest(str(self.pooling), POOLINGS)}")
        if not self.label_separator.strip() and self.label_separator != "\t":
            raise UsageError(
                f"--label-separator is {self.label_separator!r}; expected a character or word that "
                "is in no label, as in ;"
            )

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[MultiLabelExample]:
        """Examples of rows; an empty cell of labels says that there is none.

        Args:
            rows: of one file or several with the same columns.
            labelled: whether each row must have labels; without it they are not read.

        Raises:
            DataError: for missing columns or cells, or a label that training did not have; each
                with all its rows.
        """
        fitted = bool(self.labels)
        cells = read_cells(
            list(rows), self.columns, labelled=labelled, fitted=fitted, empty_labels=True
        )
        examples = [
            MultiLabelExample(
                each.text,
                each.pair,
                None if each.label is None else label_set(each.label, self.label_separator),
                each.place,
                each.group,
            )
            for each in cells
        ]
        if fitted and labelled:
            self.check(examples)
        return examples

    def examples(self, values: Sequence[Any]) -> list[MultiLabelExample]:
        """Unlabelled examples of texts or pairs of texts; MultiLabelExamples as they are.

        Raises:
            UsageError: for anything else, with its numbers.
        """
        given = [value for value in values if isinstance(value, MultiLabelExample)]
        if len(given) == len(values):
            return given
        return [MultiLabelExample(text, pair) for text, pair in texts_of(values)]

    def fit(self, examples: Sequence[MultiLabelExample]) -> MultiLabelTask:
        """The task with the labels of the training examples, sorted, and their counts.

        Raises:
            DataError: when no example has a label, or the labels of one are not known.
        """
        truth = known_label_sets(examples)
        counts = Counter(label for labels in truth for label in labels)
        if not counts:
            raise DataError(
                f"none of {counted(len(examples), 'training example')} has a label; is the "
                "label column the right one (--label)?"
            )
        labels = tuple(sorted(counts))
        sizes = [len(each) for each in truth]
        logger.info(
            "%s, in this order: %s; %.2f a text, %d of %s have none",
            counted(len(labels), "label"),
            ", ".join(labels),
            sum(sizes) / len(sizes),
            sizes.count(0),
            counted(len(sizes), "text"),
        )
        if max(sizes) == 1:
            logger.warning(
                "no training text has more than one label; is %r what stands between labels "
                "(--label-separator)?",
                self.label_separator,
            )
        ordered = {label: counts[label] for label in labels}
        loss = self.label_loss.fitted_to_sets(ordered, len(examples))
        if loss.weights:
            logger.info("weights of the labels: %s", weights_words(labels, loss))
        return replace(
            self,
            labels=labels,
            label_counts=ordered,
            thresholds=(UNTUNED,) * len(labels),
            pairs=are_pairs(examples),
            label_loss=loss,
            temperature=None,
        )

    def untuned(self) -> MultiLabelTask:
        """The task whose results `tuned` takes; their probabilities are all that it reads."""
        return replace(self, thresholds=())

    def tuned(
        self, results: Sequence[Result], examples: Sequence[MultiLabelExample]
    ) -> MultiLabelTask:
        """With the threshold of each label that has the best F1 on held-out examples.

        A label that none of them has keeps 0.5.

        Args:
            results: one an example.
            examples: labelled.
        """
        scores, truth = self._scores(results), self._indicators(examples)
        thresholds = tuple(
            best_threshold(scores[:, label], truth[:, label], default=UNTUNED)
            for label in range(len(self.labels))
        )
        return replace(self, thresholds=thresholds)

    def check(self, examples: Sequence[MultiLabelExample]) -> None:
        """Refuse labels that the model does not have.

        Raises:
            DataError: with each such example's file and line.
        """
        known = set(self.labels)
        unknown = [
            (example.place, label)
            for example in examples
            for label in example.labels or ()
            if label not in known
        ]
        refuse_unknown(unknown, self.labels)

    def encode(
        self, example: MultiLabelExample, tokenizer: Tokenizer, policy: CutPolicy
    ) -> list[Encoding]:
        """The encodings of an example; several are windows."""
        return self.encode_all([example], tokenizer, policy)[0][0]

    def encode_all(
        self, examples: Sequence[MultiLabelExample], tokenizer: Tokenizer, policy: CutPolicy
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
        self, examples: Sequence[MultiLabelExample], sources: Sequence[Source]
    ) -> dict[str, Tensor]:
        """`labels`: (sequences, labels), 1 where the text has the label."""
        truth = [examples[source.example] for source in sources]
        return {"labels": torch.from_numpy(self._indicators(truth).astype(np.float32))}

    def count(self, batch: Batch) -> int:
        """Texts: the units of the loss, however many windows they have."""
        return num_texts(batch)

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum of the texts' losses, in float32, and the number of texts."""
        scores = pool_label_logits(logits.float(), batch, self.window_pooling)
        truth = batch.targets["labels"][first_windows(batch)]
        return self.label_loss.of_sets(scores, truth), self.count(batch)

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """The labels of each example whose probability reaches their threshold."""
        scores = pool_label_logits(logits.detach().double(), batch, self.window_pooling)
        found = map(self.result, scores.sigmoid().cpu().numpy())
        if self.temperature is None:
            return list(found)
        shares = (scores / self.temperature).sigmoid().tolist()
        told = (dict(zip(self.labels, row, strict=True)) for row in shares)
        return [
            replace(result, probabilities=shares, calibrated=True)
            for result, shares in zip(found, told, strict=True)
        ]

    def result(self, probabilities: NDArray[np.float64]) -> LabelSetResult:
        """What a row of probabilities stands for."""
        thresholds = self.thresholds or (UNTUNED,) * len(self.labels)
        values = probabilities.tolist()
        return LabelSetResult(
            tuple(
                label
                for label, value, least in zip(self.labels, values, thresholds, strict=True)
                if value >= least
            ),
            dict(zip(self.labels, values, strict=True)),
        )

    def metrics(
        self, results: Sequence[Result], examples: Sequence[MultiLabelExample]
    ) -> dict[str, float]:
        """average_precision, f1_micro, f1_macro, accuracy (the whole set right) and loss.

        The loss is the mean binary cross-entropy over texts and labels, in nats.
        """
        return self.scorer(results, examples)(np.arange(len(examples)))

    def scorer(self, results: Sequence[Result], examples: Sequence[MultiLabelExample]) -> Scorer:
        """`metrics` of any examples, by index."""
        return self.sets(results, examples).scores

    def sets(self, results: Sequence[Result], examples: Sequence[MultiLabelExample]) -> LabelSets:
        """Truth, predictions and probabilities side by side."""
        self.check(examples)
        index = {label: number for number, label in enumerate(self.labels)}
        found = label_set_results(results)
        predicted = np.zeros((len(found), len(self.labels)), dtype=np.bool_)
        for row, result in enumerate(found):
            predicted[row, [index[label] for label in result.labels]] = True
        return LabelSets(self._indicators(examples), predicted, self._scores(results))

    def _indicators(self, examples: Sequence[MultiLabelExample]) -> NDArray[np.bool_]:
        index = {label: number for number, label in enumerate(self.labels)}
        found = np.zeros((len(examples), len(self.labels)), dtype=np.bool_)
        for row, labels in enumerate(known_label_sets(examples)):
            found[row, [index[label] for label in labels]] = True
        return found

    def _scores(self, results: Sequence[Result]) -> NDArray[np.float64]:
        rows = [
            [r.probabilities[label] for label in self.labels] for r in label_set_results(results)
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.labels))

    def units(self, examples: Sequence[MultiLabelExample]) -> Sequence[Hashable] | None:
        """The groups, where the examples have them; one without stands alone."""
        return group_units([example.group for example in examples])

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task"; `problem_type` is stored, never guessed."""
        return {
            "name": self.name,
            "problem_type": PROBLEM_TYPE,
            "labels": list(self.labels),
            "label_counts": dict(self.label_counts),
            "thresholds": list(self.thresholds),
            "pairs": self.pairs,
            "columns": asdict(self.columns),
            "pooling": self.pooling,
            "window_pooling": self.window_pooling,
            "label_separator": self.label_separator,
            **temperature_state(self.temperature),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> MultiLabelTask:
        """The task that `state` described.

        Raises:
            CheckpointError: when the state is of another kind of problem, or has another number
                of thresholds than of labels.
        """
        if state.get("problem_type", PROBLEM_TYPE) != PROBLEM_TYPE:
            raise CheckpointError(
                f"the stored task is {cls.name!r} and its problem_type "
                f"{state['problem_type']!r}; expected {PROBLEM_TYPE!r}"
            )
        labels = tuple(state.get("labels", ()))
        thresholds = tuple(state.get("thresholds", ()))
        if len(thresholds) not in (0, len(labels)):
            raise CheckpointError(
                f"{len(thresholds)} thresholds are stored for {len(labels)} labels"
            )
        return cls(
            labels=labels,
            label_counts=dict(state.get("label_counts", {})),
            thresholds=thresholds,
            pairs=state.get("pairs"),
            columns=Columns(**state.get("columns", {})),
            pooling=state.get("pooling", "auto"),
            window_pooling=state.get("window_pooling", "mean"),
            label_separator=state.get("label_separator", ";"),
            temperature=stored_temperature(state),
        )
