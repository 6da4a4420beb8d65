"""`bothways quantize`: what it writes, what then uses it, when layers go back, its refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bothways.errors import CheckpointError
from bothways.inference import int8_files
from bothways.inference.int8 import largest_exact
from bothways.inference.int8_layers import quantised
from bothways.inference.model import load
from bothways.tasks.classify import label_results
from tests.cli.command import Command

pytestmark = pytest.mark.skipif(largest_exact() == 0, reason="no exact product of int8 here")

TEXTS = ["the film was great", "it was a dull story", "a very long fine film", "poor"]
EVERY_GROUP = 8  # four in each of two layers


@pytest.fixture(scope="module")
def int8(classifier: Path, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classifier in int8, in a folder of its own."""
    from bothways.cli.main import main
    from tests.cli.command import undisturbed

    output = tmp_path_factory.mktemp("int8") / "model"
    words = ["quantize", "--model", classifier, "--data", examples / "test.csv"]
    with undisturbed():
        assert main([str(word) for word in [*words, "--max-drop", "50", "--output", output]]) == 0
    return output


def facts(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "bothways.json").read_text("utf-8"))["int8"]
    return found


def test_the_float_weights_stay_and_the_numbers_are_written_down(
    int8: Path, classifier: Path
) -> None:
    assert (int8 / "model.safetensors").read_bytes() == (
        classifier / "model.safetensors"
    ).read_bytes()
    tensors = load_file(int8 / "int8.safetensors")
    assert {str(each.dtype) for each in tensors.values()} == {"torch.int8", "torch.float32"}
    found = facts(int8)
    assert (found["metric"], found["examples"], found["groups"]) == ("accuracy", 24, EVERY_GROUP)
    assert found["in_float"] == []
    assert float(str(found["times_faster"])) > 0
    card = (int8 / "README.md").read_text("utf-8")
    assert card.count("## Int8\n") == 1
    assert str(found["sentence"])[1:] in card
    assert "## Labels" in card


def test_the_drop_is_that_of_the_two_models(
    bothways: Command, int8: Path, classifier: Path, examples: Path
) -> None:
    found = facts(int8)
    words = ("evaluate", "--data", examples / "test.csv", "--json", "--model")
    scores = [
        bothways(*words, folder).json["metrics"]["accuracy"]["value"]
        for folder in (classifier, int8)
    ]
    assert [found["exact"]["value"], found["int8"]["value"]] == scores  # type: ignore[index]
    drop = found["drop"]["value"]  # type: ignore[index]
    assert drop == pytest.approx(100 * (scores[0] - scores[1]))


def test_what_runs_in_int8_says_so(bothways: Command, int8: Path, examples: Path) -> None:
    told = f"{EVERY_GROUP} of {EVERY_GROUP} groups of layers run in int8; accuracy"
    words = ("--model", int8, "--input", examples / "test.csv")
    assert told in bothways("predict", *words).err
    assert told in bothways("evaluate", "--model", int8, "--data", examples / "test.csv").err
    assert told in bothways("inspect", int8).out
    assert len(bothways("inspect", int8, "--json").json["int8"]["layers"]) == 12
    exact = bothways("predict", *words, "--precision", "float32")
    assert "int8" not in exact.err


def test_load_takes_int8_unless_float_is_asked_for(int8: Path, classifier: Path) -> None:
    model, exact = load(int8), load(int8, dtype=torch.float32)
    assert len(quantised(model.encoder)) == 12
    assert quantised(exact.encoder) == {}
    wanted = load(classifier).embed(TEXTS).vectors
    assert np.array_equal(exact.embed(TEXTS).vectors, wanted)
    found = model.embed(TEXTS).vectors
    assert not np.array_equal(found, wanted)
    assert np.allclose(found, wanted, atol=0.1)
    assert model.bit_invariant
    alone = np.concatenate([model.embed([text]).vectors for text in TEXTS])
    assert np.array_equal(alone, found)


def test_saving_keeps_it_and_fine_tuning_does_not(
    bothways: Command, int8: Path, examples: Path, tmp_path: Path
) -> None:
    load(int8).save(tmp_path / "again")
    again = load(tmp_path / "again")
    assert facts(tmp_path / "again") == facts(int8)
    assert np.array_equal(again.embed(TEXTS).vectors, load(int8).embed(TEXTS).vectors)
    load(int8, dtype=torch.float32).save(tmp_path / "float")
    assert not (tmp_path / "float" / "int8.safetensors").exists()
    words = ("finetune", "--model", int8, "--train", examples / "train.csv", "--epochs", "1")
    bothways(*words, "--output", tmp_path / "tuned")
    assert not (tmp_path / "tuned" / "int8.safetensors").exists()
    assert "int8" not in json.loads((tmp_path / "tuned" / "bothways.json").read_text("utf-8"))


@pytest.mark.usefixtures("unchecked")
def test_export_takes_the_float_weights(bothways: Command, int8: Path, tmp_path: Path) -> None:
    found = bothways(
        "export", "--model", int8, "--to", "torch-export", "--output", tmp_path / "graph", "--json"
    ).json
    assert found["parity"]["largest_difference"] < 1e-4
    assert not (tmp_path / "graph" / "int8.safetensors").exists()


def test_codes_of_other_weights_are_refused(int8: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(int8, tmp_path / "model")
    tensors = load_file(folder / "int8.safetensors")
    name = "layers.1.feedforward.output.codes"
    save_file({**tensors, name: tensors[name].neg()}, folder / "int8.safetensors")
    with pytest.raises(CheckpointError, match=r"layers\.1\.feedforward\.output.*replaced"):
        load(folder)
    del tensors[name]
    save_file(tensors, folder / "int8.safetensors")
    with pytest.raises(CheckpointError, match="does not fit"):
        load(folder)
    (folder / "int8.safetensors").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match="truncated or corrupt"):
        load(folder)


