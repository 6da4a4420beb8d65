"""What `quality.py` compares: data sets, the same examples for every side and seed, and scoring.

An example is a dictionary of text. A side says something of each test example (a label, a number,
tags, an answer); `contributions` turns that into numbers that `METRICS` make a score of, so both
sides are scored by the same code. How sides train is in `quality.py` and `quality_reference.py`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from measure import data_folder, minilm

MOST = {"train": 1500, "test": 1000}
CANDIDATES = 20

# One example of a data set: text, pair and label, or words and tags, or question and answers.
Example = dict[str, Any]
# What a test example contributes to the metric: a number, or a few that are summed.
Score = float | list[float]


@dataclass(frozen=True)
class Job:
    """One row of the comparison.

    Attributes:
        kind: what is done: classify, regress, embed, tag, answer, relate, rerank or retrieve.
        metric: one of `METRICS`.
        files: training and test file below the data folder; one file is cut.
        columns: our names of the fields -> columns of the files.
        options: how the files are read.
        epochs, batch_size, learning_rate, max_length: of both sides.
        overlap: of windows, where there are some.
    """

    kind: str
    metric: str
    files: tuple[str, ...]
    columns: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict)
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 5e-5
    max_length: int = 128
    overlap: int | None = None


TOPIC = {"text": "text", "label": "category"}
STS = {"text": "6", "pair": "7", "label": "5"}
STS_FILES = ("stsb/sts-train.csv", "stsb/sts-test.csv")
STS_OPTIONS = {"format": "tsv", "header": False, "quoting": False}
CRANFIELD = ("cranfield/cran.all.1400", "cranfield/cran.qry", "cranfield/cranqrel")
JOBS: dict[str, Job] = {
    "mr": Job(
        "classify",
        "accuracy",
        ("mr/rt-polarity.all",),
        {"text": "text", "label": "label"},
        {"encoding": "latin-1"},
    ),
    "banking77": Job(
        "classify",
        "accuracy",
        ("banking77/train.csv", "banking77/test.csv"),
        TOPIC,
        epochs=6,
        learning_rate=1e-4,
    ),
    "nli_counterfactual": Job(
        "classify",
        "accuracy",
        ("nli_counterfactual/train.tsv", "nli_counterfactual/test.tsv"),
        {"text": "sentence1", "pair": "sentence2", "label": "gold_label"},
    ),
    "sib200": Job(
        "classify",
        "accuracy",
        ("sib200/eng_Latn/train.tsv", "sib200/eng_Latn/test.tsv"),
        TOPIC,
        epochs=6,
        learning_rate=1e-4,
    ),
    "stsb_regress": Job("regress", "spearman", STS_FILES, STS, STS_OPTIONS),
    "stsb_embed": Job("embed", "spearman", STS_FILES, STS, STS_OPTIONS, epochs=1),
    "wnut17": Job(
        "tag",
        "f1_strict",
        ("wnut17/wnut17train.conll", "wnut17/emerging.test.annotated"),
        {"words": "1", "tags": "2"},
        {"format": "conll"},
        learning_rate=1e-4,
    ),
    "ud_english_ewt": Job(
        "tag",
        "accuracy_tokens",
        (
            "ud_english_ewt/en_ewt-ud-train.rebuilt.conllu",
            "ud_english_ewt/en_ewt-ud-test.conllu",
        ),
        {"words": "form", "tags": "upos"},
        {"format": "conllu"},
        learning_rate=1e-4,
    ),
    "xquad": Job(
        "answer",
        "f1",
        ("xquad/xquad.en.json",),
        {"text": "question", "pair": "context", "answers": "answers"},
        learning_rate=1e-4,
        max_length=256,
        overlap=64,
    ),
    "semeval2010_task8": Job(
        "relate",
        "macro_f1_official",
        ("semeval2010_task8/train.tsv", "semeval2010_task8/test.tsv"),
        {"label": "1", "text": "2"},
        {"header": False, "quoting": False},
        learning_rate=1e-4,
    ),
    "cranfield": Job("retrieve", "ndcg_at_10", CRANFIELD, {}, epochs=0, max_length=256),
    "cranfield_rerank": Job("rerank", "ndcg_at_10", CRANFIELD, {}, epochs=2, max_length=192),
}


def _mean(scores: np.ndarray) -> float:
    return float(scores.mean())


def _ratio(columns: np.ndarray) -> float:
    """2 right / (predicted + true), or right / all: the sums of the columns of counts."""
    right, *others = columns.sum(0)
    return float(len(others) * right / max(sum(others), 1))


def _spearman(columns: np.ndarray) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(columns[:, 0], columns[:, 1])[0])


def _relations(columns: np.ndarray) -> float:
    """Mean F1 of the relations: columns are right, said and true relation, -1 where Other."""
    right, said, true = columns.astype(int).T
    width = 1 + max(said.max(), true.max())
    hits, *sides = (
        np.bincount(side[side >= 0], minlength=width)
        for side in (np.where(right == 1, true, -1), said, true)
    )
    return float(np.mean(2 * hits / np.maximum(sum(sides), 1)))


# Name -> the value that the contributions of some examples make together.
METRICS: dict[str, Callable[[np.ndarray], float]] = {
    "accuracy": _mean,
    "f1": _mean,
    "ndcg_at_10": _mean,
    "spearman": _spearman,
    "f1_strict": _ratio,
    "accuracy_tokens": _ratio,
    "macro_f1_official": _relations,
}


def examples(job: Job) -> tuple[list[Example], list[Example]]:
    """Training and test examples, the same for every side and seed."""
    draw = random.Random(0)
    if job.kind == "rerank":
        return _ranked(job, draw)
    from bothways.data.options import FileOptions

    def read(name: str) -> list[Example]:
        rows = FileOptions(**job.options).rows(data_folder() / name)
        return [{ours: row.cells[theirs] for ours, theirs in job.columns.items()} for row in rows]

    parts = [read(name) for name in job.files]
    if job.kind == "answer":
        # All questions of a paragraph on one side: two thirds of the paragraphs are learned.
        contexts = list(dict.fromkeys(each["pair"] for each in parts[0]))
        draw.shuffle(contexts)
        learned = set(contexts[: len(contexts) * 2 // 3])
        parts = [[e for e in parts[0] if (e["pair"] in learned) == side] for side in (True, False)]
    elif len(parts) == 1:
        whole = draw.sample(parts[0], len(parts[0]))
        cut = len(whole) * 9 // 10
        parts = [whole[:cut], whole[cut:]]
    train, test = (
        draw.sample(part, min(len(part), most))
        for part, most in zip(parts, MOST.values(), strict=True)
    )
    return train, test


def _ranked(job: Job, draw: random.Random) -> tuple[list[Example], list[Example]]:
    """Queries with passages: what was judged and found to learn from, what was found to rank.

    Two thirds of the queries are learned from. The first stage is the encoder as published.
    """
    import bothways
    from bothways.data.retrieval import read_retrieval_set
    from bothways.training.retrieval import first_stage

    given = read_retrieval_set(*(data_folder() / name for name in job.files))
    found = first_stage(bothways.load(minilm()), given, CANDIDATES)
    queries = draw.sample(given.answerable, len(given.answerable))
    cut = len(queries) * 2 // 3
    sides = (queries[:cut], queries[cut:])
    train, test = (
        [
            {
                "text": given.queries[query],
                "pair": given.documents[document],
                "label": str(given.gains[query].get(document, 0.0)),
                "query": query,
                "judged": list(given.gains[query].values()),
                "first": score,
            }
            for query in side
            # `first_stage` puts judged documents first, whether it found them or not.
            for document, score in sorted(found[query].items(), key=lambda each: -(each[1] or 0.0))[
                : None if learned else CANDIDATES
            ]
        ]
        for side, learned in zip(sides, (True, False), strict=True)
    )
    return train[: MOST["train"]], test


def contributions(job: Job, said: Sequence[Any], test: Sequence[Example]) -> list[Score]:
    """What was said of each test example, as numbers; of rankings, a number a query."""
    if job.kind == "classify":
        return [float(one == each["label"]) for one, each in zip(said, test, strict=True)]
    if job.kind in ("regress", "embed"):
        return [[float(one), float(each["label"])] for one, each in zip(said, test, strict=True)]
    if job.kind == "tag":
        return [_tag_counts(job, one, each) for one, each in zip(said, test, strict=True)]
    if job.kind == "answer":
        from bothways.metrics.answers import AnswerScores

        answers = [[found["text"] for found in json.loads(each["answers"])] for each in test]
        return AnswerScores(list(said), answers).f1.tolist()
    if job.kind == "relate":
        from bothways.metrics.relations import OTHER, relation_of

        names = sorted({relation_of(each["label"]) for each in test} - {OTHER})
        number = {name: place for place, name in enumerate(names)}
        return [
            [one == each["label"]]
            + [number.get(relation_of(label), -1) for label in (one, each["label"])]
            for one, each in zip(said, test, strict=True)
        ]
    from bothways.metrics.ranking import by_score, ndcg

    values: list[Score] = []
    for _, pairs in groupby(zip(said, test, strict=True), key=lambda pair: pair[1]["query"]):
        scores, passages = zip(*pairs, strict=True)
        gains = np.array([float(each["label"]) for each in passages])
        order = by_score(np.array(scores, dtype=float), gains)
        values.append(float(ndcg(gains[order], np.array(passages[0]["judged"]))))
    return values


def _tag_counts(job: Job, tags: Sequence[str], each: Example) -> list[float]:
    """Right, predicted and true spans of a sentence; of words, right and all."""
    truth = each["tags"].split("\n")
    if job.metric == "f1_strict":
        from seqeval.metrics.sequence_labeling import get_entities

        ours, theirs = set(get_entities(list(tags))), set(get_entities(truth))
        return [len(ours & theirs), len(ours), len(theirs)]
    return [sum(one == other for one, other in zip(tags, truth, strict=True)), len(truth)]


def trivial(job: Job, train: Sequence[Example], test: Sequence[Example]) -> list[Any]:
    """What is easily said: the commonest label, shared words, each word's commonest tag."""
    if job.kind in ("classify", "relate"):
        labels = Counter(each["label"] for each in train)
        # Other scores nothing among relations, so the commonest real one is said.
        best = next(label for label, _ in labels.most_common() if label != "Other")
        return [best] * len(test)
    if job.kind in ("regress", "embed"):
        return [_overlap(each["text"], each["pair"]) for each in test]
    if job.kind == "rerank":
        return [each["first"] for each in test]
    if job.kind == "answer":
        from bothways.evaluation.answering import likeliest_sentence
        from bothways.tasks.answer_reading import AnswerExample

        return [likeliest_sentence(AnswerExample(e["text"], e["pair"])).text for e in test]
    counts: dict[str, Counter[str]] = {}
    for each in train:
        for word, tag in zip(each["words"].split("\n"), each["tags"].split("\n"), strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    usual = sum(counts.values(), Counter()).most_common(1)[0][0]
    return [
        [
            counts[word].most_common(1)[0][0] if word in counts else usual
            for word in each["words"].split("\n")
        ]
        for each in test
    ]


def _overlap(one: str, other: str) -> float:
    left, right = set(one.lower().split()), set(other.lower().split())
    return len(left & right) / max(len(left | right), 1)
