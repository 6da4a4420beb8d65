"""Pairs of sentences: does the second follow from the first, and how alike are they."""

from __future__ import annotations

from pathlib import Path

import bothways as library
from bothways.metrics.similarity import cosine, spearman
from tests.cli.command import Command


def head_of(source: Path, target: Path, lines: int) -> Path:
    """The header and the first rows of a table."""
    with source.open(encoding="utf-8", newline="") as file:
        target.write_text("".join(file.readline() for _ in range(lines + 1)), encoding="utf-8")
    return target


def test_a_model_of_pairs_reads_pairs(
    bothways: Command, minilm: Path, real_data: Path, tmp_path: Path
) -> None:
    train = head_of(real_data / "nli_counterfactual" / "train.tsv", tmp_path / "train.tsv", 300)
    dev = head_of(real_data / "nli_counterfactual" / "dev.tsv", tmp_path / "dev.tsv", 90)
    model = tmp_path / "model"
    found = bothways(
        *("finetune", "--model", minilm, "--train", train, "--dev", dev, "--freeze", "encoder"),
        *("--learning-rate", "3e-3", "--epochs", "8", "--output", model, "--json"),
    ).json
    assert found["count"] == 90
    judged = bothways("evaluate", "--model", model, "--data", dev, "--json").json
    assert judged["metrics"] == found["metrics"]
    lines = bothways("predict", "--model", model, "--input", dev).lines
    assert list(lines[0]["probabilities"]) == ["contradiction", "entailment", "neutral"]
    assert {line["label"] for line in lines} > {"entailment"}
    loaded = library.load(model)
    rows = [line.split("\t") for line in dev.read_text(encoding="utf-8").splitlines()[1:]]
    results = loaded.predict([(row[0], row[1]) for row in rows])
    assert [getattr(result, "label", "") for result in results] == [each["label"] for each in lines]
    swapped = loaded.predict([(row[1], row[0]) for row in rows])
    assert list(swapped) != list(results)
    (tmp_path / "single.tsv").write_text("text\nA man rides.\n", encoding="utf-8")
    bothways.fails(
        *("predict", "--model", model, "--input", tmp_path / "single.tsv"),
        parts=["trained on pairs of texts", "single texts"],
    )


def test_vectors_of_the_real_encoder_order_sentences_as_people_do(
    minilm: Path, real_data: Path
) -> None:
    """The published score of this encoder on the test pairs of the STS benchmark."""
    lines = (real_data / "stsb" / "sts-test.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert len(rows) == 1379
    model = library.load(minilm)
    first, second = (model.embed([row[at] for row in rows]).vectors for at in (5, 6))
    score = spearman([float(row[4]) for row in rows], cosine(first, second))
    assert round(score, 3) == 0.820
