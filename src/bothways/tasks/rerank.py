"""Reranking: how relevant is a passage to a query, both read together (a cross-encoder).

An example is a query with one passage; the examples of one query are a list. The loss is pointwise
(is this passage relevant) or listwise (which of the list is), which reads whole lists in one step.
Scores are float32 logits, never squashed, so that no two relevant passages meet at 1.

Which passages of a retrieval set are ranked is decided in `training/retrieval.py`; how rankings are
scored, in `metrics/ranking.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.checkpoints.parts import Parts
from bothways.data.collate import Source
from bothways.data.problems import columns_of
from bothways.data.retrieval import RetrievalSet
from bothways.data.rows import Row
from bothways.errors import DataError, UsageError, nearest
from bothways.metrics.ranking import by_score, mean_score, ndcg, reciprocal_rank
from bothways.model.config import EncoderConfig
from bothways.model.layout import Batch
from bothways.tasks.columns import refuse, with_usual
from bothways.tasks.regress import number_of, scores_of
from bothways.tasks.results import Result, ScoreResult
from bothways.tasks.task import Columns, Scorer
from bothways.tasks.texts import (
    RAW_SCORES,
    PoolingChoice,
    encode_texts,
    read_cells,
    text_head,
    texts_of,
)
from bothways.tasks.windows import first_windows, largest_of_windows, num_texts
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

RankingLoss = Literal["pointwise", "listwise"]
USUAL = {
    "text": ("query", "question"),
    "text_pair": ("passage", "document", "answer", "text", "sentence", "response"),
}
GRADE_NAMES = ("label", "grade", "relevance", "relevant", "score", "gain")


@dataclass(frozen=True)
class RerankExample:
    """A query with a passage.

    Attributes:
        text: the query.
        pair: the passage.
        label: what the passage is worth: above 0 is relevant; None where it is not known.
        place: `file, line 12`; empty where it came from no file.
        group: the query that the passage is ranked for: its id, or its text.
        first_score: of the first stage that found the passage; None where there was none.
    """

    text: str
    pair: str
    label: float | None = None
    place: str = ""
    group: str | None = None
    first_score: float | None = None


@dataclass(frozen=True)
class RerankTask:
    """Ranking passages for a query.

    Attributes:
        columns: where query (text), passage (text_pair), grade (label) and, where its text is not
            enough, the name of the query (group) stand in a file.
        ranking_loss: pointwise or listwise.
        candidates: passages that a first stage adds to the judged ones of a retrieval set.
        candidates_from: the embedder that finds them; None for the encoder, where it is one.
        pooling: what the head reads; auto is the pooler where the encoder has one, else the first
            token.
        best_grade: largest grade of the training examples; 0 before `fit`.

    Example:
        >>> task = RerankTask().fit([RerankExample("q", "yes", 1.0), RerankExample("q", "no", 0.0)])
        >>> task.best_grade
        1.0
    """

    columns: Columns = field(default_factory=Columns)
    ranking_loss: RankingLoss = "pointwise"
    candidates: int = 20
    candidates_from: str | None = None
    pooling: PoolingChoice = "auto"
    best_grade: float = 0.0

    name: ClassVar[str] = "rerank"
    labels: ClassVar[tuple[str, ...]] = ()
    main_metric: ClassVar[str] = "ndcg_at_10"
    metric_directions: ClassVar[Mapping[str, int]] = {"ndcg_at_10": 1, "mrr_at_10": 1}

    def __post_init__(self) -> None:
        losses = get_args(RankingLoss)
        if self.ranking_loss not in losses:
            raise UsageError(
                f"the ranking loss is {self.ranking_loss!r}; {nearest(self.ranking_loss, losses)}"
            )
        if self.candidates < 0:
            raise UsageError(f"--candidates is {self.candidates}; expected 0 or more")

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[RerankExample]:
        """Examples of rows: a query, a passage and a grade each.

        Raises:
            DataError: for missing columns or cells, or grades that are no numbers of 0 or more;
                each with all its rows.
        """
        given = list(rows)
        usual = USUAL | ({"label": GRADE_NAMES} if labelled else {})
        columns = with_usual(given, self.columns, **usual)
        if given and columns.text_pair is None:
            raise DataError(
                f"{given[0].file}: the column of the passage is not obvious; the columns are: "
                f"{columns_of(given[0].file, given[0].cells)}. Name it: --text-pair"
            )
        cells = read_cells(given, columns, labelled=labelled, fitted=self.best_grade > 0)
        grades = [None if cell.label is None else number_of(cell.label) for cell in cells]
        wrong = [
            f"{cell.place}: {cell.label!r}"
            for cell, grade in zip(cells, grades, strict=True)
            if cell.label is not None and (grade is None or grade < 0)
        ]
        if wrong:
            refuse(
                "rows whose grade is no number of 0 or more",
                wrong,
                "expected 0 for a passage that is not relevant, and 1 or a higher grade for one "
                "that is",
            )
        return [
            RerankExample(
                cell.text, cell.pair or "", grade, cell.place, cell.group or f"text: {cell.text}"
            )
            for cell, grade in zip(cells, grades, strict=True)
        ]

    def read_retrieval(self, found: RetrievalSet) -> list[RerankExample]:
        """Examples of a retrieval set: each query with its candidates, else what was judged."""
        return [
            RerankExample(
                text,
                found.documents[document],
                found.gains.get(query, {}).get(document, 0.0),
                f"{found.places.get(query, query)}, document {document!r}",
                query,
                score,
            )
            for query, text in found.queries.items()
            for document, score in (
                found.candidates.get(query) or dict.fromkeys(found.gains.get(query, {}))
            ).items()
        ]

    def examples(self, values: Sequence[Any]) -> list[RerankExample]:
        """Unlabelled examples of pairs, query first; RerankExamples as they are.

        Raises:
            UsageError: for anything else, with its numbers.
        """
        given = [value for value in values if isinstance(value, RerankExample)]
        if len(given) == len(values):
            return given
        pairs = texts_of(values)
        if any(passage is None for _, passage in pairs):
            raise UsageError("expected pairs of a query and a passage, and got single texts")
        return [RerankExample(query, passage or "", group=query) for query, passage in pairs]

    def fit(self, examples: Sequence[RerankExample]) -> RerankTask:
        """The task with the best grade of the training examples.

        Raises:
            DataError: when there is no example, or nothing to tell apart.
        """
        if not examples:
            raise DataError("there are no training examples; expected queries with passages")
        grades = grades_of(examples)
        if grades.min() == grades.max():
            raise DataError(
                f"all {len(grades)} passages have the grade {grades[0]:g}, so there is nothing to "
                "tell apart; expected relevant ones and others (grade 0)"
            )
        lists = lists_of(examples)
        flat = sum(len({float(grades[index]) for index in each}) == 1 for each in lists)
        if flat:
            told = "" if self.ranking_loss == "pointwise" else ", and listwise learns nothing there"
            logger.warning(
                "%d of %d queries have passages of one grade only%s", flat, len(lists), told
            )
        return replace(self, best_grade=float(grades.max()))

    def check(self, examples: Sequence[RerankExample]) -> None:
        """Refuse held-out examples in which no query has a relevant passage."""
        if examples and all(example.label == 0 for example in examples):
            raise DataError(
                f"{examples[0].place}: no passage of {len(examples)} is relevant, so no ranking of "
                "them can be judged"
            )

    def encode(
        self, example: RerankExample, tokenizer: Tokenizer, policy: CutPolicy
    ) -> list[Encoding]:
        """The encodings of an example; several are windows."""
        return self.encode_all([example], tokenizer, policy)[0][0]

    def encode_all(
        self, examples: Sequence[RerankExample], tokenizer: Tokenizer, policy: CutPolicy
    ) -> tuple[list[list[Encoding]], Ledger]:
        """The encodings of many examples, in the tokenizer's own threads, and what was cut."""
        return encode_texts(examples, tokenizer, policy)

    def lists(self, examples: Sequence[RerankExample]) -> list[list[int]] | None:
        """Examples that the loss must see in one step: those of a query; None where alone."""
        return lists_of(examples) if self.ranking_loss == "listwise" else None

    def head(self, config: EncoderConfig, labels: Sequence[str]) -> nn.Module:
        """A new head of one output, with random weights."""
        del labels
        return text_head(config, 1, self.pooling)

    def targets(
        self, examples: Sequence[RerankExample], sources: Sequence[Source]
    ) -> dict[str, Tensor]:
        """`grade`, as a share of the best one, and `list`, equal for passages of one query."""
        truth = [examples[source.example] for source in sources]
        numbers: dict[Hashable, int] = {}
        places = [numbers.setdefault(_list_of(example), len(numbers)) for example in truth]
        shares = grades_of(truth) / (self.best_grade or 1.0)
        return {"grade": torch.tensor(shares).float(), "list": torch.tensor(places)}

    def count(self, batch: Batch) -> int:
        """Pairs, or with the listwise loss queries, in a batch."""
        if self.ranking_loss == "pointwise":
            return num_texts(batch)
        return len(set(batch.targets["list"].tolist()))

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum of the losses, in float32, and over how many pairs or queries.

        Pointwise is the binary cross-entropy with the grade as a share of the best grade.
        Listwise is the cross-entropy of the softmax over a query's passages, each relevant one
        wanted as often as its grade says; a query without relevant passages adds nothing.
        """
        scores = largest_of_windows(logits.float(), batch)[:, 0]
        first = first_windows(batch)
        grades, owners = batch.targets["grade"][first], batch.targets["list"][first]
        if self.ranking_loss == "pointwise":
            total = F.binary_cross_entropy_with_logits(scores, grades, reduction="sum")
            return total, self.count(batch)
        same = owners[:, None] == owners[None, :]
        normaliser = scores[None, :].masked_fill(~same, -torch.inf).logsumexp(1)
        wanted = grades / (same * grades[None, :]).sum(1).clamp_min(1e-12)
        return (wanted * (normaliser - scores)).sum(), self.count(batch)

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """The logit of each pair; windows of a long passage count as their best one."""
        return [
            ScoreResult(score)
            for score in largest_of_windows(logits.detach().float(), batch)[:, 0].tolist()
        ]

    def finish(self, parts: Parts) -> Parts:
        """The trained parts; sentence-transformers is told not to squash their scores."""
        return replace(parts, raw={**parts.raw, **RAW_SCORES})

    def metrics(
        self, results: Sequence[Result], examples: Sequence[RerankExample]
    ) -> dict[str, float]:
        """ndcg_at_10 and mrr_at_10: means over the queries that have a relevant passage."""
        return self.scorer(results, examples)(np.arange(len(examples)))

    def scorer(self, results: Sequence[Result], examples: Sequence[RerankExample]) -> Scorer:
        """`metrics` of any examples, by index; a query counts by the share of it that is there."""
        grades, scores = grades_of(examples), scores_of(results)
        lists = lists_of(examples)
        owner = np.empty(len(examples), dtype=np.int64)
        found: dict[str, list[float]] = {"ndcg_at_10": [], "mrr_at_10": []}
        for number, members in enumerate(lists):
            owner[members] = number
            judged = grades[members]
            ranked = judged[by_score(scores[members], judged)]
            found["ndcg_at_10"].append(ndcg(ranked, judged))
            found["mrr_at_10"].append(reciprocal_rank(ranked, judged))
        sizes = np.array([len(members) for members in lists])

        def of_some(some: NDArray[np.int64]) -> dict[str, float]:
            weights = np.bincount(owner[some], minlength=len(lists)) / sizes
            return {name: mean_score(values, weights) for name, values in found.items()}

        return of_some

    def units(self, examples: Sequence[RerankExample]) -> Sequence[Hashable] | None:
        """The query of each example: what is resampled."""
        return [_list_of(example) for example in examples]

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task"."""
        return {
            "name": self.name,
            "columns": asdict(self.columns),
            "ranking_loss": self.ranking_loss,
            "candidates": self.candidates,
            "candidates_from": self.candidates_from,
            "pooling": self.pooling,
            "best_grade": self.best_grade,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RerankTask:
        """The task that `state` described."""
        known = {name: value for name, value in state.items() if name != "name"}
        return cls(**{**known, "columns": Columns(**state.get("columns", {}))})


def lists_of(examples: Sequence[RerankExample]) -> list[list[int]]:
    """The examples of each query, by index, in order of first appearance."""
    found: dict[Hashable, list[int]] = {}
    for index, example in enumerate(examples):
        found.setdefault(_list_of(example), []).append(index)
    return list(found.values())


def grades_of(examples: Sequence[RerankExample]) -> NDArray[np.float64]:
    """The true grades, all of which must be known."""
    missing = [
        example.place or f"example {number}"
        for number, example in enumerate(examples)
        if example.label is None
    ]
    if missing:
        refuse("examples without a grade", missing, "judging and training need grades")
    return np.array([example.label for example in examples], dtype=np.float64)


def _list_of(example: RerankExample) -> Hashable:
    return example.text if example.group is None else example.group
