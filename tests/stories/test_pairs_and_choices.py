"""Reranking, multiple choice and relations: trained, judged, used, and read by other libraries."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from sentence_transformers import CrossEncoder

import bothways as library
from tests.cli.command import Command
from tests.training.tiny import GOOD, PLAIN, lines

# float32 scores; the libraries add in another order.
ATOL = 1e-5
QUICK = ("--epochs", "2", "--learning-rate", "1e-2", "--batch-size", "16", "--json")


def passage(draw: random.Random, word: str | None) -> str:
    words = draw.choices(PLAIN, k=4) + ([word] if word else [])
    draw.shuffle(words)
    return " ".join(words)


@pytest.fixture
def ranked(tmp_path: Path) -> Path:
    """Queries of a word; the passages that have it are relevant."""
    draw = random.Random(0)
    rows = ["query\tpassage\tlabel"]
    for number in range(24):
        word = GOOD[number % 4]
        rows += [f"{word} {number}\t{passage(draw, word)}\t2"]
        rows += [
            f"{word} {number}\t{passage(draw, other)}\t0" for other in (None, GOOD[number % 3])
        ]
    (tmp_path / "ranked.tsv").write_text("\n".join(rows), encoding="utf-8")
    return tmp_path


def test_a_reranker_scores_as_a_cross_encoder(bothways: Command, tiny: Path, ranked: Path) -> None:
    data, model = ranked / "ranked.tsv", ranked / "model"
    words = ("finetune", "--task", "rerank", "--model", tiny, "--train", data, "--output", model)
    found = bothways(*words, "--ranking-loss", "listwise", "--dev-share", "0.25", *QUICK).json
    assert set(found["metrics"]) == {"ndcg_at_10", "mrr_at_10"}
    assert found["count"] == 18  # whole queries are held out
    scores = [
        line["score"] for line in bothways("predict", "--model", model, "--input", data).lines
    ]
    pairs = [tuple(row.split("\t")[:2]) for row in data.read_text().splitlines()[1:]]
    theirs = CrossEncoder(str(model), device="cpu").predict(pairs)
    assert theirs.tolist() == pytest.approx(scores, abs=ATOL)
    assert library.load(model).predict(pairs)[0].score == pytest.approx(scores[0], abs=ATOL)  # type: ignore[union-attr]


def test_lists_stay_whole_in_any_number_of_parts(
    bothways: Command, tiny: Path, ranked: Path
) -> None:
    losses = []
    for parts in (1, 3):
        model = ranked / f"model{parts}"
        words = ("finetune", "--task", "rerank", "--model", tiny, "--train", ranked / "ranked.tsv")
        still = [("--hidden-dropout", 0), ("--attention-dropout", 0), ("--classifier-dropout", 0)]
        flat = [word for pair in still for word in pair]
        listwise = ("--ranking-loss", "listwise", "--accumulate", parts, "--log-every", 1)
        bothways(*words, "--output", model, *listwise, *flat, *QUICK)
        losses.append([line["loss"] for line in lines(model, "train")])
    assert len(losses[0]) > 2
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_reranker_learns_from_a_retrieval_set(
    bothways: Command, tiny: Path, tmp_path: Path
) -> None:
    draw = random.Random(0)
    documents = [passage(draw, GOOD[number % 4]) for number in range(40)]
    queries = [f"{GOOD[number % 4]} {draw.choice(PLAIN)}" for number in range(16)]
    for name, texts in (("corpus", documents), ("queries", queries)):
        rows = [{"_id": f"{name[0]}{n}", "text": text} for n, text in enumerate(texts)]
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    judged = [f"q{q} c{q + step} {int(step % 4 == 0)}" for q in range(16) for step in (0, 1, 8)]
    (tmp_path / "qrels").write_text("\n".join(judged), encoding="utf-8")
    given = [("--corpus", "corpus"), ("--queries", "queries"), ("--qrels", "qrels")]
    files = [word for flag, name in given for word in (flag, tmp_path / name)]
    words = ("finetune", "--task", "rerank", "--model", tiny, "--output", tmp_path / "model")
    done = bothways(*words, *files, "--dev-share", "0.25", *QUICK)
    assert "is no embedder" in done.err
    assert done.json["count"] == 12
    judged_again = bothways("evaluate", "--model", tmp_path / "model", *files, "--json").json
    assert judged_again["count"] == 48
    bothways.fails(
        *words, *files, "--candidates-from", tiny, "--overwrite", parts=["is no embedder"]
    )


def test_multiple_choice_is_that_of_transformers(
    bothways: Command, tiny: Path, tmp_path: Path
) -> None:
    draw = random.Random(0)
    rows: list[dict[str, Any]] = []
    for number in range(40):
        choices = [*draw.sample(PLAIN, 1 + number % 3), GOOD[number % 4]]
        draw.shuffle(choices)
        label = choices.index(GOOD[number % 4])
        rows.append({"question": passage(draw, None), "choices": choices, "label": label})
    data, model = tmp_path / "a.jsonl", tmp_path / "model"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("finetune", "--task", "multiple-choice", "--model", tiny, "--train", data)
    found = bothways(*words, "--dev", data, "--output", model, *QUICK).json
    assert found["metrics"]["accuracy"]["value"] > 0.5
    assert bothways("evaluate", "--model", model, "--data", data, "--json").json["count"] == 40
    results = bothways("predict", "--model", model, "--input", data).lines
    assert [len(each["probabilities"]) for each in results[:3]] == [2, 3, 4]
    theirs = transformers.AutoModelForMultipleChoice.from_pretrained(model).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    for row, result in zip(rows[:6], results, strict=False):
        pairs = [[row["question"]] * len(row["choices"]), row["choices"]]
        batch = tokenizer(*pairs, padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = theirs(**{name: value[None] for name, value in batch.items()}).logits
        assert logits.softmax(-1)[0].tolist() == pytest.approx(result["probabilities"], abs=ATOL)
        assert result["choice"] == row["choices"][result["index"]]


@pytest.mark.parametrize("state", ["entities", "cls"])
def test_relations_are_learned_and_kept(
    bothways: Command, tiny: Path, tmp_path: Path, state: str
) -> None:
    draw = random.Random(0)
    rows = []
    for number in range(40):
        pair = ["great", "dull"] if number % 2 else ["dull", "great"]
        around = [draw.choice(PLAIN) for _ in range(3)]
        rows.append(
            f"Liking(e{1 + number % 2},e{2 - number % 2})\t{around[0]} <e1> {pair[0]} </e1> "
            f"{around[1]} <e2> {pair[1]} </e2> {around[2]}"
        )
    data, model = tmp_path / "a.tsv", tmp_path / "model"
    data.write_text("\n".join(rows), encoding="utf-8")
    words = ("finetune", "--task", "relate", "--model", tiny, "--train", data, "--dev", data)
    found = bothways(*words, "--relation-state", state, "--output", model, *QUICK).json
    assert set(found["metrics"]) == {"macro_f1_official", "accuracy", "f1_macro", "loss"}
    judged = bothways("evaluate", "--model", model, "--data", data, "--json").json
    assert judged["metrics"] == found["metrics"]
    results = bothways("predict", "--model", model, "--input", data).lines
    right = [row.startswith(line["label"]) for row, line in zip(rows, results, strict=True)]
    assert sum(right) / len(right) == found["metrics"]["accuracy"]["value"]
    text = rows[0].split("\t")[1]
    (alone,) = library.load(model).predict([text])
    assert alone.probability == pytest.approx(results[0]["probability"], abs=ATOL)  # type: ignore[union-attr]
    (kind,) = json.loads((model / "config.json").read_text())["architectures"]
    assert kind == {"entities": "BertModel", "cls": "BertForSequenceClassification"}[state]
