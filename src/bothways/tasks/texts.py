"""What tasks over single texts and pairs of texts share: reading, values, encoding, the head.

An empty text is an example like any other: kept, predicted, counted. Pairs and single texts are
never mixed, and a model trained on one kind refuses the other. Where the columns stand is found in
`columns.py`; labels and numbers are for the task.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

from bothways.data.rows import Row
from bothways.errors import TaskError, UsageError, agreeing, counted, nearest
from bothways.model.config import EncoderConfig
from bothways.model.heads import ClassificationHead, Pooling
from bothways.model.init import initialise
from bothways.tasks.columns import find_columns, refuse
from bothways.tasks.task import Columns
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

PoolingChoice = Literal["auto"] | Pooling
POOLINGS = ("auto", *get_args(Pooling))
# In config.json, of a head with one output: without it sentence-transformers squashes its scores.
RAW_SCORES = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}


class Texts(Protocol):
    """An example with a text and perhaps a second one."""

    @property
    def text(self) -> str:
        """The text."""
        ...

    @property
    def pair(self) -> str | None:
        """The second text of a pair, or None."""
        ...


@dataclass(frozen=True)
class Cells:
    """What a row says, as text.

    Attributes:
        text: the text.
        pair: the second text of a pair, or None.
        label: what is to be predicted; None where it is not read.
        place: `file, line 12`.
        group: what the example belongs to, or None.
    """

    text: str
    pair: str | None
    label: str | None
    place: str
    group: str | None


def read_cells(
    rows: Sequence[Row],
    columns: Columns,
    *,
    labelled: bool,
    fitted: bool = False,
    empty_labels: bool = False,
) -> list[Cells]:
    """Text, second text, label and group of each row; empty texts are kept and counted.

    Args:
        rows: of one file, or of several with the same columns.
        columns: those the caller named, or that training stored.
        labelled: whether each row must have a label; without it labels are not read.
        fitted: whether training is over; the column of the groups may then be absent.
        empty_labels: whether an empty cell is a label too, and only a missing one is wrong.

    Raises:
        DataError: for missing columns, cells or labels, each with all its rows.
    """
    if not rows:
        return []
    group = columns.group
    if fitted and group is not None and not any(group in row.cells for row in rows):
        logger.warning("%s has no column %r: every example stands alone", rows[0].file, group)
        columns = replace(columns, group=None)
    at = find_columns(rows, columns, labelled=labelled)
    for column in filter(None, (at.text, at.text_pair, at.group)):
        absent = [row.place for row in rows if column not in row.cells]
        if absent:
            refuse(f"rows without {column!r}", absent, "give each row that field, if empty")
    unlabelled = [
        row.place
        for row in rows
        if at.label
        and not (row.cells.get(at.label, "").strip() or (empty_labels and at.label in row.cells))
    ]
    if unlabelled:
        refuse(
            f"rows without a label (column {at.label!r})",
            unlabelled,
            "label them, or take them out of the file",
        )
    found = [
        Cells(
            text=row.cells[at.text or ""],
            pair=row.cells[at.text_pair] if at.text_pair else None,
            label=row.cells[at.label] if at.label else None,
            place=row.place,
            group=row.cells[at.group] if at.group else None,
        )
        for row in rows
    ]
    empty = [cells.place for cells in found if is_empty(cells)]
    if empty:
        logger.warning(
            "%d of %s %s empty; empty texts are kept (the first: %s)",
            len(empty),
            counted(len(found), "text"),
            agreeing(len(empty), "are"),
            empty[0],
        )
    return found


def is_empty(example: Texts) -> bool:
    """Whether an example has no text but whitespace."""
    return not (example.text.strip() or (example.pair or "").strip())


def texts_of(values: Sequence[Any]) -> list[tuple[str, str | None]]:
    """Text and second text of what a caller hands to predict: texts, or pairs of texts.

    Raises:
        UsageError: for anything else, with its numbers.

    Example:
        >>> texts_of(["one", ("this", "that")])
        [('one', None), ('this', 'that')]
    """
    found: list[tuple[str, str | None]] = []
    wrong: list[int] = []
    for number, value in enumerate(values):
        match value:
            case str():
                found.append((value, None))
            case (str() as text, str() as pair):
                found.append((text, pair))
            case _:
                wrong.append(number)
    if wrong:
        raise UsageError(
            f"expected texts or pairs of texts; numbers {wrong[:10]} are something else, the "
            f"first of type {type(values[wrong[0]]).__name__}"
        )
    return found


def are_pairs(examples: Sequence[Texts]) -> bool:
    """Whether the examples are pairs.

    Raises:
        UsageError: when some are and some are not.
    """
    pairs = sum(example.pair is not None for example in examples)
    if 0 < pairs < len(examples):
        raise UsageError(f"{pairs} of {len(examples)} examples are pairs; give all of one kind")
    return pairs > 0


def encode_texts(
    examples: Sequence[Texts],
    tokenizer: Tokenizer,
    policy: CutPolicy,
    *,
    trained_on_pairs: bool | None = None,
) -> tuple[list[list[Encoding]], Ledger]:
    """The encodings of many examples, in the tokenizer's own threads, and what was cut.

    Args:
        examples: all of one kind.
        tokenizer: of the model.
        policy: what is kept of long texts.
        trained_on_pairs: what the model was trained on; None where that is not known.

    Raises:
        TaskError: when the examples are not of the kind the model was trained on.
    """
    pairs = are_pairs(examples)
    if trained_on_pairs is not None and examples and pairs != trained_on_pairs:
        kinds = ("single texts", "pairs of texts")
        raise TaskError(
            f"the model was trained on {kinds[trained_on_pairs]} and got {kinds[pairs]}; give it "
            "what it was trained on (columns: --text, --text-pair)"
        )
    firsts = [example.text for example in examples]
    seconds = [example.pair or "" for example in examples] if pairs else None
    return tokenizer.encode_many(firsts, seconds, policy=policy)


def text_head(
    config: EncoderConfig, num_outputs: int, pooling: PoolingChoice
) -> ClassificationHead:
    """A new head over a text or a pair, with random weights.

    Args:
        config: of the encoder.
        num_outputs: width of the logits.
        pooling: what the head reads; auto is the pooler where there is one, else the first token.

    Raises:
        UsageError: for an unknown pooling, or the pooler of an encoder that has none.
    """
    if pooling not in POOLINGS:
        raise UsageError(f"pooling is {pooling!r}; {nearest(str(pooling), POOLINGS)}")
    if pooling == "auto":
        pooling = "pooler" if config.pooler else "cls"
    if pooling == "pooler" and not config.pooler:
        raise UsageError("this encoder has no pooler; use --pooling cls or --pooling mean")
    head = ClassificationHead(
        config.hidden_size, num_outputs, pooling=pooling, dropout=config.dropout.classifier
    )
    initialise(head, config.initializer_range)
    return head


def group_units(groups: Sequence[str | None]) -> Sequence[Hashable] | None:
    """What each example belongs to when resampling; one without a group stands alone.

    Args:
        groups: of each example.

    Returns:
        None where no example has a group.
    """
    if all(group is None for group in groups):
        return None
    return [
        ("alone", number) if group is None else ("group", group)
        for number, group in enumerate(groups)
    ]
