"""`bothways predict --labels`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bothways.inference.model import load
from tests.cli.command import Command
from tests.inference.nli import save_nli
from tests.training.tiny import labels

TOPICS = ("great", "dull", "long story")
TEXTS = ["the film was lovely", "a very long story ended", "it was poor"]
TEMPLATE = "it was {}"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_nli(tmp_path_factory.mktemp("nli"))


def test_labels_that_were_not_trained(published: Path, bothways: Command, tmp_path: Path) -> None:
    data = tmp_path / "texts.csv"
    data.write_text("\n".join(["text,label", *(f"{text},x" for text in TEXTS)]), encoding="utf-8")
    output = tmp_path / "out.jsonl"
    words = ["--model", published, "--input", data, "--labels", ",".join(TOPICS)]
    done = bothways("predict", *words, "--template", TEMPLATE, "--output", output, "--json")
    assert (done.json["count"], done.json["ledger"]["texts"]) == (3, 9)
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [line["line"] for line in lines] == [2, 3, 4]
    expected = load(published).predict_zero_shot(TEXTS, TOPICS, template=TEMPLATE)
    assert [line["label"] for line in lines] == labels(expected)
    words = ["--model", published, "--input", data, "--multi-label"]
    bothways.fails("predict", *words, parts=["--labels"], code=2)


def test_columns_of_the_pairs_that_were_learned_are_not_asked_for(
    published: Path, bothways: Command, tmp_path: Path
) -> None:
    data = tmp_path / "texts.csv"
    data.write_text("premise,hypothesis\ngreat,dull\n", encoding="utf-8")
    words = ["predict", "--model", published, "--input", data, "--labels", "good,bad"]
    bothways.fails(*words, parts=["these are pairs of texts"], code=2)
    assert bothways(*words, "--text", "premise").lines[0]["line"] == 2
