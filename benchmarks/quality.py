"""Quality beside the recipes that people use: same encoder, same data, epochs, batch and rate.

    python benchmarks/quality.py --only TASK --seed 0 --side ours|reference [--threads 2]
    python benchmarks/quality.py --json          what is in the table, and the paired differences

Each run appends one row to docs/measurements/quality.json, and a row that exists is not made again.
Tasks take at most 3,000 training and 1,000 test examples, drawn once for all sides and seeds. Rows
hold what each test example contributed, so that two sides can be compared pair by pair; a metric
is computed from these, the same way for both sides. The reference is the Trainer of transformers,
or sentence-transformers' own; what each kind of task does there is in `quality_reference.py`.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measure import data_folder, machine, minilm

TABLE = Path(__file__).resolve().parents[1] / "docs" / "measurements" / "quality.json"
MOST = {"train": 3000, "test": 1000}
RESAMPLES = 1000
SIDES = ("ours", "reference")

# One example of a data set: text, pair and label, or words and tags, or query, gains and so on.
Example = dict[str, Any]
# What a test example contributes to the metric: a number, or a few that are summed.
Score = float | list[float]


@dataclass(frozen=True)
class Job:
    """One row of the comparison.

    Attributes:
        kind: what is done: classify, regress, embed, tag or retrieve.
        metric: one of `METRICS`.
        files: training and test file below the data folder; one file is cut, 9 to 1.
        columns: our names of the fields -> columns of the files.
        options: how the files are read.
        epochs, batch_size, learning_rate, max_length: of both sides.
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


TOPIC = {"text": "text", "label": "category"}
STS = {"text": "6", "pair": "7", "label": "5"}
STS_FILES = ("stsb/sts-train.csv", "stsb/sts-test.csv")
STS_OPTIONS = {"format": "tsv", "header": False, "quoting": False}
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
    "cranfield": Job(
        "retrieve",
        "ndcg_at_10",
        ("cranfield/cran.all.1400", "cranfield/cran.qry", "cranfield/cranqrel"),
        {},
        epochs=0,
        max_length=256,
    ),
}


def _ratio(columns: np.ndarray) -> float:
    """2 right / (predicted + true), or right / all: the sums of the columns of counts."""
    right, *others = columns.sum(0)
    return float(len(others) * right / max(sum(others), 1))


def _spearman(columns: np.ndarray) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(columns[:, 0], columns[:, 1])[0])


# Name -> the value that the contributions of some examples make together.
METRICS: dict[str, Callable[[np.ndarray], float]] = {
    "accuracy": lambda scores: float(scores.mean()),
    "ndcg_at_10": lambda scores: float(scores.mean()),
    "spearman": _spearman,
    "f1_strict": _ratio,
    "accuracy_tokens": _ratio,
}


def examples(job: Job) -> tuple[list[Example], list[Example]]:
    """Training and test examples, the same for every side and seed."""
    from bothways.data.options import FileOptions

    def read(name: str) -> list[Example]:
        rows = FileOptions(**job.options).rows(data_folder() / name)
        return [{ours: row.cells[theirs] for ours, theirs in job.columns.items()} for row in rows]

    draw = random.Random(0)
    parts = [read(name) for name in job.files]
    if len(parts) == 1:
        whole = draw.sample(parts[0], len(parts[0]))
        cut = len(whole) * 9 // 10
        parts = [whole[:cut], whole[cut:]]
    train, test = (
        draw.sample(part, min(len(part), most))
        for part, most in zip(parts, MOST.values(), strict=True)
    )
    return train, test


