"""Relations: how two marked entities of a text are related, one label a text.

Learning, decoding and labels are those of classification. What is its own: the head reads the
states where the two entities begin (or the first token), long texts are cut around the entities,
and the score is the official one of SemEval-2010 task 8. Reading and marking is in `marking.py`.

Source: Baldini Soares et al. 2019 for entity starts, Hendrickx et al. 2010 for task and score.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.data.collate import Source
from bothways.data.rows import Row
from bothways.errors import UsageError, nearest
from bothways.metrics.relations import Relations
from bothways.model.config import EncoderConfig
from bothways.model.entities import EntityHead
from bothways.model.init import initialise
from bothways.model.layout import Batch
from bothways.tasks.classify import ClassifyExample, ClassifyTask, label_results
from bothways.tasks.marking import RelateExample, around, parse_marks, read_relations
from bothways.tasks.results import Result
from bothways.tasks.task import Columns, Scorer
from bothways.tasks.temperature import stored_temperature, temperature_state
from bothways.tasks.texts import PoolingChoice, group_units
from bothways.tokenization.encoding import Encoding, Ledger
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

RelationState = Literal["entities", "cls"]


@dataclass(frozen=True)
class RelateTask:
    """One label a text with two entities.

    Attributes:
        labels: in the order of the logits, sorted; empty before `fit`.
        label_counts: training examples of each label.
        columns: where text, label and group stand in a file.
        pooling: with `relation_state` cls, what the head reads.
        relation_state: the states where both entities begin, or the text's first token.
        temperature: that logits are divided by where probabilities are told; None for none.

    Example:
        >>> task = RelateTask().fit([RelateExample("a b", (0, 1), (2, 3), label="x"),
        ...                          RelateExample("b a", (0, 1), (2, 3), label="y")])
        >>> task.labels
        ('x', 'y')
    """

    labels: tuple[str, ...] = ()
    label_counts: Mapping[str, int] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)
    pooling: PoolingChoice = "auto"
    relation_state: RelationState = "entities"
    temperature: float | None = None

    name: ClassVar[str] = "relate"
    main_metric: ClassVar[str] = "macro_f1_official"
    metric_directions: ClassVar[Mapping[str, int]] = {
        "macro_f1_official": 1,
        "accuracy": 1,
        "f1_macro": 1,
        "loss": -1,
    }

    def __post_init__(self) -> None:
        states = get_args(RelationState)
        if self.relation_state not in states:
            raise UsageError(
                f"the relation state is {self.relation_state!r}; "
                f"{nearest(str(self.relation_state), states)}"
            )
        if self.relation_state == "entities" and self.pooling != "auto":
            raise UsageError(
                f"--pooling {self.pooling} is for --relation-state cls; with entities the head "
                "reads where they begin"
            )

    @property
    def classification(self) -> ClassifyTask:
        """The classification that this is, once entities are marked."""
        return ClassifyTask(
            self.labels,
            self.label_counts,
            pairs=False,
            pooling=self.pooling,
            temperature=self.temperature,
        )

    def read(self, rows: Iterable[Row], *, labelled: bool = True) -> list[RelateExample]:
        """Examples of rows: marked texts, or texts with spans.

        Raises:
            DataError: for missing columns or labels, entities that are not clear, or a label that
                training did not have; each with all its rows.
        """
        examples = read_relations(list(rows), self.columns, labelled=labelled)
        if self.labels and labelled:
            self.check(examples)
        return examples

    def examples(self, values: Sequence[Any]) -> list[RelateExample]:
        """Unlabelled examples of marked texts; RelateExamples as they are.

        Raises:
            UsageError: for anything else, and for texts without both entities, with its numbers.
        """
        found, wrong = list[RelateExample](), list[int]()
        for number, value in enumerate(values):
            if isinstance(value, RelateExample):
                found.append(value)
                continue
            try:
                found.append(RelateExample(*parse_marks(value)))
            except (ValueError, TypeError):
                wrong.append(number)
        if wrong:
            raise UsageError(
                "expected texts with each of <e1>..</e1> and <e2>..</e2> once; numbers "
                f"{wrong[:10]} are something else"
            )
        return found

    def fit(self, examples: Sequence[RelateExample]) -> RelateTask:
        """The task with the labels of the training examples, sorted, and their counts."""
        fitted = self.classification.fit(as_classified(examples))
        return replace(
            self, labels=fitted.labels, label_counts=fitted.label_counts, temperature=None
        )

    def check(self, examples: Sequence[RelateExample]) -> None:
        """Refuse labels that the model does not have."""
        self.classification.check(as_classified(examples))

    def encode(
        self, example: RelateExample, tokenizer: Tokenizer, policy: CutPolicy
    ) -> list[Encoding]:
        """The one encoding of an example."""
        return self.encode_all([example], tokenizer, policy)[0][0]

    def encode_all(
        self, examples: Sequence[RelateExample], tokenizer: Tokenizer, policy: CutPolicy
    ) -> tuple[list[list[Encoding]], Ledger]:
        """One encoding an example, cut around its entities, and what was cut.

        Raises:
            UsageError: for another policy than head, which here means: around the entities.
        """
        if policy.keep != "head":
            raise UsageError(
                f"a text is cut around its entities, so policy {policy.keep!r} does not fit; "
                "leave --policy out"
            )
        marked = [example.marked for example in examples]
        whole, ledger = tokenizer.encode_many([text for text, _ in marked], policy=None)
        encodings = list[list[Encoding]]()
        for (encoding,), (_, marks) in zip(whole, marked, strict=True):
            cut, places = around(encoding, marks, policy.max_length)
            encodings.append([cut])
            if cut.tokens_cut:
                ledger = ledger + Ledger(
                    texts_cut=1,
                    tokens_cut=cut.tokens_cut,
                    end=cut.end,
                    targets_cut=sum(place < 0 for place in places),
                )
        return encodings, ledger

    def head(self, config: EncoderConfig, labels: Sequence[str]) -> nn.Module:
        """A new head with random weights."""
        if self.relation_state == "cls":
            return self.classification.head(config, labels)
        head = EntityHead(config.hidden_size, len(labels), dropout=config.dropout.classifier)
        initialise(head, config.initializer_range)
        return head

    def reads(self, sources: Sequence[Source]) -> dict[str, Tensor]:
        """What the head needs besides tokens: `entities`, (sequences, 2), where they begin.

        An entity that was cut away counts as the first token.
        """
        found = []
        for source in sources:
            _, marks = source.given.marked
            length = len(source.encoding)
            places = around(source.encoding, marks, length)[1]
            found.append([max(place, 0) for place in places])
        return {"entities": torch.tensor(found, dtype=torch.long).reshape(-1, 2)}

    def targets(
        self, examples: Sequence[RelateExample], sources: Sequence[Source]
    ) -> dict[str, Tensor]:
        """`label`, and what the head reads."""
        index = {label: number for number, label in enumerate(self.labels)}
        truth = [examples[source.example] for source in sources]
        self.check(truth)
        label = torch.tensor([index[example.label or ""] for example in truth])
        return {"label": label, **self.reads(sources)}

    def count(self, batch: Batch) -> int:
        """Texts: the units of the loss."""
        return self.classification.count(batch)

    def loss(self, logits: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Sum of the cross-entropies, in float32, and the number of texts."""
        return self.classification.loss(logits, batch)

    def decode(self, logits: Tensor, batch: Batch) -> list[Result]:
        """The most probable label of each example."""
        return self.classification.decode(logits, batch)

    def metrics(
        self, results: Sequence[Result], examples: Sequence[RelateExample]
    ) -> dict[str, float]:
        """macro_f1_official, accuracy, f1_macro over all labels, and loss (nats)."""
        return self.scorer(results, examples)(np.arange(len(examples)))

    def scorer(self, results: Sequence[Result], examples: Sequence[RelateExample]) -> Scorer:
        """`metrics` of any examples, by index."""
        general = self.classification.scorer(results, as_classified(examples))
        predicted = [result.label for result in label_results(results)]
        relations = Relations([e.label or "" for e in examples], predicted, self.labels)

        def scores(some: NDArray[np.int64]) -> dict[str, float]:
            found = general(some)
            named = {name: found[name] for name in ("accuracy", "f1_macro", "loss")}
            return {"macro_f1_official": relations.score(some), **named}

        return scores

    def units(self, examples: Sequence[RelateExample]) -> Sequence[Hashable] | None:
        """The groups, where the examples have them; one without stands alone."""
        return group_units([example.group for example in examples])

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "task"."""
        return {
            "name": self.name,
            "problem_type": "single_label_classification",
            "labels": list(self.labels),
            "label_counts": dict(self.label_counts),
            "columns": asdict(self.columns),
            "pooling": self.pooling,
            "relation_state": self.relation_state,
            **temperature_state(self.temperature),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RelateTask:
        """The task that `state` described."""
        return cls(
            labels=tuple(state.get("labels", ())),
            label_counts=dict(state.get("label_counts", {})),
            columns=Columns(**state.get("columns", {})),
            pooling=state.get("pooling", "auto"),
            relation_state=state.get("relation_state", "entities"),
            temperature=stored_temperature(state),
        )


def as_classified(examples: Sequence[RelateExample]) -> list[ClassifyExample]:
    """The same examples as classification knows them."""
    return [ClassifyExample(e.text, None, e.label, e.place, e.group) for e in examples]
