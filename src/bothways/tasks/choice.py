"""Multiple choice: which of the answers that a question comes with is right.

Every choice is read beside the question by the same scorer, so an example is as many sequences as
it has choices (`Source.window` numbers them), and the softmax goes over these. Examples may have
different numbers of choices. What a row says is read in `choice_reading.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.data.collate import Source
from bothways.data.rows import Row
from bothways.errors import DataError, TaskError, UsageError
from bothways.model.config import EncoderConfig
from bothways.model.layout import Batch
from bothways.tasks.choice_reading import ChoiceExample, example_of, read_choices
from bothways.tasks.columns import refuse
from bothways.tasks.results import ChoiceResult, Result
from bothways.tasks.task import Columns, Scorer
from bothways.tasks.temperature import stored_temperature, temperature_state
from bothways.tasks.texts import PoolingChoice, group_units, text_head
from bothways.tasks.windows import log_shares, num_texts, text_of_window
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChoiceTask:
    """One of the choices of each example.

    Attributes:
        columns: where question (text), context (text_pair) and the right choice (label) stand.
        pooling: what the head reads; auto is the pooler where the encoder has one, else the first
            token.
        positions: how often each place among the choices was right in training.
        temperature: that logits are divided by where probabilities are told; None for none.

    Example:
        >>> task = ChoiceTask().fit([ChoiceExample("2 + 2?", ("3", "4"), label=1)])
        >>> task.positions
        (0, 1)
    """

    columns: Columns = field(default_factory=Columns)
    pooling: PoolingChoice = "auto"
    positions: tuple[int, ...] = ()
    temperature: float | None = None

    name: ClassVar[str] = "multiple-choice"
    labels: ClassVar[tuple[str, ...]] = ()
    head_kind: ClassVar[str] = "choice"
    main_metric: ClassVar[str] = "accuracy"
    metric_directions: ClassVar[Mapping[str, int]] = {"accuracy": 1, "loss": -1}

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[ChoiceExample]:
        """Examples of rows: a question, its choices and the right one.

        Raises:
            DataError: for what is missing or makes no sense, each kind with all its rows.
        """
        return read_choices(list(rows), self.columns, labelled=labelled)

    def examples(self, values: Sequence[Any]) -> list[ChoiceExample]:
        """Unlabelled examples of (question, choices), or of objects as a line of a file has them.

        Raises:
            UsageError: for anything else, with its numbers.
        """
        found = [example_of(value) for value in values]
        wrong = [number for number, example in enumerate(found) if example is None]
        if wrong:
            raise UsageError(
                "expected (question, choices) or {'question': ..., 'choices': [...]} with at least "
                f"two choices; numbers {wrong[:10]} are something else"
            )
        return [example for example in found if example is not None]

    def fit(self, examples: Sequence[ChoiceExample]) -> ChoiceTask:
        """The task with how often each place was right.

        Raises:
            DataError: when there is no example, or one without a right choice.
        """
        if not examples:
            raise DataError("there are no training examples; expected questions with choices")
        truth = truth_of(examples)
        most = max(len(example.choices) for example in examples)
        counts = np.bincount(truth, minlength=most).tolist()
        logger.info("the right choice stands at place %s", _told(counts))
        return replace(self, positions=tuple(counts), temperature=None)

    def check(self, examples: Sequence[ChoiceExample]) -> None:
        """Any labelled example can be judged."""

    def encode(
        self, example: ChoiceExample, tokenizer: Tokenizer, policy: CutPolicy
    ) -> list[Encoding]:
        """One encoding a choice, in their order."""
        return self.encode_all([example], tokenizer, policy)[0][0]

    def encode_all(
        self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer, policy: CutPolicy
    ) -> tuple[list[list[Encoding]], Ledger]:
        """One encoding a choice of each example, and what was cut, an example being one text.

        Raises:
            UsageError: for windows, since an example is several sequences already.
        """
        if policy.keep == "windows":
            raise UsageError(
                "the choices of a question are read once each, so policy 'windows' does not fit; "
                "use head, tail or head+tail"
            )
        pairs = [pair for example in examples for pair in example.pairs]
        firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
        flat, ledger = tokenizer.encode_many(firsts, seconds, policy=policy)
        encodings: list[list[Encoding]] = []
        start = 0
        for example in examples:
            end = start + len(example.choices)
            encodings.append([windows[0] for windows in flat[start:end]])
            start = end
        cut = sum(any(one.tokens_cut for one in each) for each in encodings)
        return encodings, replace(ledger, texts=len(examples), texts_cut=cut)

    def head(self, config: EncoderConfig, labels: Sequence[str]) -> nn.Module:
        """A new head that scores one choice, with random weights."""
        del labels
        return text_head(config, 1, self.pooling)

    def targets(
        self, examples: Sequence[ChoiceExample], sources: Sequence[Source]
    ) -> dict[str, Tensor]:
        """`right`: (sequences,) 1 for the right choice of an example, 0 for the others."""
        truth = truth_of([examples[source.example] for source in sources])
        right = [source.window == index for source, index in zip(sources, truth, strict=True)]
        return {"right": torch.tensor(right).float()}

    def count(self, batch: Batch) -> int:
        """Questions: the units of the loss."""
        return num_texts(batch)

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum of the cross-entropies of the questions, in float32, and the number of questions."""
        shares = log_shares(logits.float(), batch)
        return -(shares * batch.targets["right"]).sum(), self.count(batch)

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """The most probable choice of each question, the first winning a tie."""
        scores = logits.detach().double() / (self.temperature or 1.0)
        shares = log_shares(scores, batch).exp().tolist()
        found: dict[int, list[float]] = {}
        given: dict[int, Any] = {}
        for text, share, source in zip(text_of_window(batch), shares, batch.sources, strict=True):
            found.setdefault(text, []).append(share)
            given[text] = source.given
        calibrated = self.temperature is not None
        return [
            replace(choice_result(given[text], values), calibrated=calibrated)
            for text, values in found.items()
        ]

    def metrics(
        self, results: Sequence[Result], examples: Sequence[ChoiceExample]
    ) -> dict[str, float]:
        """accuracy and loss (mean cross-entropy, in nats)."""
        return self.scorer(results, examples)(np.arange(len(examples)))

    def scorer(self, results: Sequence[Result], examples: Sequence[ChoiceExample]) -> Scorer:
        """`metrics` of any examples, by index."""
        truth, predicted = truth_of(examples), choice_results(results)
        right = np.array([each.index for each in predicted], dtype=np.int64) == truth
        shares = [each.probabilities[index] for each, index in zip(predicted, truth, strict=True)]
        losses = -np.log(np.maximum(shares, np.finfo(np.float64).tiny))

        def scores(some: NDArray[np.int64]) -> dict[str, float]:
            return {"accuracy": float(right[some].mean()), "loss": float(losses[some].mean())}

        return scores

    def units(self, examples: Sequence[ChoiceExample]) -> Sequence[Hashable] | None:
        """The groups, where the examples have them; one without stands alone."""
        return group_units([example.group for example in examples])

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task"."""
        return {
            "name": self.name,
            "columns": asdict(self.columns),
            "pooling": self.pooling,
            "positions": list(self.positions),
            **temperature_state(self.temperature),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ChoiceTask:
        """The task that `state` described."""
        return cls(
            columns=Columns(**state.get("columns", {})),
            pooling=state.get("pooling", "auto"),
            positions=tuple(state.get("positions", ())),
            temperature=stored_temperature(state),
        )


def choice_result(example: ChoiceExample, shares: Sequence[float]) -> ChoiceResult:
    """The result that the probabilities of an example's choices stand for."""
    best = max(range(len(shares)), key=shares.__getitem__)
    return ChoiceResult(best, example.choices[best], shares[best], tuple(shares))


def choice_results(results: Sequence[Result]) -> list[ChoiceResult]:
    """Results, all of which must be choices.

    Raises:
        TaskError: when one is not.
    """
    found = [result for result in results if isinstance(result, ChoiceResult)]
    if len(found) < len(results):
        raise TaskError(f"{len(results) - len(found)} of {len(results)} results are no choices")
    return found


def truth_of(examples: Sequence[ChoiceExample]) -> NDArray[np.int64]:
    """The index of each right choice, all of which must be known."""
    missing = [
        example.place or f"example {number}"
        for number, example in enumerate(examples)
        if example.label is None
    ]
    if missing:
        refuse("examples without a right choice", missing, "judging and training need it")
    return np.array([example.label for example in examples], dtype=np.int64)


def _told(counts: Sequence[int]) -> str:
    return ", ".join(f"{place}: {count}" for place, count in enumerate(counts))