def trivial(job: Job, train: Sequence[Example], test: Sequence[Example]) -> list[Score]:
    """What is easily had: the majority, shared words, each word's commonest tag."""
    if job.kind == "classify":
        best = Counter(each["label"] for each in train).most_common(1)[0][0]
        return [float(each["label"] == best) for each in test]
    if job.kind in ("regress", "embed"):

        def overlap(one: str, other: str) -> float:
            left, right = set(one.lower().split()), set(other.lower().split())
            return len(left & right) / max(len(left | right), 1)

        return [[overlap(each["text"], each["pair"]), float(each["label"])] for each in test]
    counts: dict[str, Counter[str]] = {}
    for each in train:
        for word, tag in zip(each["words"].split("\n"), each["tags"].split("\n"), strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    usual = sum(counts.values(), Counter()).most_common(1)[0][0]
    said = [
        [
            counts[word].most_common(1)[0][0] if word in counts else usual
            for word in each["words"].split("\n")
        ]
        for each in test
    ]
    return tag_scores(job, said, test)


def tag_scores(job: Job, said: Sequence[Sequence[str]], test: Sequence[Example]) -> list[Score]:
    """Right, predicted and true spans of each sentence; of words, right and all."""
    scores: list[Score] = []
    for tags, each in zip(said, test, strict=True):
        truth = each["tags"].split("\n")
        if job.metric == "f1_strict":
            from seqeval.metrics.sequence_labeling import get_entities

            ours, theirs = set(get_entities(list(tags))), set(get_entities(truth))
            scores.append([len(ours & theirs), len(ours), len(theirs)])
        else:
            right = sum(one == other for one, other in zip(tags, truth, strict=True))
            scores.append([right, len(truth)])
    return scores


@dataclass(frozen=True)
class Outcome:
    """What a side made of a job: contributions of the test examples, and seconds."""

    scores: list[Score]
    seconds_train: float
    seconds_predict: float


def write_examples(job: Job, some: Sequence[Example], path: Path) -> Path:
    """A file that both the command and a person can read."""
    if job.kind == "tag":
        sentences = (
            "\n".join(
                f"{word}\t{tag}"
                for word, tag in zip(
                    each["words"].split("\n"), each["tags"].split("\n"), strict=True
                )
            )
            for each in some
        )
        path = path.with_suffix(".conll")
        path.write_text("\n\n".join(sentences) + "\n", "utf-8")
        return path
    path = path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(each) + "\n" for each in some), "utf-8")
    return path


def ours(job: Job, train: Sequence[Example], test: Sequence[Example], seed: int) -> Outcome:
    """`finetune`, `load`, `predict`."""
    import bothways
    from bothways.config import CommonSettings
    from bothways.data.options import FileOptions
    from bothways.training.settings import DataSettings, LoopSettings, OptimSettings

    folder = Path(tempfile.mkdtemp())
    files = {
        name: write_examples(job, some, folder / name)
        for name, some in (("train", train), ("test", test))
    }
    columns = {
        flag: column
        for flag, column in (("text", "text"), ("text_pair", "pair"), ("label", "label"))
        if column in job.columns
    }
    settings = bothways.FinetuneSettings(
        str(minilm()),
        folder / "model",
        DataSettings(files["train"], **columns),
        task=job.kind,
        optim=OptimSettings(learning_rate=(job.learning_rate,)),
        loop=LoopSettings(job.epochs, job.batch_size, checkpoint_every=10**9),
        common=CommonSettings(seed=seed, max_length=job.max_length, device="cpu"),
    )
    start = time.perf_counter()
    bothways.finetune(settings)
    trained = time.perf_counter()
    model = bothways.load(folder / "model")
    assert model.task is not None
    found: Any = model.predict(model.task.read(FileOptions().rows(files["test"])))
    seconds = time.perf_counter() - trained
    scores: list[Score]
    if job.kind == "classify":
        scores = [float(f.label == each["label"]) for f, each in zip(found, test, strict=True)]
    elif job.kind == "tag":
        scores = tag_scores(job, [result.tags for result in found], test)
    else:
        scores = [[f.score, float(each["label"])] for f, each in zip(found, test, strict=True)]
    return Outcome(scores, trained - start, seconds)


