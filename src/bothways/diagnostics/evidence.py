"""`Evidence`: what all questions about a model on labelled data have in common.

Everything costly is worked out when first asked for and kept: texts are encoded once, and one pass
of the encoder gives predictions and pooled states of every layer. Questions look at evidence and
change nothing; which there are is in `questions.py`, how they are asked in `diagnose.py`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.data.rows import Row
from bothways.diagnostics.states import Listener, States
from bothways.errors import DataError, NotAsked
from bothways.evaluation.evaluate import judge
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import CONFIDENCE, RESAMPLES, Indices, Units, interval
from bothways.evaluation.result import Metric, Report
from bothways.inference.abilities import trained_task
from bothways.inference.logits import head_logits
from bothways.inference.model import Model
from bothways.inference.results import Results
from bothways.tasks.results import LabelResult, Result
from bothways.tasks.task import Task
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy

# Examples that are looked at where nobody asks for all.
SAMPLE = 2000
# States of more examples would fill the memory; see `Evidence.part`.
MOST_STATES = 10_000
# Scores of single examples, of which the first that the task has is its credit; -1: less is better.
CREDITS = {"accuracy": 1, "f1": 1, "accuracy_tokens": 1, "mrr_at_10": 1, "mae": -1}


@dataclass(frozen=True)
class Evidence:
    """A model, labelled examples, and what follows from both; `Evidence.of` makes one.

    Attributes:
        model: with a trained head.
        task: what it does, with the columns that examples are read by.
        examples: labelled; perhaps a sample.
        policy: how texts are cut.
        columns: of each metadata column a cell an example, None where there is none.
        population: how many examples there were before sampling.
        train_examples: all training examples, or None.
        seed: of everything drawn.
        batch_tokens: budget of a batch; None for the device's default.
        resamples: of the bootstrap.
        names: of the model and of the data, for the report.
    """

    model: Model
    task: Task[Any]
    examples: Sequence[Any]
    policy: CutPolicy
    columns: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    population: int = 0
    train_examples: Sequence[Any] | None = None
    seed: int = 0
    batch_tokens: int | None = None
    resamples: int = RESAMPLES
    names: tuple[str, str] = ("model", "data")

    @classmethod
    def of(
        cls,
        model: Model,
        examples: Sequence[Any],
        *,
        rows: Sequence[Row] = (),
        columns: Sequence[str] = (),
        most: int | None = SAMPLE,
        policy: CutPolicy | None = None,
        **others: Any,
    ) -> Evidence:
        """Evidence on a sample of examples, in their order.

        Args:
            model: with a task and a trained head.
            examples: labelled.
            rows: that they were read from.
            columns: of those rows, which examples are told apart by.
            most: examples that are looked at; None for all.
            policy: how texts are cut; None for what the folder says.
            others: train_examples, seed, batch_tokens, resamples, names.

        Raises:
            DataError: when there is no example.
            TaskError: when the model has no task.
            UntrainedHeadError: when the weights of its head are random.

        Example:
            >>> evidence = Evidence.of(model, examples)  # doctest: +SKIP
            >>> truncation(evidence).findings()[0].severity  # doctest: +SKIP
            'fine'
        """
        if not examples:
            raise DataError("there are no examples to diagnose; expected at least one")
        task, _ = trained_task(model.parts, model.task)
        model.verify()
        cells = {row.place: row.cells for row in rows}
        told = {
            name: tuple(cells.get(example.place, {}).get(name) for example in examples)
            for name in columns
        }
        whole = cls(
            model,
            task,
            examples,
            policy or model.policy(),
            columns=told,
            population=len(examples),
            **others,
        )
        return whole if most is None else whole.part(most)

    def part(self, most: int) -> Evidence:
        """The same on a sample of at most so many examples; itself where it has no more."""
        if len(self.examples) <= most:
            return self
        chosen = np.sort(self.generator("sample").choice(len(self.examples), most, replace=False))
        return self.those(chosen)

    def those(self, some: Indices) -> Evidence:
        """The same on these examples alone."""
        columns = {
            name: tuple(cells[index] for index in some.tolist())
            for name, cells in self.columns.items()
        }
        return replace(
            self, examples=[self.examples[index] for index in some.tolist()], columns=columns
        )

    @cached_property
    def train(self) -> Evidence:
        """Evidence on the training examples, as many at most as there are examples here, or 500.

        Raises:
            NotAsked: without training examples.
        """
        if not self.train_examples:
            raise NotAsked("That needs the training texts (--train).")
        whole = replace(self, examples=self.train_examples, columns={}, train_examples=None)
        return whole.part(max(len(self.examples), 500))

    def generator(self, what: str) -> np.random.Generator:
        """Random numbers for one purpose, a function of the seed and its name."""
        return np.random.default_rng([self.seed, zlib.crc32(what.encode())])

    @cached_property
    def units(self) -> Units:
        """What a bootstrap draws."""
        return Units.of(len(self.examples), self.task.units(self.examples))

    @property
    def encodings(self) -> list[list[Encoding]]:
        """Of each example; several are windows."""
        return self._encoded[0]

    @property
    def ledger(self) -> Ledger:
        """What was cut of all of them."""
        return self._encoded[1]

    @cached_property
    def tokens(self) -> Indices:
        """(examples,) tokens of each before cutting, special pieces excluded."""
        return np.array([_one_of(windows, self.task)[0] for windows in self.encodings])

    @cached_property
    def tokens_cut(self) -> Indices:
        """(examples,) tokens of each that no model saw."""
        return np.array([_one_of(windows, self.task)[1] for windows in self.encodings])

    @property
    def results(self) -> Results:
        """Predictions, one an example."""
        return self._seen[0]

    @property
    def states(self) -> States:
        """Pooled states of every layer, from the pass that made the predictions.

        Raises:
            ValueError: on more than MOST_STATES examples; ask a `part` of the evidence.
        """
        states = self._seen[1]
        if states is None:
            raise ValueError(
                f"states of {len(self.examples):,} examples do not fit; ask "
                f"evidence.part({MOST_STATES}).states"
            )
        return states

    @cached_property
    def report(self) -> Report:
        """Scores, baselines and tables, as `evaluate` gives them."""
        return judge(
            self.task,
            self.examples,
            self.results,
            train=self.train_examples,
            model_name=self.names[0],
            data_name=self.names[1],
            resamples=self.resamples,
            seed=self.seed,
        )

    def scorer(self, results: Sequence[Result] | None = None) -> Callable[[Indices], float]:
        """The task's main metric of some examples, turned so that more is better.

        Args:
            results: other predictions of the same examples; None for the model's.
        """
        results = self.results if results is None else results
        main = self.task.main_metric
        if main == "accuracy":
            credit = self.credit_of(results)
            return lambda some: float(credit[some].mean())
        scores = self.task.scorer(results, self.examples)
        return lambda some: self.task.metric_directions[main] * scores(some)[main]

    def score_of(self, some: Indices) -> Metric:
        """The main metric of some examples, with its interval; see `scorer`."""
        score = self.scorer()
        groups = self.task.units([self.examples[index] for index in some.tolist()])
        return interval(
            lambda drawn: score(some[drawn]),
            Units.of(len(some), groups),
            resamples=self.resamples,
            seed=self.seed,
        )

    def gap(
        self,
        those: NDArray[np.bool_],
        others: NDArray[np.bool_] | None = None,
        *,
        confidence: float = CONFIDENCE,
    ) -> Metric | None:
        """How much better some examples score than others; None where one side has too few.

        Args:
            those: (examples,) which.
            others: (examples,) than which; None for the rest.
            confidence: of the interval; see `of_many`.
        """
        others = ~those if others is None else others
        if min(those.sum(), others.sum()) < TOO_FEW:
            return None
        score = self.scorer()

        def gap(some: Indices) -> float:
            one, other = some[those[some]], some[others[some]]
            return score(one) - score(other) if len(one) and len(other) else float("nan")

        return interval(
            gap, self.units, resamples=self.resamples, seed=self.seed, confidence=confidence
        )

    @cached_property
    def credit(self) -> NDArray[np.float64]:
        """(examples,) how well each went, by the first score in CREDITS; more is better.

        Raises:
            NotAsked: where no score of this task is one of single examples.
        """
        return self.credit_of(self.results)

    def credit_of(self, results: Sequence[Result]) -> NDArray[np.float64]:
        """The same of other predictions."""
        said = [result.label for result in results if isinstance(result, LabelResult)]
        if len(said) == len(self.examples):
            pairs = zip(said, self.examples, strict=True)
            return np.array([float(label == example.label) for label, example in pairs])
        scores = self.task.scorer(results, self.examples)
        known = scores(np.arange(1))
        name = next((name for name in CREDITS if name in known), None)
        if name is None:
            raise NotAsked(f"The task {self.task.name} has no score of single examples.")
        each = [scores(np.array([index]))[name] for index in range(len(self.examples))]
        return CREDITS[name] * np.array(each)

    def predict(self, examples: Sequence[Any], policy: CutPolicy | None = None) -> Results:
        """Predictions of other examples, or of the same ones cut otherwise.

        Args:
            examples: of the task.
            policy: None for the evidence's.
        """
        return Results.together(
            self.model.predict_stream(
                examples, policy=policy or self.policy, batch_tokens=self.batch_tokens
            )
        )

    @cached_property
    def _encoded(self) -> tuple[list[list[Encoding]], Ledger]:
        return self.task.encode_all(self.examples, self.model.tokenizer, self.policy)

    @cached_property
    def _seen(self) -> tuple[Results, States | None]:
        task, head = trained_task(self.model.parts, self.task)
        counts = [len(windows) for windows in self.encodings]
        keep = len(self.examples) <= MOST_STATES
        listener = Listener(self.model.encoder, np.repeat(np.arange(len(counts)), counts))
        logits, batch = head_logits(
            listener if keep else self.model.encoder,  # type: ignore[arg-type]
            head,
            self.encodings,
            examples=self.examples,
            reads=listener.reads(getattr(task, "reads", None)),
            batch_tokens=self.batch_tokens,
        )
        found = Results(task.decode(logits, batch), self.ledger, self.tokens_cut.tolist())
        return found, listener.states if keep else None


def _one_of(windows: Sequence[Encoding], task: Task[Any]) -> tuple[int, int]:
    """Tokens of an example and how many were cut: windows repeat them, texts of pairs add up."""
    texts = windows if task.name == "embed" else windows[:1]
    return sum(text.tokens for text in texts), sum(text.tokens_cut for text in texts)
