"""Planted faults: data with something wrong on purpose, and its clean twin, for any question.

A row of `FAULTS` in `test_planted.py` names a question and a function that makes `Planted` data
with or without the fault. `detections` asks the question of cheap stand-ins, a linear head on
frozen vectors of a tiny random encoder that knows the words of `VOCABULARY`, once a seed and twin.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from bothways.checkpoints.parts import Parts, adapt, new_parts
from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.questions import question
from bothways.errors import NotAsked
from bothways.evaluation.result import Finding
from bothways.inference.model import Model
from bothways.model.config import build_config
from bothways.model.heads import ClassificationHead
from bothways.tasks.classify import ClassifyExample, ClassifyTask, label_results
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import load_tokenizer

SEEDS = 20
RESAMPLES = 300
LABELS = ("calm", "glad", "sad")
PLAIN = [a + b for a in "bdfgklm" for b in ("a", "ea", "i", "on", "us", "er")]
# Three words for each label, which are no label's name.
TELLING = {label: [f"{label[0]}{end}" for end in ("ox", "yx", "ux")] for label in LABELS}
MARKS = [".", "!", "?", ","]
VOCABULARY = [*PLAIN, *(word for words in TELLING.values() for word in words), *MARKS, "not", "no"]

Draw = np.random.Generator


@dataclass(frozen=True)
class Planted:
    """Data for a stand-in.

    Attributes:
        train, test: labelled examples.
        max_length: tokens that are read, in training and after.
        learned_length: the same in training, where it differs.
        columns: metadata of the test examples.
        options: of the question.
        change: what is done to the trained head.
        drawn: whether the test labels are drawn with the probabilities of the trained model.
        pooling: what the head reads.
        blind: whether the first token sees nothing but itself.
    """

    train: Sequence[ClassifyExample]
    test: Sequence[ClassifyExample]
    max_length: int = 64
    learned_length: int | None = None
    columns: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[ClassificationHead], None] | None = None
    drawn: bool = False
    pooling: Literal["cls", "mean"] = "mean"
    blind: bool = False


Plant = Callable[[Draw, bool], Planted]
Trained = Callable[[Planted, int], Model]


@dataclass(frozen=True)
class Detections:
    """How often a question gave the alarm.

    Attributes:
        found: share of the seeds with the fault.
        false: share of the clean twins.
    """

    found: float
    false: float


def detections(
    name: str, plant: Plant, *, seeds: int = SEEDS, trained: Trained | None = None
) -> Detections:
    """Ask a question of faulty data and of its clean twin, once a seed each.

    Args:
        name: of the question.
        plant: makes the data.
        seeds: how many.
        trained: makes a model of data and a seed; None for stand-ins.
    """
    alarms = {True: 0, False: 0}
    for seed in range(seeds):
        for faulty in alarms:
            alarms[faulty] += any(
                finding.severity == "alarm"
                for finding in findings(name, plant, seed, faulty, trained=trained)
            )
    found = Detections(alarms[True] / seeds, alarms[False] / seeds)
    sys.stdout.write(
        f"{name}, {plant.__name__}, {seeds} seeds{', fine-tuned' if trained else ''}: "
        f"found {found.found:.0%}, false alarms {found.false:.0%}\n"
    )
    return found


def findings(
    name: str, plant: Plant, seed: int, faulty: bool, *, trained: Trained | None = None
) -> tuple[Finding, ...]:
    """What a question says of one model."""
    planted = plant(np.random.default_rng(seed), faulty)
    model = None if trained is None else trained(planted, seed)
    try:
        return question(name)(evidence_of(planted, seed, model), **planted.options).findings()
    except NotAsked as reason:
        return (Finding(name, "not asked", str(reason)),)


def evidence_of(planted: Planted, seed: int = 0, model: Model | None = None) -> Evidence:
    """A stand-in for a fine-tuned model, or a model given, and the test examples."""
    model = model or _fitted(planted)
    test = drawn(model, planted.test, seed) if planted.drawn else planted.test
    changed(model, planted)
    return Evidence(
        model,
        ClassifyTask().fit(planted.train),
        test,
        CutPolicy(planted.max_length),
        columns=planted.columns,
        population=len(planted.test),
        train_examples=planted.train,
        seed=seed,
        resamples=RESAMPLES,
    )


def stand_in(planted: Planted) -> Model:
    """A linear head fitted to the frozen vectors of the training texts, and changed as planted."""
    return changed(_fitted(planted), planted)


def _fitted(planted: Planted) -> Model:
    task = ClassifyTask().fit(planted.train)
    length = planted.learned_length or planted.max_length
    texts = [e.text if e.pair is None else (e.text, e.pair) for e in planted.train]
    encoder = tiny(blind=planted.blind)
    embedder = Model(encoder)
    vectors = embedder.embed(
        texts, pooling=planted.pooling, max_length=length, policy="head"
    ).vectors
    fitted = LogisticRegression(C=100.0, max_iter=300).fit(
        vectors, [e.label for e in planted.train]
    )
    head = ClassificationHead(vectors.shape[1], len(task.labels), pooling=planted.pooling)
    weight, bias = fitted.coef_, fitted.intercept_
    if len(task.labels) == 2:  # one row of weights, of the second label
        weight, bias = np.concatenate([0 * weight, weight]), np.concatenate([0 * bias, bias])
    with torch.no_grad():
        head.output.weight.copy_(torch.from_numpy(weight))
        head.output.bias.copy_(torch.from_numpy(bias))
    parts = adapt(
        encoder,
        head,
        labels=task.labels,
        problem_type="single_label_classification",
        trained=True,
    )
    model = Model(parts)
    model.task = task
    return model


def changed(model: Model, planted: Planted) -> Model:
    """The model, whose head is changed as planted."""
    head = model.parts.head
    if planted.change is not None and isinstance(head, ClassificationHead):
        with torch.no_grad():
            planted.change(head)
    return model


def drawn(model: Model, examples: Sequence[ClassifyExample], seed: int) -> list[ClassifyExample]:
    """The same with labels drawn with the probabilities that the model tells."""
    draw = np.random.default_rng(seed)
    shares = [result.probabilities for result in label_results(model.predict(list(examples)))]
    labels = [str(draw.choice(list(each), p=list(each.values()))) for each in shares]
    return [replace(e, label=label) for e, label in zip(examples, labels, strict=True)]


@cache
def tiny(*, blind: bool = False) -> Parts:
    """A random encoder of one layer, 64 wide, that knows the words of VOCABULARY.

    Args:
        blind: no token sees another.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *VOCABULARY]
        letters = sorted({letter for word in words for letter in word.strip("[]").lower()})
        pieces = dict.fromkeys([*words, *letters, *(f"##{letter}" for letter in letters)])
        Path(folder, "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        tokenizer = load_tokenizer(folder)
    config = build_config(
        vocab_size=tokenizer.vocab_size,
        hidden_size=64,
        num_heads=2,
        num_layers=1,
        max_positions=64,
        dropout=0.0,
    )
    torch.manual_seed(0)
    parts = new_parts(config, tokenizer=tokenizer)
    if blind:
        named = dict(parts.encoder.named_parameters())
        torch.nn.init.zeros_(named["layers.0.attention.output.weight"])
    return parts


def sentence(draw: Draw, label: str, words: int = 8, *, sure: float = 0.9) -> str:
    """Plain words, the third of which tells the label, a wrong one now and then."""
    told = label if draw.random() < sure else str(draw.choice(LABELS))
    chosen = [str(word) for word in draw.choice(PLAIN, words)]
    chosen[2] = str(draw.choice(TELLING[told]))
    return " ".join(chosen)


def sentences(
    draw: Draw, count: int, words: int = 8, *, sure: float = 0.9
) -> list[ClassifyExample]:
    """Labelled sentences; see `sentence`."""
    labels = [str(label) for label in draw.choice(LABELS, count)]
    return [
        ClassifyExample(sentence(draw, label, words, sure=sure), label=label) for label in labels
    ]
