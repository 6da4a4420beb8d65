"""Predictions from what should not do alone, and from nothing at all, for each kind of task.

Of labels and numbers these are linear models of single cues (`cues.py`) and of parts of the input:
either text of a pair, choices without their question, entities without their sentence; of their
words, and of their vectors by the frozen encoder. Where a function that trains is handed in, parts
are fine-tuned on too. What is made of it is in `artifacts.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.diagnostics.cues import CUES, character_kind, features, most_telling, tokens
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.learners import Learner, learner
from bothways.errors import NotAsked
from bothways.evaluation.answering import sentences
from bothways.evaluation.baselines import have_words, word_features
from bothways.inference.model import Model
from bothways.tasks.answer_reading import AnswerExample
from bothways.tasks.classify import ClassifyExample
from bothways.tasks.results import AnswerResult, Result
from bothways.tasks.tag_examples import known_tags, tag_result
from bothways.tasks.texts import Texts

# Training examples that cues are learned from, and that the encoder reads in part.
TRAINED = 5000
TRAINED_VECTORS = 700
# Inverse of the regularisation on standardised vectors.
VECTOR_STRENGTH = 0.1
# Places of words that are told apart.
PLACES = 20

# Training examples and examples, both of a part of the input, to results.
Retrain = Callable[[Sequence[Any], Sequence[Any]], Sequence[Result]]


@dataclass(frozen=True)
class Alone:
    """Predictions.

    Attributes:
        uninformed: of the training shares, or mean, alone.
        cues: by what they are made from; as many as examples.
    """

    uninformed: Sequence[Result]
    cues: Mapping[str, Sequence[Result]]


@dataclass(frozen=True)
class Part:
    """A part of the input.

    Attributes:
        rows: of examples, the texts that features are made of.
        only: an example with nothing else; None where a model of the task could not read it.
    """

    rows: Callable[[Sequence[Any]], Sequence[Texts]]
    only: Callable[[Any], Any] | None = None


def alone(evidence: Evidence, *, retrain: Retrain | None = None) -> Alone:
    """Predictions from what should not do alone.

    Args:
        evidence: to ask.
        retrain: fine-tunes on parts of the input and predicts.

    Raises:
        NotAsked: for a kind of task that has no such thing, or without training examples.
    """
    how = learner(evidence.task)
    if how is not None:
        return _linear(evidence, how, retrain)
    if evidence.task.name in OTHERS:
        return OTHERS[evidence.task.name](evidence, retrain)
    raise NotAsked(f"What should not do alone is not known of the task {evidence.task.name}.")


def learned_from(evidence: Evidence, most: int = TRAINED) -> Sequence[Any]:
    """The training examples, or a sample of them.

    Raises:
        NotAsked: where there are none.
        DataError: where the task does not know their labels.
    """
    if not evidence.train_examples:
        raise NotAsked("That needs the training texts (--train).")
    train = evidence.train_examples
    evidence.task.check(train)
    if len(train) <= most:
        return train
    chosen = evidence.generator("learned from").choice(len(train), most, replace=False)
    return [train[index] for index in np.sort(chosen).tolist()]


def vectors_of(
    evidence: Evidence, rows: Sequence[Texts], model: Model | None = None
) -> NDArray[np.float32]:
    """(rows, hidden) means of the last states of the model's frozen encoder, or another's."""
    texts = [row.text if row.pair is None else (row.text, row.pair) for row in rows]
    return (
        (model or evidence.model)
        .embed(
            texts,
            pooling="mean",
            normalize=False,
            max_length=evidence.policy.max_length,
            batch_tokens=evidence.batch_tokens,
        )
        .vectors
    )


def by_vectors(
    how: Learner,
    evidence: Evidence,
    train: Sequence[Any],
    known: NDArray[np.float32],
    new: NDArray[np.float32],
) -> Sequence[Result]:
    """What a linear model of standardised vectors predicts."""
    mean, spread = known.mean(0), known.std(0) + np.float32(1e-6)
    return how.results(
        evidence.task,
        train,
        (known - mean) / spread,
        evidence.examples,
        (new - mean) / spread,
        strength=VECTOR_STRENGTH,
    )


def _linear(evidence: Evidence, how: Learner, retrain: Retrain | None) -> Alone:
    task, examples, train = evidence.task, evidence.examples, learned_from(evidence)
    known_rows, new_rows = how.rows(train), how.rows(examples)
    found: dict[str, Sequence[Result]] = {}
    for name, cue in CUES.items():
        made = features(cue, known_rows, new_rows)
        if made is not None:
            found[name] = how.results(task, train, made.known, examples, made.new)
    made = features(tokens, known_rows, new_rows)
    if made is not None:
        best = [most_telling(made.known, how.targets(task, train))]
        found[f"the word {made.names[best[0]]!r}"] = how.results(
            task, train, made.known[:, best], examples, made.new[:, best]
        )
    few = learned_from(evidence, TRAINED_VECTORS)
    for name, part in parts_of(task.name, new_rows).items():
        known_rows, new_rows = part.rows(train), part.rows(examples)
        if not have_words(known_rows):
            continue
        known, new = word_features(known_rows, new_rows)
        found[f"words of {name}"] = how.results(task, train, known, examples, new)
        seen = vectors_of(evidence, part.rows(few)), vectors_of(evidence, new_rows)
        found[f"vectors of {name}"] = by_vectors(how, evidence, few, *seen)
        if retrain is not None and part.only is not None:
            found[f"{name}, fine-tuned"] = retrain(
                *(list(map(part.only, given)) for given in (train, examples))
            )
    return Alone(how.uninformed(task, train, examples), found)


def parts_of(task: str, rows: Sequence[Texts]) -> Mapping[str, Part]:
    """Parts of the input that should not do alone, by name.

    Args:
        task: name of one that a linear model can do.
        rows: of its examples.
    """
    if task in PARTS:
        return PARTS[task]
    return SIDES if rows[0].pair is not None else {}


def _row(text: str, pair: str | None = None) -> ClassifyExample:
    return ClassifyExample(text, pair)


def _entity(example: Any, number: int) -> str:
    start, end = (example.first, example.second)[number]
    return str(example.text[start:end])


SIDES: Mapping[str, Part] = {
    "the first text": Part(
        lambda examples: [_row(e.text) for e in examples], lambda e: replace(e, pair=None)
    ),
    "the second text": Part(
        lambda examples: [_row(e.pair) for e in examples],
        lambda e: replace(e, text=e.pair, pair=None),
    ),
}
PARTS: Mapping[str, Mapping[str, Part]] = {
    "relate": {
        "the two entities": Part(
            lambda examples: [_row(_entity(e, 0), _entity(e, 1)) for e in examples]
        )
    },
    "multiple-choice": {
        "the choices": Part(
            lambda examples: [_row(choice) for e in examples for choice in e.choices],
            lambda e: replace(e, text="", pair=None),
        )
    },
}


def _tags(evidence: Evidence, retrain: Retrain | None) -> Alone:
    """The most frequent tag: of all words, of those of a shape, of those at a place."""
    del retrain
    train = learned_from(evidence)

    def most_frequent(key: Callable[[str, int], Hashable]) -> list[Result]:
        counts: dict[Hashable, Counter[str]] = defaultdict(Counter)
        for example, tags in zip(train, known_tags(train), strict=True):
            for at, (word, tag) in enumerate(zip(example.words, tags, strict=True)):
                counts[key(word, at)][tag] += 1
                counts[None][tag] += 1
        best = {about: max(sorted(tags), key=tags.__getitem__) for about, tags in counts.items()}
        form = evidence.task.form  # type: ignore[attr-defined]
        return [
            tag_result(
                example,
                {
                    at: (best.get(key(word, at), best[None]), 1.0)
                    for at, word in enumerate(example.words)
                },
                form,
                default=best[None],
            )
            for example in evidence.examples
        ]

    cues = {
        "the shape of words": most_frequent(lambda word, _at: _shape(word)),
        "the place of words": most_frequent(lambda _word, at: min(at, PLACES)),
    }
    return Alone(most_frequent(lambda _word, _at: None), cues)


def _shape(word: str) -> str:
    """`Aa` of `Ann`, `A0` of `B52`: kinds of characters, runs of one kind as one."""
    return "".join(kind for kind, _ in groupby(map(character_kind, word)))


def _answers(evidence: Evidence, retrain: Retrain | None) -> Alone:
    """Nothing for an answer, and the answer to no question at all."""
    examples: Sequence[AnswerExample] = evidence.examples
    unasked = [replace(example, question="") for example in examples]
    cues = {"the context": list(evidence.predict(unasked))}
    if evidence.train_examples:
        train: Sequence[AnswerExample] = learned_from(evidence)
        usual = Counter(filter(None, map(_sentence_of_answer, train))).most_common(1)
        if usual:
            cues["the usual sentence"] = [_sentence(e.context, usual[0][0]) for e in examples]
        if retrain is not None:
            known = [replace(example, question="") for example in train]
            cues["the context, fine-tuned"] = list(retrain(known, unasked))
    return Alone([AnswerResult("", 0, 0, 1.0, 1.0)] * len(examples), cues)


def _sentence_of_answer(example: AnswerExample) -> int | None:
    """The how manyth sentence the first answer begins in, from 1."""
    start = example.answers[0].start if example.answers else None
    if start is None:
        return None
    return sum(begin <= start for begin, _ in sentences(example.context))


def _sentence(context: str, number: int) -> AnswerResult:
    """The sentence of that number, or the last."""
    found = sentences(context)[:number] or [(0, 0)]
    start, end = found[-1]
    return AnswerResult(context[start:end], start, end, 1.0, 0.0)


OTHERS: Mapping[str, Callable[[Evidence, Retrain | None], Alone]] = {
    "tag": _tags,
    "answer": _answers,
}
