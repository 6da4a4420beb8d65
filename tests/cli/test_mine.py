"""`bothways mine`, and `evaluate` for embedders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import LEDGER_KEYS, Command
from tests.training.test_embed import write_pairs


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("the film\nit ended\nThe  film\nthe great film\n", encoding="utf-8")
    return path


@pytest.fixture
def retrieval(tmp_path: Path) -> list[str | Path]:
    """The flags of a retrieval set."""
    files = {
        "corpus": 'x.jsonl\n{"_id": "1", "text": "the film"}\n{"_id": "2", "text": "it ended"}\n',
        "queries": 'x.jsonl\n{"_id": "a", "text": "film"}\n{"_id": "b", "text": "ended"}\n',
        "qrels": "x.tsv\na\t1\t1\nb\t2\t1\n",
    }
    flags: list[str | Path] = []
    for name, content in files.items():
        suffix, _, body = content.partition("\n")
        path = tmp_path / f"{name}{suffix[1:]}"
        path.write_text(body, encoding="utf-8")
        flags += [f"--{name}", path]
    return flags


def test_mined_negatives_are_learned_from(bothways: Command, tiny: Path, tmp_path: Path) -> None:
    pairs, mined = write_pairs(tmp_path / "pairs.jsonl", 20), tmp_path / "mined.jsonl"
    words = ["mine", "negatives", "--model", tiny, "--input", pairs, "--output", mined]
    done = bothways(*words, "--count", "2", "--json").json
    assert (done["count"], done["negatives"], done["without"]) == (20, 40, 0)
    assert set(done["ledger"]) == LEDGER_KEYS
    found = lines(mined)
    assert list(found[0]) == ["anchor", "positive", "negative_1", "negative_2", "cosines"]
    own = {(line["anchor"], line["positive"]) for line in found}
    assert not any((line["anchor"], line["negative_1"]) in own for line in found)
    learned = bothways(
        *("finetune", "--task", "embed", "--model", tiny, "--train", mined, "--epochs", "1"),
        *("--output", tmp_path / "model", "--loss-function", "triplet"),
    )
    assert "20 pairs with 40 hard negatives" in learned.err


def test_negatives_of_queries_come_from_the_corpus(
    bothways: Command, tiny: Path, tmp_path: Path, retrieval: list[str | Path]
) -> None:
    mined = tmp_path / "mined.jsonl"
    bothways("mine", "negatives", "--model", tiny, *retrieval, "--output", mined)
    assert [(line["anchor"], line["negative_1"]) for line in lines(mined)] == [
        ("film", "it ended"),
        ("ended", "the film"),
    ]


def test_duplicates_and_paraphrases(
    bothways: Command, tiny: Path, tmp_path: Path, texts: Path
) -> None:
    """Copies are duplicates, and no paraphrases."""
    out = tmp_path / "out.jsonl"
    words = ["--model", tiny, "--input", texts, "--output", out]
    assert bothways("mine", "duplicates", *words, "--threshold", "1", "--json").json["count"] == 1
    (line,) = lines(out)
    assert (line["number"], line["earlier_number"], line["cosine"]) == (3, 1, 1.0)
    bothways("mine", "paraphrases", *words, "--overwrite", "--threshold", "-1", "--top", "1")
    found = lines(out)
    assert [line["sentence2"] for line in found] == ["it ended", "the great film"]
    learned = ["finetune", "--task", "embed", "--model", tiny, "--train", out, "--epochs", "1"]
    assert "2 pairs" in bothways(*learned, "--output", tmp_path / "model").err


def test_an_encoder_is_judged_by_its_vectors(
    bothways: Command, tiny: Path, tmp_path: Path, retrieval: list[str | Path]
) -> None:
    found = bothways("evaluate", "--model", tiny, *retrieval, "--json").json
    assert (found["task"], found["count"], found["ledger"]["texts"]) == ("embed", 2, 4)
    assert list(found["metrics"]) == ["ndcg_at_10", "mrr_at_10", "recall_at_100"]
    scored = write_pairs(tmp_path / "scored.jsonl", 20, scored=True)
    words = ["evaluate", "--task", "embed", "--model", tiny, "--data", scored, "--json"]
    assert list(bothways(*words, "--label", "score").json["metrics"]) == ["spearman", "pearson"]
    assert "ndcg_at_10" in bothways(*words).json["metrics"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["mine", "negatives"], "--input, a file of pairs"),
        (["mine", "negatives", "--input", "a.csv", "--count", "0"], "--count is 0"),
        (["mine", "negatives", "--qrels", "a.tsv"], "needs --corpus, --queries"),
        (["mine", "duplicates", "--input", "a.csv", "--threshold", "95"], "cosine is from -1 to 1"),
        (["mine", "paraphrases", "--input", "a.csv", "--top", "0"], "--top is 0"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    words: list[str], part: str, bothways: Command, tiny: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    bothways.fails(*words, "--model", tiny, "--output", output, parts=[part], code=2)
    assert not output.exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "give --data"),
        (["--corpus", "c"], "a retrieval set: --queries, --qrels"),
        (["--data", "d", "--corpus", "c"], "give --data or a retrieval set"),
    ],
)
def test_one_thing_is_judged_on(words: list[str], part: str, bothways: Command, tiny: Path) -> None:
    bothways.fails("evaluate", "--model", tiny, *words, parts=[part], code=2)