@pytest.mark.skipif(largest_exact() < 127, reason="weights of 8 bits saturate here")
def test_weights_that_would_saturate_do_not_run(
    int8: Path, classifier: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(int8_files, "largest_exact", lambda: 64)
    model = load(int8)
    assert quantised(model.encoder) == {}
    assert "--weight-bits 7" in caplog.text
    wanted = load(classifier).embed(TEXTS).vectors
    assert np.array_equal(model.embed(TEXTS).vectors, wanted)


def test_seven_bits_run_on_processors_that_saturate(
    bothways: Command,
    classifier: Path,
    examples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("--model", classifier, "--data", examples / "test.csv", "--output", tmp_path / "model")
    bothways("quantize", *words, "--max-drop", "50", "--weight-bits", "7")
    monkeypatch.setattr(int8_files, "largest_exact", lambda: 64)
    assert len(quantised(load(tmp_path / "model").encoder)) == 12


def test_layers_return_to_float_where_the_drop_is_too_large(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    texts = tmp_path / "texts.txt"
    rows = (examples / "test.csv").read_text("utf-8").splitlines()[1:]
    texts.write_text("\n".join(row.split(",")[0] for row in rows), encoding="utf-8")
    words = ("quantize", "--model", tiny, "--data", texts, "--json")
    whole = bothways(*words, "--output", tmp_path / "whole", "--max-drop", "50").json
    assert whole["metric"] == "cosine"
    assert whole["exact"]["value"] == pytest.approx(1.0, abs=1e-6)
    assert whole["in_float"] == []
    allowed = whole["drop"]["value"] / 2
    part = bothways(*words, "--output", tmp_path / "part", "--max-drop", allowed).json
    assert 0 < len(part["in_float"]) < EVERY_GROUP
    assert part["drop"]["high"] <= allowed < whole["drop"]["high"]
    running = quantised(load(tmp_path / "part").encoder)
    assert not set(part["in_float"]) & set(running)
    # What was judged is what the folder gives.
    lines = texts.read_text("utf-8").splitlines()
    exact = load(tiny).embed(lines, normalize=True).vectors
    found = load(tmp_path / "part").embed(lines, normalize=True).vectors
    cosine = np.einsum("nd,nd->n", exact, found).mean()
    assert part["int8"]["value"] == pytest.approx(cosine, abs=1e-6)
    message = bothways.fails(*words, "--output", tmp_path / "none", "--max-drop", "0")
    assert "no layer can be in int8" in message
    assert "--max-drop" in message
    assert not (tmp_path / "none").exists()


def test_beside_the_float_weights_and_once(
    bothways: Command, classifier: Path, examples: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(classifier, tmp_path / "model")
    words = ("quantize", "--model", folder, "--data", examples / "test.csv", "--max-drop", "50")
    bothways(*words)
    before = load(folder).predict(TEXTS)
    assert len(quantised(load(folder).encoder)) == 12
    bothways.fails(*words, parts=["int8.safetensors already", "--overwrite"])
    bothways(*words, "--overwrite")
    assert (folder / "README.md").read_text("utf-8").count("## Int8\n") == 1
    again = load(folder).predict(TEXTS)
    assert [each.label for each in label_results(again)] == [
        each.label for each in label_results(before)
    ]


def test_few_examples_are_said_to_show_little(
    bothways: Command, classifier: Path, examples: Path, tmp_path: Path
) -> None:
    words = ("quantize", "--model", classifier, "--data", examples / "test.csv", "--max-drop", "50")
    done = bothways(*words, "--output", tmp_path / "model", "--json").json
    if done["drop"]["low"] is None:  # no resample differs
        assert "up to 14.25 in 100" in done["doubts"][0]
    else:
        assert done["drop"]["high"] > done["drop"]["value"]


@pytest.mark.parametrize(
    ("more", "code", "parts"),
    [
        (("--max-drop", "-1"), 2, ["--max-drop is -1", "0 to 100"]),
        (("--weight-bits", "4"), 2, ["--weight-bits is 4", "8 or 7"]),
        (("--device", "cuda"), 2, ["--device is cuda", "CPU"]),
        (("--label", "labels"), 1, ["'labels'", "'label'"]),
        (("--head", "topics"), 2, ["no head 'topics'"]),
        (("--max-length", "99"), 2, ["max_length is 99"]),
    ],
)
def test_refusals(
    bothways: Command,
    classifier: Path,
    examples: Path,
    tmp_path: Path,
    more: tuple[str, ...],
    code: int,
    parts: list[str],
) -> None:
    words = ("quantize", "--model", classifier, "--data", examples / "test.csv")
    bothways.fails(*words, "--output", tmp_path / "model", *more, code=code, parts=parts)
    assert not (tmp_path / "model").exists()


@pytest.mark.usefixtures("unchecked")
def test_more_refusals(
    bothways: Command, classifier: Path, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    data = ("--data", examples / "test.csv")
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "notes.txt").write_text("mine", encoding="utf-8")
    bothways.fails("quantize", "--model", classifier, *data, "--output", taken, parts=["not empty"])
    empty = tmp_path / "empty.txt"
    empty.write_text("", encoding="utf-8")
    bothways.fails("quantize", "--model", tiny, "--data", empty, "--output", tmp_path / "a")
    bothways.fails("quantize", "--model", "org/no-model", *data, code=2, parts=["--output"])
    graph = tmp_path / "graph"
    bothways("export", "--model", classifier, "--to", "onnx", "--output", graph)
    bothways.fails(
        "quantize", "--model", graph, *data, "--output", tmp_path / "b", code=2, parts=["exported"]
    )