def retrieve(job: Job, side: str) -> tuple[Outcome, list[Score]]:
    """Rankings of a retrieval set by vectors, without training; and by BM25."""
    from bothways.data.retrieval import read_retrieval_set
    from bothways.evaluation.retrieval import bm25
    from bothways.inference.nearest import nearest
    from bothways.metrics.ranking import scores_of_rankings
    from quality_reference import ENCODERS

    given = read_retrieval_set(*(data_folder() / name for name in job.files))
    names, asked = list(given.documents), list(given.answerable)
    documents = list(given.documents.values())
    questions = [given.queries[query] for query in asked]

    def ndcg(queries: Any, corpus: Any) -> list[Score]:
        _, best = nearest(queries, corpus, k=100)
        rankings = {q: [names[at] for at in row] for q, row in zip(asked, best, strict=True)}
        return [float(x) for x in scores_of_rankings(rankings, given.gains)[job.metric]]

    encode = ENCODERS[side](minilm(), job.max_length)
    start = time.perf_counter()
    scores = ndcg(encode(questions), encode(documents))
    seconds = time.perf_counter() - start
    return Outcome(scores, 0.0, seconds), ndcg(*bm25(questions, documents))


def run(name: str, seed: int, side: str) -> dict[str, Any]:
    """One row."""
    from quality_reference import REFERENCES

    job = JOBS[name]
    if job.kind == "retrieve":
        made, easy = retrieve(job, side)
    else:
        train, test = examples(job)
        easy = trivial(job, train, test)
        reference = REFERENCES.get(job.kind)
        if side == "ours" or reference is None:
            made = ours(job, train, test, seed)
        else:
            made = Outcome(*reference(job, minilm(), train, test, seed))
    metric = METRICS[job.metric]
    value = np.asarray
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=TABLE.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "commit": commit.stdout.strip(),
        "machine": machine(),
        "task": name,
        "seed": seed,
        "side": side,
        "metric": job.metric,
        "value": round(metric(value(made.scores, dtype=float)), 5),
        "trivial": round(metric(value(easy, dtype=float)), 5),
        "seconds_train": round(made.seconds_train, 1),
        "seconds_predict": round(made.seconds_predict, 2),
        "scores": np.round(made.scores, 4).tolist(),
    }


def differences(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For each task: both sides' mean over seeds, and ours minus theirs, paired, 95 %."""
    found = {}
    for name in dict.fromkeys(row["task"] for row in rows):
        of = {
            side: {r["seed"]: r for r in rows if r["task"] == name and r["side"] == side}
            for side in SIDES
        }
        seeds = sorted(set(of["ours"]) & set(of["reference"]))
        if not seeds:
            continue
        metric = METRICS[JOBS[name].metric]
        pairs = [
            [np.asarray(of[side][seed]["scores"], dtype=float) for side in SIDES] for seed in seeds
        ]
        draw = np.random.default_rng(0)
        count = len(pairs[0][0])
        gains = []
        for _ in range(RESAMPLES):
            some = draw.integers(0, count, count)
            gains.append(np.mean([metric(one[some]) - metric(two[some]) for one, two in pairs]))
        low, high = np.quantile(gains, [0.025, 0.975])
        means = {side: float(np.mean([of[side][s]["value"] for s in seeds])) for side in SIDES}
        found[name] = {
            "metric": JOBS[name].metric,
            "seeds": len(seeds),
            **means,
            "trivial": of["ours"][seeds[0]]["trivial"],
            "difference": means["ours"] - means["reference"],
            "low": float(low),
            "high": float(high),
        }
    return found


def main() -> None:
    """Make the row that is asked for, or say what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=JOBS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", choices=SIDES, default="ours")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = json.loads(options.table.read_text("utf-8")) if options.table.exists() else []
    key = {"task": options.only, "seed": options.seed, "side": options.side}
    there = any(all(row[name] == value for name, value in key.items()) for row in rows)
    if options.only and not there:
        rows.append(run(options.only, options.seed, options.side))
        options.table.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(row) for row in rows)
        options.table.write_text(f"[\n{lines}\n]\n", "utf-8")
    if options.only:
        shown: Any = next(
            {name: value for name, value in row.items() if name != "scores"}
            for row in rows
            if all(row[name] == value for name, value in key.items())
        )
    else:
        shown = differences(rows)
    print(json.dumps(shown) if options.json else json.dumps(shown, indent=2))


if __name__ == "__main__":
    main()
