"""Embedding: vectors that lie near each other where texts belong together (bi-encoders).

Examples are pairs (an anchor and its positive), perhaps with hard negatives, or pairs with a score
of how alike they are: with a label column, pairs are scored. Each text of an example is read alone:
the anchor is its window 0, the positive window 1, negatives come after. Nothing is put over the
encoder but the steps of a sentence vector, so the result is an embedder like any other.

The equations are in `embedding_losses.py`, reading and knowing copies in `embed_examples.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bothways.checkpoints.parts import Parts
from bothways.data.collate import Source
from bothways.data.retrieval import RetrievalSet
from bothways.data.rows import Row
from bothways.errors import DataError, TaskError, UsageError, counted, nearest
from bothways.metrics.similarity import cosine, pearson, spearman
from bothways.model.config import EncoderConfig
from bothways.model.layout import Batch
from bothways.model.sentence import Pool, SentenceNormalize, SentenceVector
from bothways.tasks.embed_examples import (
    EmbedExample,
    check_negatives,
    check_pairs,
    known_positives,
    pairs_of,
    read_examples,
    text_id,
)
from bothways.tasks.embedding_losses import ANCHOR, POSITIVE, BatchLoss
from bothways.tasks.neighbours import ranking_scorer
from bothways.tasks.results import Result, ScoreResult
from bothways.tasks.task import Columns, Scorer
from bothways.tasks.texts import texts_of
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

Loss = Literal["auto", "negatives", "triplet", "cosent", "cosine"]
VectorPooling = Literal["auto", "mean", "cls"]
# Losses by whether pairs have scores; the first one is what auto means.
LOSSES: Mapping[bool, tuple[str, ...]] = {
    False: ("negatives", "triplet"),
    True: ("cosent", "cosine"),
}
# What bothways.json does not keep under "task": it matters while training only.
_NOT_STORED = ("positives", "piece_tokens", "loss_function")


@dataclass(frozen=True)
class EmbedTask:
    """Training and judging of embedders.

    Attributes:
        columns: where the fields stand in a file; with a label, pairs are scored.
        negative: columns of hard negatives; empty for those of the usual names.
        loss_function: auto is `cosent` for scored pairs, and `negatives` for others.
        scale: of the cosines in `negatives` and `cosent`.
        margin: of `triplet`.
        dimensions: numbers of first values of a vector that shall do alone (Matryoshka); empty
            for whole vectors only.
        query_prompt, document_prompt: put before the anchor and before all other texts.
        piece_tokens: most tokens whose activations are in memory at once; None for the default.
        pooling: how token states become a vector; auto is as the folder says, else the mean.
        score_range: of the training examples, where they are scored.
        num_examples: that it was fitted to; 0 before.
        positives: for an anchor, by its id, what belongs to it besides its own positive.

    Example:
        >>> task = EmbedTask().fit([EmbedExample("a", "b"), EmbedExample("c", "d")])
        >>> task.main_metric
        'ndcg_at_10'
    """

    columns: Columns = field(default_factory=Columns)
    negative: tuple[str, ...] = ()
    loss_function: Loss = "auto"
    scale: float = 20.0
    margin: float = 0.3
    dimensions: tuple[int, ...] = ()
    query_prompt: str | None = None
    document_prompt: str | None = None
    piece_tokens: int | None = None
    pooling: VectorPooling = "auto"
    score_range: tuple[float, float] | None = None
    num_examples: int = 0
    positives: Mapping[int, tuple[int, ...]] = field(default_factory=dict, repr=False)

    name: ClassVar[str] = "embed"
    labels: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        problems = [
            f"--{name.replace('_', '-')} is {value!r}; {nearest(str(value), known)}"
            for name, value, known in (
                ("loss_function", self.loss_function, get_args(Loss)),
                ("pooling", self.pooling, get_args(VectorPooling)),
            )
            if value not in known
        ]
        if not 0.0 < self.scale < float("inf"):
            problems.append(f"--scale is {self.scale}; expected a number above 0")
        if not 0.0 <= self.margin <= 2.0:
            problems.append(f"--margin is {self.margin}; cosines differ by 0 to 2")
        if min((*self.dimensions, self.piece_tokens or 1)) < 1:
            problems.append("--dimensions and --piece-tokens are numbers from 1")
        if self.loss_function in LOSSES[not self.scored]:
            problems.append(
                f"--loss-function {self.loss_function} "
                + (
                    "is for pairs without scores, and --label names a column of scores"
                    if self.scored
                    else "needs pairs with scores; name their column with --label"
                )
            )
        if self.scored and self.negative:
            problems.append("--negative is for pairs without scores; leave --label away")
        if problems:
            raise UsageError("; ".join(problems))

    @property
    def scored(self) -> bool:
        """Whether pairs have scores."""
        return self.columns.label is not None

    @property
    def chosen_loss(self) -> str:
        """The loss that auto means here."""
        return LOSSES[self.scored][0] if self.loss_function == "auto" else self.loss_function

    @property
    def smallest_batch(self) -> int:
        """Examples that a batch needs to teach anything: most losses compare them."""
        return 2 if self.chosen_loss in ("negatives", "cosent") else 1

    @property
    def main_metric(self) -> str:
        """Rank correlation with the scores, else nDCG among the positives of all."""
        return "spearman" if self.scored else "ndcg_at_10"

    @property
    def metric_directions(self) -> Mapping[str, int]:
        """More is better, everywhere."""
        if self.scored:
            return {"spearman": 1, "pearson": 1}
        return {"ndcg_at_10": 1, "mrr_at_10": 1, "recall_at_100": 1}

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[EmbedExample]:
        """Examples of rows.

        Args:
            rows: of one file or several with the same columns.
            labelled: whether scores and negatives are read; two texts are always.

        Raises:
            DataError: for missing columns, cells or scores; each with all its rows.
        """
        fitted = self.num_examples > 0
        return read_examples(
            list(rows), self.columns, self.negative, labelled=labelled, fitted=fitted
        )

    def read_retrieval(self, found: RetrievalSet) -> list[EmbedExample]:
        """A pair a query and relevant document; the pairs of a query are a group.

        Raises:
            UsageError: where pairs shall have scores, and judgements have none.
        """
        if self.scored:
            raise UsageError("judgements are no scores of pairs; leave --label away")
        return pairs_of(found)

    def examples(self, values: Sequence[Any]) -> list[EmbedExample]:
        """Examples of pairs of texts; EmbedExamples as they are.

        Raises:
            UsageError: for anything else, with its numbers.
        """
        given = [value for value in values if isinstance(value, EmbedExample)]
        if len(given) == len(values):
            return given
        return [EmbedExample(text, pair) for text, pair in texts_of(values)]

    def fit(self, examples: Sequence[EmbedExample]) -> EmbedTask:
        """The task with what the training examples decide: scores from and to, who belongs to whom.

        Raises:
            DataError: when nothing can be learned from them.
        """
        if not examples:
            raise DataError("there are no training examples; expected pairs of texts")
        self.check(examples)
        fitted = replace(self, num_examples=len(examples))
        if self.scored:
            scores = _scores(examples)
            low, high = min(scores), max(scores)
            if low == high:
                raise DataError(
                    f"all {len(scores)} scores (column {self.columns.label!r}) are {low:g}; "
                    "an embedder learns from what is more and what is less alike. Without --label, "
                    "pairs are read as belonging together"
                )
            logger.info("%s with scores from %g to %g", counted(len(scores), "pair"), low, high)
            return replace(fitted, score_range=(low, high))
        negatives = sum(len(example.negatives) for example in examples)
        positives = known_positives(examples)
        logger.info(
            "%s with %s; %s of several partners, none of which counts as a negative",
            counted(len(examples), "pair"),
            counted(negatives, "hard negative"),
            counted(len(positives), "anchor"),
        )
        check_negatives(examples, needed=self.chosen_loss == "triplet")
        return replace(fitted, positives=positives)

    def check(self, examples: Sequence[EmbedExample]) -> None:
        """Refuse examples without a second text, and without a score where there are scores.

        Raises:
            DataError: with each such example's file and line.
        """
        check_pairs(examples, scored=self.scored)

    def encode(
        self, example: EmbedExample, tokenizer: Tokenizer, policy: CutPolicy
    ) -> list[Encoding]:
        """The encodings of an example's texts, the anchor first."""
        return self.encode_all([example], tokenizer, policy)[0][0]

    def encode_all(
        self, examples: Sequence[EmbedExample], tokenizer: Tokenizer, policy: CutPolicy
    ) -> tuple[list[list[Encoding]], Ledger]:
        """The encodings of many examples, in the tokenizer's own threads, and what was cut.

        Raises:
            TaskError: for single texts, which have no similarity.
            UsageError: for a policy of windows, since each text has one vector.
        """
        if policy.keep == "windows":
            raise UsageError(
                "an embedder makes one vector a text, so policy 'windows' does not fit; use head, "
                "tail or head+tail"
            )
        if any(example.pair is None for example in examples):
            raise TaskError(
                "an embedder predicts how alike two texts are, and got single ones; give pairs "
                "(--text-pair), or take their vectors with `bothways embed`"
            )
        before = (self.query_prompt or "", self.document_prompt or "")
        texts = [
            before[min(window, POSITIVE)] + text
            for example in examples
            for window, text in enumerate(example.texts)
        ]
        windows, ledger = tokenizer.encode_many(texts, policy=policy)
        each = iter(encoding for (encoding,) in windows)
        return [[next(each) for _ in example.texts] for example in examples], ledger

    def head(self, config: EncoderConfig, labels: Sequence[str]) -> SentenceVector:
        """Pooling and vectors of length 1, where the folder does not say otherwise."""
        del config, labels
        return SentenceVector(
            Pool(["cls" if self.pooling == "cls" else "mean"]), [SentenceNormalize()]
        )

    def targets(
        self, examples: Sequence[EmbedExample], sources: Sequence[Source]
    ) -> dict[str, Tensor]:
        """For each sequence `window` (0 the anchor), `text` (its id) and, if scored, `score`."""
        texts = [examples[source.example].texts[source.window] for source in sources]
        found = {
            "window": torch.tensor([source.window for source in sources]),
            "text": torch.tensor([text_id(text) for text in texts]),
        }
        if self.scored:
            scores = [examples[source.example].score for source in sources]
            found["score"] = torch.tensor(scores, dtype=torch.float32)
        return found

    def count(self, batch: Batch) -> int:
        """Examples; for `triplet`, triplets."""
        windows = batch.targets["window"]
        wanted = windows > POSITIVE if self.chosen_loss == "triplet" else windows == ANCHOR
        return int(wanted.sum())

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum of the losses, the mean over the dimensions, and over how many units.

        Reads the targets of the batch only, so that those of several ranks can be put together.

        Raises:
            UsageError: for more dimensions than vectors have.
        """
        width = logits.shape[1]
        if max(self.dimensions, default=0) > width:
            raise UsageError(f"--dimensions {max(self.dimensions)}: vectors have {width} numbers")
        measure = BatchLoss(
            self.chosen_loss, self.scale, self.margin, self.score_range, self.positives
        )
        vectors = logits.float()
        sums = [measure(vectors[:, :size], batch.targets) for size in self.dimensions or [width]]
        return torch.stack(sums).mean(), self.count(batch)

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """The cosine of each example's two texts, with its vectors where these are judged."""
        vectors = logits.detach().float().cpu().numpy()
        rows: dict[int, list[int]] = {}
        for row, source in enumerate(batch.sources):
            rows.setdefault(source.example, []).append(row)
        first = np.array([of_example[ANCHOR] for of_example in rows.values()])
        second = np.array([of_example[POSITIVE] for of_example in rows.values()])
        scores = cosine(vectors[first], vectors[second]).tolist()
        judged = bool(self.dimensions) or not self.scored
        return [
            ScoreResult(score, vectors[of_example] if judged else None)
            for score, of_example in zip(scores, rows.values(), strict=True)
        ]

    def metrics(
        self, results: Sequence[Result], examples: Sequence[EmbedExample]
    ) -> dict[str, float]:
        """spearman and pearson of scored pairs; else ndcg_at_10, mrr_at_10 and recall_at_100."""
        return self.scorer(results, examples)(np.arange(len(examples)))

    def scorer(self, results: Sequence[Result], examples: Sequence[EmbedExample]) -> Scorer:
        """`metrics` of any examples, by index."""
        self.check(examples)
        predicted = [result for result in results if isinstance(result, ScoreResult)]
        if len(predicted) < len(results):
            raise TaskError(f"{len(results) - len(predicted)} of {len(results)} are no scores")
        if not self.scored:
            vectors = [result.vectors for result in predicted if result.vectors is not None]
            if len(vectors) < len(predicted):
                raise TaskError("rankings are judged by vectors, and there are scores only")
            return ranking_scorer(vectors, examples)
        truth = np.array(_scores(examples))
        scores = np.array([result.score for result in predicted])

        def scored(some: NDArray[np.int64]) -> dict[str, float]:
            wanted, found = truth[some], scores[some]
            return {"spearman": spearman(wanted, found), "pearson": pearson(wanted, found)}

        return scored

    def units(self, examples: Sequence[EmbedExample]) -> Sequence[Hashable] | None:
        """The anchors where rankings are judged; else the groups, where there are any."""
        if not self.scored:
            return [text_id(example.text) for example in examples]
        if all(example.group is None for example in examples):
            return None
        return [
            number if example.group is None else example.group
            for number, example in enumerate(examples)
        ]

    def finish(self, parts: Parts) -> Parts:
        """The trained parts, whose prompts are those of training, in place."""
        given = {"query": self.query_prompt, "document": self.document_prompt}
        assert parts.sentence is not None
        parts.sentence.prompts |= {name: text for name, text in given.items() if text is not None}
        return parts

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task"."""
        given = {"name": self.name, **asdict(replace(self, positives={}))}
        return {key: value for key, value in given.items() if key not in _NOT_STORED}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> EmbedTask:
        """The task that `state` described; what this version does not know is left out."""
        known = [each.name for each in fields(cls) if each.name not in _NOT_STORED]
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in state.items()
            if key in known and key != "columns"
        }
        return cls(columns=Columns(**state.get("columns", {})), **given)


def _scores(examples: Sequence[EmbedExample]) -> list[float]:
    """The scores of examples that have been checked."""
    return [float(example.score) for example in examples if example.score is not None]
