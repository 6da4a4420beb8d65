"""Movie reviews, `label text` lines in latin-1: fine-tune, judge, predict, load elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

import bothways as library
from bothways.cli.main import main
from bothways.tasks.classify import label_results
from tests.cli.command import Command, undisturbed

# Probabilities from the same weights by other code, in float32.
PARITY = 1e-5
TRAIN, TEST = 320, 160


@pytest.fixture(scope="module")
def files(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt and test.txt: every so many lines, both labels, bytes as they are."""
    whole = (real_data / "mr" / "rt-polarity.all").read_bytes()
    lines = [line + b"\n" for line in whole.split(b"\n")[:-1]]
    folder = tmp_path_factory.mktemp("reviews")
    step = len(lines) // (TRAIN + TEST)
    some = lines[: step * (TRAIN + TEST) : step]
    beyond_ascii = [line for line in lines if max(line) > 127][:8]
    test = some[::3]
    train = [line for number, line in enumerate(some) if number % 3]
    (folder / "train.txt").write_bytes(b"".join(train + beyond_ascii))
    (folder / "test.txt").write_bytes(b"".join(test + beyond_ascii[-2:]))
    return folder


def lines_of(file: Path) -> list[str]:
    """The lines of a latin-1 file; characters that other encodings end lines at stay in them."""
    return file.read_bytes().decode("latin-1").split("\n")[:-1]


def words(model: Path, files: Path, output: Path) -> list[str]:
    given = ["finetune", "--task", "classify", "--model", str(model)]
    given += ["--train", str(files / "train.txt"), "--format", "label-text"]
    given += ["--epochs", "2", "--batch-size", "16", "--learning-rate", "2e-4", "--seed", "2"]
    return [*given, "--max-length", "48", "--output", str(output)]


@pytest.fixture(scope="module")
def trained(minilm: Path, files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model folder, made by one command."""
    output = tmp_path_factory.mktemp("trained") / "reviews"
    more = ["--test", str(files / "test.txt"), "--encoding", "latin-1", "--threads", "1"]
    with undisturbed():
        assert main([*words(minilm, files, output), *more]) == 0
    return output


def test_without_its_encoding_the_file_is_refused_with_the_lines(
    bothways: Command, minilm: Path, files: Path, tmp_path: Path
) -> None:
    message = bothways.fails(
        *words(minilm, files, tmp_path / "out"),
        parts=["train.txt", "not utf-8", "line 321", "--encoding latin-1"],
    )
    assert "byte 0x" in message
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_the_folder_says_what_it_is_and_how_good(trained: Path) -> None:
    report = json.loads((trained / "report.json").read_text(encoding="utf-8"))
    accuracy = report["metrics"]["accuracy"]
    assert accuracy["value"] > 0.6
    assert accuracy["low"] < accuracy["value"] < accuracy["high"]
    assert report["baselines"]["majority"]["accuracy"]["value"] < 0.6
    card = (trained / "README.md").read_text(encoding="utf-8")
    assert "`train.txt`" in card
    assert "| test |" in card
    assert (trained / "report.html").stat().st_size > 10_000


def test_evaluate_predict_and_the_library_agree(
    bothways: Command, trained: Path, files: Path
) -> None:
    """Encoding, format and longest length are not given again; they are stored with the model."""
    given = ["--model", trained]
    judged = bothways("evaluate", *given, "--data", files / "test.txt", "--json").json
    lines = bothways("predict", *given, "--input", files / "test.txt").lines
    assert judged["ledger"]["texts_cut"] > 0
    raw = lines_of(files / "test.txt")
    truth, texts = zip(*(line.split(" ", 1) for line in raw), strict=True)
    assert len(lines) == judged["count"] == len(raw)
    assert [line["line"] for line in lines] == list(range(1, len(raw) + 1))
    labels = [line["label"] for line in lines]
    right = sum(label == true for label, true in zip(labels, truth, strict=True))
    assert judged["metrics"]["accuracy"]["value"] == right / len(raw)
    results = label_results(library.load(trained).predict(list(texts)))
    assert [result.label for result in results] == labels
    assert [result.probability for result in results] == pytest.approx(
        [line["probability"] for line in lines], abs=PARITY
    )
    report = json.loads((trained / "report.json").read_text(encoding="utf-8"))
    assert report["metrics"]["accuracy"]["value"] == right / len(raw)


def test_transformers_reads_the_folder_and_says_the_same(trained: Path, files: Path) -> None:
    texts = [line.split(" ", 1)[1] for line in lines_of(files / "test.txt")[:40]]
    pipeline: Any = transformers.pipeline
    classify = pipeline("text-classification", model=str(trained), top_k=None, device="cpu")
    theirs = classify(texts, truncation=True)  # to the length that the folder says
    ours = label_results(library.load(trained).predict(texts))
    for expected, result in zip(theirs, ours, strict=True):
        scores = {each["label"]: each["score"] for each in expected}
        assert scores == pytest.approx(result.probabilities, abs=PARITY)


def test_its_vectors_are_still_those_of_an_embedder(
    bothways: Command, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text("a fine film\na dull film\n", encoding="utf-8")
    done = bothways(
        *("embed", "--model", trained, "--input", tmp_path / "texts.txt"),
        *("--output", tmp_path / "x.npy", "--json"),
    )
    assert (done.json["texts"], done.json["dimension"]) == (2, 384)


def test_inspect_says_that_transformers_gives_the_same_numbers(
    bothways: Command, trained: Path
) -> None:
    told = bothways("inspect", trained).out
    assert "in transformers: BertForSequenceClassification, same numbers" in told
    assert "2: 0, 1" in told
