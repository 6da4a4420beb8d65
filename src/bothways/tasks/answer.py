"""Extractive question answering: the span of a context that answers a question, or that none does.

Head, encoding, loss, decoding and metrics. A question is never cut; a context that is too long is
read in windows beside it, and the best span of all of them counts. Rows become examples in
`answer_reading.py`, the search is in `answer_search.py`, scores are in `metrics/answers.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.data.collate import Source
from bothways.data.rows import Row
from bothways.errors import DataError, TaskError, UsageError, counted
from bothways.metrics.answers import AnswerScores
from bothways.model.config import EncoderConfig
from bothways.model.heads import TokenHead
from bothways.model.init import initialise
from bothways.model.layout import Batch
from bothways.tasks.answer_pieces import context_pieces, fewest_pieces, pieces_of, window_scores
from bothways.tasks.answer_reading import Answer, AnswerExample, read_answers, say_empty
from bothways.tasks.answer_search import Window, find_answers
from bothways.tasks.answer_threshold import best_threshold, no_answer_odds
from bothways.tasks.columns import refuse
from bothways.tasks.results import AnswerResult, AnswerSpan, Result
from bothways.tasks.task import Columns, Scorer
from bothways.tasks.texts import texts_of
from bothways.tokenization.encoding import Encoding, Ledger, Policy
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnswerTask:
    """Answers to questions, found in a context.

    Attributes:
        columns: where the fields stand in a file.
        max_answer_length: most tokens of an answer.
        threshold: there is no answer where log(no_answer / probability of the best span) is above
            it; None: the best span is always the answer. Chosen on dev.
        n_best: how many spans a result lists as `alternatives`.
        drop_misaligned: leave training answers out that do not stand where they say.
        trained: whether training is over; files are then only judged or predicted.

    Example:
        >>> AnswerTask().fit([AnswerExample("Who?", "Ann.", (Answer("Ann", 0),))]).threshold
    """

    columns: Columns = field(default_factory=Columns)
    max_answer_length: int = 30
    threshold: float | None = None
    n_best: int = 0
    drop_misaligned: bool = False
    trained: bool = False

    name: ClassVar[str] = "answer"
    labels: ClassVar[tuple[str, ...]] = ()
    main_metric: ClassVar[str] = "f1"
    default_policy: ClassVar[Policy] = "windows"
    head_kind: ClassVar[Literal["answer"]] = "answer"

    def __post_init__(self) -> None:
        for flag, value, least in (
            ("--max-answer-length", self.max_answer_length, 1),
            ("--n-best", self.n_best, 0),
        ):
            if value < least:
                raise UsageError(f"{flag} is {value}; expected at least {least}")

    @property
    def metric_directions(self) -> Mapping[str, int]:
        """Larger is better in all; those of both kinds only where training had both."""
        both = () if self.trained and self.threshold is None else ("f1_has_answer", "f1_no_answer")
        return dict.fromkeys(("exact_match", "f1", *both), 1)

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[AnswerExample]:
        """Examples of rows; `answer_reading.read_answers` says what is refused."""
        return read_answers(
            list(rows),
            self.columns,
            labelled=labelled,
            learning=not self.trained,
            drop_misaligned=self.drop_misaligned,
        )

    def examples(self, values: Sequence[Any]) -> list[AnswerExample]:
        """Unlabelled examples of (question, context) pairs; AnswerExamples as they are.

        Raises:
            UsageError: for anything else, with its numbers.
        """
        given = [value for value in values if isinstance(value, AnswerExample)]
        if len(given) == len(values):
            return given
        found = []
        alone = []
        for number, (question, context) in enumerate(texts_of(values)):
            if context is None:
                alone.append(number)
            else:
                found.append(AnswerExample(question, context))
        if alone:
            raise UsageError(
                f"expected (question, context) pairs; numbers {alone[:10]} are single texts"
            )
        say_empty(found)
        return found

    def fit(self, examples: Sequence[AnswerExample]) -> AnswerTask:
        """The task that says "no answer" where the training examples have questions without one.

        Raises:
            DataError: when there is no example, or one without known answers, or none with any.
        """
        answers = _known(examples)
        unanswerable = sum(not given for given in answers)
        if unanswerable == len(examples):
            raise DataError(
                f"none of the {len(examples)} training questions has an answer; expected at least "
                "one that has"
            )
        logger.info(
            "%s, %d of them without an answer, on %s",
            counted(len(examples), "question"),
            unanswerable,
            counted(len({example.context for example in examples}), "context"),
        )
        return replace(self, threshold=0.0 if unanswerable else None, trained=True)

    def check(self, examples: Sequence[AnswerExample]) -> None:
        """Refuse examples without known answers."""
        _known(examples)

    def encode(
        self, example: AnswerExample, tokenizer: Tokenizer, policy: CutPolicy
    ) -> list[Encoding]:
        """The windows of an example."""
        return self.encode_all([example], tokenizer, policy)[0][0]

    def encode_all(
        self, examples: Sequence[AnswerExample], tokenizer: Tokenizer, policy: CutPolicy
    ) -> tuple[list[list[Encoding]], Ledger]:
        """Each whole question beside its context, or beside each window of it, and what was cut.

        The ledger counts as lost the questions none of whose answers lies whole in a window.

        Raises:
            DataError: for questions so long that no window has room for a context beside them,
                or for one beyond its overlap with the window before.
        """
        questions = [example.question for example in examples]
        contexts = [example.context for example in examples]
        self._refuse_long_questions(examples, tokenizer, policy)
        encodings, ledger = tokenizer.encode_many(
            questions, contexts, policy=replace(policy, whole_first=True)
        )
        found = [fewest_pieces(*each) for each in zip(examples, encodings, strict=True)]
        long = sum(pieces is not None and pieces > self.max_answer_length for pieces in found)
        if long:
            logger.warning(
                "%d of %d questions have no answer of at most %d tokens, the longest that is "
                "looked for; --max-answer-length is set in training",
                long,
                len(examples),
                self.max_answer_length,
            )
        return encodings, replace(ledger, targets_cut=found.count(None))

    def _refuse_long_questions(
        self, examples: Sequence[AnswerExample], tokenizer: Tokenizer, policy: CutPolicy
    ) -> None:
        size = tokenizer.template.size
        room = policy.max_length - tokenizer.pair_template.size
        longest = room - 1 - policy.overlap
        ids, _, _ = tokenizer.encode_ids([each.question for each in examples], policy=None)
        long = [number for number, pieces in enumerate(ids) if len(pieces) - size > longest]
        contexts, _, _ = tokenizer.encode_ids([examples[n].context for n in long], policy=None)
        wrong = [
            f"{examples[number].place or f'question {number}'}: {len(ids[number]) - size} tokens"
            for number, context in zip(long, contexts, strict=True)
            if len(ids[number]) + len(context) - 2 * size > room
        ]
        if wrong:
            refuse(
                "questions that leave no room for their context",
                wrong,
                f"a window has {policy.max_length} tokens: room for {room}, of which "
                f"{policy.overlap} are shared with the window before, so a question has at most "
                f"{longest}. A question is never cut: take a larger --max-length, a smaller "
                "--overlap, or shorter questions",
            )

    def head(self, config: EncoderConfig, labels: Sequence[str]) -> TokenHead:
        """A new head with random weights: start and end score of each token."""
        del labels
        head = TokenHead(config.hidden_size, 2, dropout=config.dropout.classifier)
        initialise(head, config.initializer_range)
        return head

    def targets(
        self, examples: Sequence[AnswerExample], sources: Sequence[Source]
    ) -> dict[str, Tensor]:
        """What a window shall point to, and where it may point.

        `start`, `end`: (sequences,) place in the window of the first and last piece of the
        answer, both 0 where the window does not hold it whole; `may_answer`: (tokens,) True for
        pieces of the context and the first piece.
        """
        answers = _known([examples[source.example] for source in sources])
        spans, may = [], []
        for source, given in zip(sources, answers, strict=True):
            encoding = source.encoding
            context = context_pieces(encoding)
            first = next((answer for answer in given if answer.start is not None), None)
            spans.append((None if first is None else pieces_of(encoding, first)) or (0, 0))
            may += [place == 0 or place in context for place in range(len(encoding))]
        places = torch.tensor(spans)
        return {"start": places[:, 0], "end": places[:, 1], "may_answer": torch.tensor(may)}

    def count(self, batch: Batch) -> int:
        """Windows: the units of the loss."""
        return batch.layout.num_sequences

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum over windows of the mean cross-entropy of start and end, in float32; and windows.

        Each is over the pieces of the context and the first piece, which stands for no answer.
        """
        layout = batch.layout
        lowest = torch.finfo(torch.float32).min
        allowed = logits.float().masked_fill(~batch.targets["may_answer"][:, None], lowest)
        # (tokens, 2) -> (sequences, longest, 2)
        rows = allowed.new_full((layout.num_sequences, layout.longest, 2), lowest)
        rows = rows.index_put((layout.sequence_of_token, layout.positions), allowed)
        total = sum(
            F.cross_entropy(rows[:, :, side], batch.targets[name], reduction="sum")
            for side, name in enumerate(("start", "end"))
        )
        assert isinstance(total, Tensor)
        return total / 2, self.count(batch)

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """The answer to each question, from all windows of its context together."""
        scores = batch.layout.split(logits.detach().double().cpu())
        windows: dict[int, list[Window]] = {}
        given: dict[int, AnswerExample] = {}
        for source, rows in zip(batch.sources, scores, strict=True):
            windows.setdefault(source.example, []).append(
                window_scores(source.encoding, rows.numpy())
            )
            given[source.example] = source.given
        return [self._result(given[example].context, found) for example, found in windows.items()]

    def _result(self, context: str, windows: Sequence[Window]) -> AnswerResult:
        found = find_answers(windows, max_length=self.max_answer_length, count=max(self.n_best, 1))
        spans = [
            AnswerSpan(context[span.start : span.end], span.start, span.end, span.probability)
            for span in found.spans
        ]
        alternatives = tuple(spans[: self.n_best])
        if spans:
            odds = no_answer_odds(found.no_answer, spans[0].probability)
            if self.threshold is None or odds <= self.threshold:
                return AnswerResult(
                    **vars(spans[0]), no_answer=found.no_answer, alternatives=alternatives
                )
        return AnswerResult("", 0, 0, found.no_answer, found.no_answer, alternatives)

    def metrics(
        self, results: Sequence[Result], examples: Sequence[AnswerExample]
    ) -> dict[str, float]:
        """exact_match and f1; f1_has_answer and f1_no_answer too, where both kinds occur."""
        return self.scorer(results, examples)(np.arange(len(examples)))

    def scorer(self, results: Sequence[Result], examples: Sequence[AnswerExample]) -> Scorer:
        """`metrics` of any examples, by index."""
        return answer_scores(results, examples).scores

    def units(self, examples: Sequence[AnswerExample]) -> Sequence[Hashable]:
        """The contexts, or what the column of the groups says."""
        return [example.context if example.group is None else example.group for example in examples]

    def untuned(self) -> AnswerTask:
        """The task whose results `tuned` takes: always the best span."""
        return replace(self, threshold=None)

    def tuned(self, results: Sequence[Result], examples: Sequence[AnswerExample]) -> AnswerTask:
        """The task with the threshold for no answer that gives the best F1 on dev.

        It stays as it is where the task always answers, or dev lacks one of the two kinds.

        Args:
            results: of the `untuned` task.
            examples: of dev, as many.
        """
        if self.threshold is None:
            return self
        found = answer_results(results)
        scores = answer_scores(found, examples)
        if scores.has_answer.all() or not scores.has_answer.any():
            logger.warning(
                "the threshold for no answer stays %g: dev has no questions %s answer",
                self.threshold,
                "without an" if scores.has_answer.all() else "with an",
            )
            return self
        odds = [no_answer_odds(each.no_answer, each.probability) for each in found]
        threshold = best_threshold(odds, scores.f1, scores.has_answer)
        logger.info("no answer where log(no_answer / probability) is above %.4f", threshold)
        return replace(self, threshold=threshold)

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task"."""
        return {
            "name": self.name,
            "columns": asdict(self.columns),
            "max_answer_length": self.max_answer_length,
            "threshold": self.threshold,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> AnswerTask:
        """The task that `state` described."""
        return cls(
            columns=Columns(**state.get("columns", {})),
            max_answer_length=state.get("max_answer_length", 30),
            threshold=state.get("threshold"),
            trained=True,
        )


def answer_results(results: Sequence[Result]) -> list[AnswerResult]:
    """Results, all of which must be answers.

    Raises:
        TaskError: when one is not.
    """
    found = [result for result in results if isinstance(result, AnswerResult)]
    if len(found) < len(results):
        raise TaskError(f"{len(results) - len(found)} of {len(results)} results are not answers")
    return found


def answer_scores(results: Sequence[Result], examples: Sequence[AnswerExample]) -> AnswerScores:
    """Exact match and F1 of each question."""
    answers = [[answer.text for answer in given] for given in _known(examples)]
    return AnswerScores([result.text for result in answer_results(results)], answers)


def _known(examples: Sequence[AnswerExample]) -> list[tuple[Answer, ...]]:
    """The answers, all of which must be known."""
    missing = [
        example.place or f"example {number}"
        for number, example in enumerate(examples)
        if example.answers is None
    ]
    if missing:
        refuse(
            "questions whose answers are not known",
            missing,
            "judging and training need answers; an empty tuple says that there is none",
        )
    return [example.answers for example in examples if example.answers is not None]
