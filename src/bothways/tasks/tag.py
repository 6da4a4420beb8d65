"""Tagging: one tag a word, and the spans that the tags make.

Example, head, loss, decoding and metrics. Tags belong to words, never to pieces: learning and
predicting use the same pieces of each word, chosen in `tag_pieces.py`. Files are read in
`tag_reading.py`; how tags make spans is in `schemes.py`; the network of the field over tags in
`model/crf.py`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.data.collate import Source
from bothways.data.rows import Row
from bothways.errors import DataError, UsageError, agreeing, counted
from bothways.metrics.spans import Span, SpanCounts
from bothways.model.config import EncoderConfig
from bothways.model.crf import CrfHead
from bothways.model.heads import TokenHead
from bothways.model.init import initialise
from bothways.model.layout import Batch
from bothways.tasks.columns import refuse
from bothways.tasks.results import Result
from bothways.tasks.schemes import OUTSIDE, SCHEMES, Scheme, SchemeName, find_scheme
from bothways.tasks.tag_chains import best_tags, chain_loss
from bothways.tasks.tag_examples import TagExample, known_tags, tag_result, tag_results
from bothways.tasks.tag_pieces import LabelPieces, unread_words, word_pieces
from bothways.tasks.tag_reading import read_tagged
from bothways.tasks.task import Columns, Scorer
from bothways.tasks.texts import group_units
from bothways.tokenization.encoding import Encoding, Ledger, Policy
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

# A target that is not learned: tokens that speak for no word, and tags that training did not have.
IGNORED = -100


@dataclass(frozen=True)
class TagTask:
    """One tag a word.

    Attributes:
        labels: tags in the order of the logits, sorted; empty before `fit`.
        label_counts: training words of each tag.
        scheme: how tags make spans; auto: found in the training tags, none: they make none.
        crf: whether tags depend on their neighbours; what the scheme forbids is then never
            predicted.
        label_pieces: which pieces of a word are learned and asked for its tag.
        columns: where words and tags stand in a file.
        column: the column of the tags, as `columns.label`.

    Example:
        >>> example = TagExample.of_words(["Ann", "sang"], ["B-PER", "O"])
        >>> TagTask().fit([example]).labels
        ('B-PER', 'I-PER', 'O')
    """

    labels: tuple[str, ...] = ()
    label_counts: Mapping[str, int] = field(default_factory=dict)
    scheme: Literal["auto"] | SchemeName = "auto"
    crf: bool = False
    label_pieces: LabelPieces = "first"
    columns: Columns = field(default_factory=Columns)
    column: str | None = None

    name: ClassVar[str] = "tag"
    default_policy: ClassVar[Policy] = "windows"
    head_kind: ClassVar[Literal["token"]] = "token"

    def __post_init__(self) -> None:
        if self.column is None:
            return
        if self.columns.label not in (None, self.column):
            raise UsageError(
                f"--column is {self.column!r} and --label {self.columns.label!r}; both name the "
                "column of the tags, so give one"
            )
        object.__setattr__(self, "columns", replace(self.columns, label=self.column))
        object.__setattr__(self, "column", None)

    @property
    def form(self) -> Scheme | None:
        """How tags make spans; None where they make none, or that is not yet known."""
        return SCHEMES.get(self.scheme)

    @property
    def main_metric(self) -> str:
        """F1 of spans, or the share of right words where tags make no spans."""
        return "accuracy_tokens" if self.scheme == "none" else "f1_strict"

    @property
    def metric_directions(self) -> Mapping[str, int]:
        """More is better."""
        spans = () if self.scheme == "none" else ("f1_strict", "f1_lenient")
        return dict.fromkeys((*spans, "accuracy_tokens"), 1)

    @property
    def default_tag(self) -> str:
        """The tag of a word that no model saw: outside of spans, or the most frequent one."""
        counts = self.label_counts
        most = max(self.labels, key=lambda tag: counts.get(tag, 0), default=OUTSIDE)
        return most if self.form is None else OUTSIDE

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[TagExample]:
        """Examples of rows; `tag_reading.read_tagged` says what is refused."""
        scheme = None if self.scheme == "auto" else self.scheme
        examples = read_tagged(list(rows), self.columns, labelled=labelled, scheme=scheme)
        if self.labels and labelled:
            self.check(examples)
        return examples

    def examples(self, values: Sequence[Any]) -> list[TagExample]:
        """Examples of texts, or of lists of words; TagExamples as they are.

        Raises:
            UsageError: for anything else, with its numbers.
        """
        found: list[TagExample] = []
        wrong = []
        for number, value in enumerate(values):
            if isinstance(value, TagExample):
                found.append(value)
            elif isinstance(value, str):
                found.append(TagExample.of_text(value))
            elif isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
                found.append(TagExample.of_words(value))
            else:
                wrong.append(number)
        if wrong:
            raise UsageError(
                f"expected texts or lists of words; numbers {wrong[:10]} are something else, the "
                f"first of type {type(values[wrong[0]]).__name__}"
            )
        return found

    def fit(self, examples: Sequence[TagExample]) -> TagTask:
        """The task with the scheme of the training tags, all tags of it, and their counts.

        A type that occurs gets every tag that the scheme has for it.

        Raises:
            DataError: when there is no example, one without tags, or only one tag.
        """
        if not examples:
            raise DataError("there are no training examples; expected at least one a tag")
        counts = Counter(tag for tags in known_tags(examples) for tag in tags)
        if len(counts) < 2:
            file = examples[0].place.rpartition(", line")[0]
            raise DataError(
                f"{file or 'the data'}: all {counts.total()} words have the tag "
                f"{next(iter(counts), '')!r}; expected at least two tags. Is it the right column "
                "(--column)?"
            )
        scheme = find_scheme(counts) if self.scheme == "auto" else self.scheme
        form = SCHEMES.get(scheme)
        if form is None:
            labels = sorted(counts)
            logger.info(
                "tags are read as they are, without a scheme of spans (--scheme): %d of them",
                len(labels),
            )
        else:
            kinds = sorted({tag.partition("-")[2] for tag in counts} - {""})
            labels = form.tags(kinds)
            types = f"{counted(len(kinds), 'type')}: {', '.join(kinds)}"
            logger.info("the tags are %s, of %s", form.name, types)
        return replace(
            self,
            scheme=scheme,
            labels=tuple(labels),
            label_counts={tag: counts[tag] for tag in labels},
        )

    def check(self, examples: Sequence[TagExample]) -> None:
        """Refuse examples most of whose tags training did not have; count those of others.

        What has a tag that training did not have is judged, and always wrong.

        Raises:
            DataError: for examples without tags, or with mostly other tags.
        """
        known = {*self.labels, OUTSIDE} if self.form else {*self.labels}
        truth = known_tags(examples)
        unseen = [
            f"{example.word_place(number)}: {tag!r}"
            for example, tags in zip(examples, truth, strict=True)
            for number, tag in enumerate(tags)
            if tag not in known
        ]
        count = sum(tag != OUTSIDE or self.form is None for tags in truth for tag in tags)
        if 2 * len(unseen) > count:
            refuse(
                "words with a tag that the training data does not have",
                unseen,
                f"these are most of the {count} tagged words; the tags are: "
                f"{', '.join(self.labels)}. Is it the right column (--column)?",
            )
        if unseen:
            logger.warning(
                "%d of %s %s a tag that the training data does not have, and cannot be got right "
                "(the first: %s)",
                len(unseen),
                counted(count, "tagged word"),
                agreeing(len(unseen), "have"),
                unseen[0],
            )

    def encode(
        self, example: TagExample, tokenizer: Tokenizer, policy: CutPolicy
    ) -> list[Encoding]:
        """The encodings of an example; several are windows."""
        return self.encode_all([example], tokenizer, policy)[0][0]

    def encode_all(
        self, examples: Sequence[TagExample], tokenizer: Tokenizer, policy: CutPolicy
    ) -> tuple[list[list[Encoding]], Ledger]:
        """The encodings of many examples, in the tokenizer's own threads, and what was cut.

        The ledger counts true spans with a word in no window; without a scheme such words.
        """
        encodings, ledger = tokenizer.encode_words(
            [example.words for example in examples], policy=policy
        )
        lost, silent = 0, list[str]()
        for example, windows in zip(examples, encodings, strict=True):
            if not (unread := unread_words(len(example.words), windows)):
                continue
            if windows[0].tokens_cut:
                lost += sum(
                    not unread.isdisjoint(range(start, end))
                    for start, end, _ in self.spans(example.tags or ())
                )
            else:
                silent += [f"{example.word_place(n)}: {example.words[n]!r}" for n in sorted(unread)]
        if silent:
            logger.warning(
                "%s became no token, as control characters do; each keeps a tag, %s (the first: "
                "%s)",
                counted(len(silent), "word"),
                self.default_tag,
                silent[0],
            )
        return encodings, replace(ledger, targets_cut=lost)

    def head(self, config: EncoderConfig, labels: Sequence[str]) -> nn.Module:
        """A new head with random weights."""
        made = CrfHead if self.crf else TokenHead
        head = made(config.hidden_size, len(labels), dropout=config.dropout.classifier)
        initialise(head, config.initializer_range)
        return head

    def targets(
        self, examples: Sequence[TagExample], sources: Sequence[Source]
    ) -> dict[str, Tensor]:
        """What the loss compares with.

        `tag`: (tokens,) index of the true tag of the word that a token speaks for, or -100;
        `word`, `text`: (tokens,) which word and which text of the batch that is, or -1.
        """
        pieces = word_pieces(sources, self.label_pieces)
        rows = list(dict.fromkeys(source.example for source in sources))
        truth = known_tags([examples[row] for row in rows])
        index = {label: number for number, label in enumerate(self.labels)}
        tags = [
            index.get(truth[text][number], IGNORED)
            for text, number in zip(pieces.texts, pieces.numbers, strict=True)
        ]
        size = sum(len(source.encoding) for source in sources)
        found = {"tag": IGNORED, "word": -1, "text": -1}
        columns = {name: torch.full((size,), nothing) for name, nothing in found.items()}
        columns["tag"][pieces.rows] = torch.tensor(tags, dtype=torch.long)[pieces.words]
        columns["word"][pieces.rows] = pieces.words
        columns["text"][pieces.rows] = torch.tensor(pieces.texts, dtype=torch.long)[pieces.words]
        return columns

    def count(self, batch: Batch) -> int:
        """Labelled pieces, or labelled words where tags depend on each other."""
        if self.crf:
            return int(batch.targets["word"].max()) + 1
        return int((batch.targets["tag"] != IGNORED).sum())

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum of the losses, in float32: cross-entropies of pieces, or of whole chains of tags."""
        if self.crf:
            return chain_loss(logits.float(), batch), self.count(batch)
        total = F.cross_entropy(
            logits.float(), batch.targets["tag"], reduction="sum", ignore_index=IGNORED
        )
        return total, self.count(batch)

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """The tags of each text's words; a word in two windows is decided by one of them."""
        pieces = word_pieces(batch.sources, self.label_pieces)
        logits = logits.detach().cpu().double()
        # (pieces, tags) -> the mean of each word's
        scores = logits.new_zeros(len(pieces.texts), logits.shape[1])
        scores.index_add_(0, pieces.words, logits[pieces.rows])
        scores /= pieces.words.bincount(minlength=len(scores))[:, None]
        if self.crf:
            transitions = batch.targets["transitions"].detach().cpu().double()
            best, sure = best_tags(scores, pieces.texts, transitions, self._allowed())
        else:
            sure, best = scores.softmax(-1).max(-1)
        examples = {source.example: source.given for source in batch.sources}
        found: list[dict[int, tuple[str, float]]] = [{} for _ in examples]
        for text, number, tag, probability in zip(
            pieces.texts, pieces.numbers, best.tolist(), sure.tolist(), strict=True
        ):
            found[text][number] = self.labels[tag], probability
        return [
            tag_result(example, known, self.form, default=self.default_tag)
            for example, known in zip(examples.values(), found, strict=True)
        ]

    def spans(self, tags: Sequence[str], *, strict: bool = False) -> list[Span]:
        """The spans of tags; without a scheme every word is one."""
        if self.form is None:
            return [(number, number + 1, tag) for number, tag in enumerate(tags)]
        return self.form.strict(tags) if strict else self.form.lenient(tags)

    def metrics(
        self, results: Sequence[Result], examples: Sequence[TagExample]
    ) -> dict[str, float]:
        """f1_strict and f1_lenient of spans, where there is a scheme, and accuracy_tokens."""
        return self.scorer(results, examples)(np.arange(len(examples)))

    def scorer(self, results: Sequence[Result], examples: Sequence[TagExample]) -> Scorer:
        """`metrics` of any examples, by index."""
        truth = known_tags(examples)
        said = [result.tags for result in tag_results(results)]
        right = np.array(
            [sum(map(str.__eq__, a, b)) for a, b in zip(truth, said, strict=True)], dtype=np.int64
        )
        words = np.array([len(tags) for tags in truth], dtype=np.int64)
        readings = {} if self.form is None else {"f1_strict": True, "f1_lenient": False}
        counts = {
            name: SpanCounts(
                [self.spans(tags, strict=strict) for tags in truth],
                [self.spans(tags, strict=strict) for tags in said],
            )
            for name, strict in readings.items()
        }

        def scores(some: NDArray[np.int64]) -> dict[str, float]:
            share = float(right[some].sum() / max(words[some].sum(), 1))
            f1 = {name: each.f1(some) for name, each in counts.items()}
            return {**f1, "accuracy_tokens": share}

        return scores

    def units(self, examples: Sequence[TagExample]) -> Sequence[Hashable] | None:
        """The groups, where the examples have them; one without stands alone."""
        return group_units([example.group for example in examples])

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task"."""
        return {
            "name": self.name,
            "labels": list(self.labels),
            "label_counts": dict(self.label_counts),
            "scheme": self.scheme,
            "crf": self.crf,
            "label_pieces": self.label_pieces,
            "columns": asdict(self.columns),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TagTask:
        """The task that `state` described; a scheme that is not named is found in the labels."""
        labels = tuple(state.get("labels", ()))
        return cls(
            labels=labels,
            label_counts=dict(state.get("label_counts", {})),
            scheme=state.get("scheme") or find_scheme(labels),
            crf=state.get("crf", False),
            label_pieces=state.get("label_pieces", "first"),
            columns=Columns(**state.get("columns", {})),
        )

    def _allowed(self) -> Tensor:
        """Which tag may follow which, as `CrfHead.transitions` is laid out."""
        tags, form = [*self.labels, None], self.form
        rows = [[form is None or form.may_follow(a, b) for b in tags] for a in tags]
        return torch.tensor(rows, dtype=torch.bool)
