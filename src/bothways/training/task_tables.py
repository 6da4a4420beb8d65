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
        multi_label: a text may have several labels, or none.
        label_separator: what stands between them in a cell; a list of jsonl needs none.
        class_weights: how much a text counts by its label: balanced (as much as all labels have
            in common), or label=weight, as in spam=5,ham=1.
        loss: cross-entropy, or focal, which learns less from texts that are right already.
        focal_gamma: how much less.
        label_smoothing: share of the truth that is spread over all labels.
    """

    window_pooling: Literal["mean", "max", "attention"] = "mean"
    multi_label: bool = False
    label_separator: str = ";"
    class_weights: tuple[str, ...] = ()
    loss: Literal["cross-entropy", "focal"] = "cross-entropy"
    focal_gamma: float = 2.0
    label_smoothing: float = 0.0


@dataclass(frozen=True)
class AnswerSettings:
    """What only answering has.

    Attributes:
        max_answer_length: most tokens of an answer.
        drop_misaligned: leave out answers that do not stand at their answer_start, and the
            questions that have no other; else they are an error.
    """

    max_answer_length: int = 30
    drop_misaligned: bool = False


@dataclass(frozen=True)
class EmbedSettings:
    """What only embedding has.

    Attributes:
        negative: columns of hard negatives; unset: columns named negative, negative_1 and so on.
        loss_function: negatives (tell the positive from all other texts of the batch), triplet,
            cosent (order of scored pairs) or cosine (their scores); auto: cosent where --label
            names scores, else negatives.
        scale: of the cosines in negatives and cosent; the inverse of a temperature.
        margin: by how much a positive shall be nearer than a negative, in triplet.
        dimensions: first numbers of a vector that shall do alone, as in 384,192,96 (Matryoshka).
        query_prompt: put before the first text of every example, such as "query: "; stored.
        document_prompt: put before its other texts.
        piece_tokens: most tokens whose activations are in memory at once; a larger batch is
            computed piece by piece with the same result. Unset: 16384.
    """

    negative: tuple[str, ...] = ()
    loss_function: Literal["auto", "negatives", "triplet", "cosent", "cosine"] = "auto"
    scale: float = 20.0
    margin: float = 0.3
    dimensions: tuple[int, ...] = ()
    query_prompt: str | None = None
    document_prompt: str | None = None
    piece_tokens: int | None = None


@dataclass(frozen=True)
class RegressSettings:
    """What only regression has.

    Attributes:
        rating_scale: least and greatest number that a label may be, as in 0,5; unset: any number.
    """

    rating_scale: tuple[float, ...] = ()


@dataclass(frozen=True)
class RerankSettings:
    """What only reranking has.

    Attributes:
        ranking_loss: pointwise: is this passage relevant; listwise: which of a query's passages
            is, all of them read in one step.
        candidates: with --corpus, how many passages a query has besides the judged ones: the
            first that an embedder finds.
        candidates_from: that embedder; unset: --model, where it is one.
    """

    ranking_loss: Literal["pointwise", "listwise"] = "pointwise"
    candidates: int = 20
    candidates_from: str | None = None


@dataclass(frozen=True)
class RelateSettings:
    """What only relations between two marked entities have.

    Attributes:
        relation_state: what the head reads: where both entities begin, or the first token.
    """

    relation_state: Literal["entities", "cls"] = "entities"


@dataclass(frozen=True)
class TagSettings:
    """What only tagging has.

    Attributes:
        column: column of the tags, a number in CoNLL and a name in CoNLL-U; unset: the last one,
            in CoNLL-U upos.
        scheme: how tags make spans; auto: found in the tags; none: they make none.
        crf: let tags depend on their neighbours (a linear-chain conditional random field); what
            the scheme forbids is then never predicted.
        label_pieces: which pieces of a word are learned and asked for its tag.
    """

    column: str | None = None
    scheme: Literal["auto", "none", "io", "bio", "bioes", "bilou"] = "auto"
    crf: bool = False
    label_pieces: Literal["first", "all"] = "first"
