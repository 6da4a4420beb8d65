"""Exported models give the numbers of the model that they come from, or refuse."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts, adapt, new_parts
from bothways.errors import CheckpointError, MissingExtraError, TaskError, UntrainedHeadError
from bothways.inference.embedding import sentence_vectors
from bothways.inference.engines import ENGINES
from bothways.inference.export import TOLERANCE, Graph, export
from bothways.inference.exported import ExportedEncoder
from bothways.inference.model import Model, load
from bothways.model.config import EncoderConfig
from bothways.model.layout import Batch, Layout
from bothways.model.sentence import Pool, SentenceDense, SentenceNormalize, SentenceVector
from bothways.tasks.classify import ClassifyTask
from bothways.tasks.registry import make_task
from bothways.tasks.results import as_dict
from tests.cli.command import Command, undisturbed
from tests.contracts.cases import CASES, change, make_encoder

pytestmark = pytest.mark.usefixtures("unchecked")

# float32, another order of operations; the weights of these models are wide.
SAME = 2e-5
TEXTS = ["great", "the film was dull and the story ended", "a very long fine film", "it was poor"]
EVERY_POOLING = Pool(["cls", "mean", "max", "mean_sqrt_len"])


def families() -> dict[str, EncoderConfig]:
    """One shallow encoder for each graph that a published family makes."""
    one = ["bert", "roberta", "distilbert", "electra", "deberta", "deberta-v3", "flaubert"]
    shallow = {name: change(CASES[name], num_layers=1) for name in [*one, "convolution"]}
    kinds = ("local", "global")
    return {
        **shallow,
        "albert": change(CASES["albert"], num_layers=2),
        "modern": change(CASES["modern"], num_layers=2, attention__layer_kinds=kinds),
    }


@pytest.mark.parametrize(("name", "config"), families().items(), ids=families())
def test_every_family_gives_the_same_vectors_on_onnx_runtime_and_openvino(
    name: str, config: EncoderConfig, tmp_path: Path
) -> None:
    parts = new_parts(config, encoder=make_encoder(config, dtype=torch.float32))
    model = Model(dataclasses.replace(parts, sentence=SentenceVector(EVERY_POOLING)))
    done = export(model, tmp_path / "there")
    assert 0.0 < done.difference < SAME
    usable = config.embeddings.usable_positions
    assert {min(9, usable), min(512, usable)} <= {n for each in done.compared for n in each.lengths}

    ids = [[7, 8, 9, 10, 6], [6], list(range(3, 3 + min(usable, 8))), [9, 3]]
    types = [[number % max(1, config.embeddings.num_types) for number in text] for text in ids]
    wanted = sentence_vectors(model.encoder, model.sentence, ids, types)
    there = load(tmp_path / "there")
    found = sentence_vectors(there.encoder, there.sentence, ids, types)
    np.testing.assert_allclose(found, wanted, rtol=SAME, atol=SAME)
    # OpenVINO writes what it reads from such a file.
    engine = ENGINES["openvino"].open(tmp_path / "there" / "model.onnx")
    other = ExportedEncoder(config, engine, {"inputs": done.inputs, "unit": done.unit})
    found = sentence_vectors(other, there.sentence, ids, types)
    np.testing.assert_allclose(found, wanted, rtol=SAME, atol=SAME)


LABELS = {
    "classify": ("bad", "good", "so-so"),
    "tag": ("B-X", "I-X", "O"),
    "answer": (),
    "relate": ("a", "b"),
}
GIVEN: dict[str, list[Any]] = {
    "classify": TEXTS,
    "tag": TEXTS,
    "answer": [("great film", text + " and it was a film" * 6) for text in TEXTS],
}


def with_task(tiny: Model, name: str) -> Model:
    """The tiny model under a head with random weights that counts as trained."""
    more: dict[str, dict[str, Any]] = {
        "classify": {"pooling": "cls"},
        "tag": {"scheme": "bio", "crf": True},
    }
    named: dict[str, Any] = {} if name == "answer" else {"labels": LABELS[name]}
    task = make_task(name, **named, **more.get(name, {}))
    head = task.head(tiny.parts.config, LABELS[name])
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(std=0.5)
    parts = adapt(tiny.parts, head, labels=LABELS[name], trained=True)
    return Model(dataclasses.replace(parts, settings={"task": task.state(), "policy": "head"}))


def plain(results: Any) -> tuple[list[Any], list[float]]:
    """Results without their numbers, and the numbers."""
    numbers: list[float] = []

    def walk(value: Any) -> Any:
        if isinstance(value, float):
            numbers.append(value)
            return None
        if isinstance(value, dict):
            return {key: walk(member) for key, member in value.items()}
        return [walk(member) for member in value] if isinstance(value, list | tuple) else value

    return [walk(as_dict(each)) for each in results], numbers


@pytest.mark.parametrize(
    ("name", "engine", "policy"),
    [
        ("classify", "onnx", "head"),
        ("tag", "openvino", "windows"),
        ("answer", "onnx", "windows"),
    ],
)
def test_every_kind_of_task_predicts_the_same_with_the_same_ledger(
    tiny: Model, name: str, engine: Any, policy: Any, tmp_path: Path
) -> None:
    model = with_task(tiny, name)
    export(model, tmp_path / "there", to=engine)
    assert not (tmp_path / "there" / "model.safetensors").exists()
    there = load(tmp_path / "there")
    wanted, found = (each.predict(GIVEN[name], policy=policy) for each in (model, there))
    assert (found.ledger, found.tokens_cut) == (wanted.ledger, wanted.tokens_cut)
    assert (found.ledger.windows > 0) == (name == "answer")
    assert plain(found)[0] == plain(wanted)[0]
    np.testing.assert_allclose(plain(found)[1], plain(wanted)[1], rtol=SAME, atol=SAME)
    assert there.abilities() == [f"predict ({name})"]
    for refused in (lambda: there.embed(TEXTS), lambda: there.embed_tokens(TEXTS)):
        with pytest.raises(TaskError, match="exported model gives what it was exported for"):
            refused()


@pytest.fixture(scope="module")
def embedder(tiny_folder: Path) -> Model:
    """Dense layer and normalisation after the pooling, and a prompt."""
    parts = load_parts(tiny_folder)
    torch.manual_seed(3)
    dense = SentenceDense(16, 12, bias=True, activation="tanh")
    prompts = {"query": "the film "}
    sentence = SentenceVector(Pool(["mean"]), [dense, SentenceNormalize()], prompts=prompts)
    return Model(dataclasses.replace(parts, sentence=sentence))


@pytest.fixture(scope="module")
def exported(embedder: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command makes of it."""
    folder = tmp_path_factory.mktemp("exported")
    embedder.save(folder / "model")
    return folder


def test_the_command_tells_what_it_compared_and_embed_runs_the_folder(
    exported: Path, embedder: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    there = exported / "there"
    words = ["export", "--model", str(exported / "model"), "--output", str(there), "--json"]
    with undisturbed():
        bothways = Command(capsys)
        told = json.loads(bothways(*words).out)
        message = bothways.fails(*words)
        (exported / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
        words = ["embed", "--model", str(there), "--input", str(exported / "texts.txt")]
        embedded = json.loads(bothways(*words, "--output", str(exported / "v.npy"), "--json").out)
    assert "holds a model already" in message
    stored = json.loads((there / "export.json").read_text())
    assert stored["parity"] == told["parity"]
    assert told["parity"]["tolerance"] == TOLERANCE
    assert max(each["difference"] for each in told["parity"]["batches"]) < SAME
    assert (told["gives"], told["unit"], told["to"]) == ("vectors", "sequence", "onnx")
    assert told["versions"][1].startswith("onnxruntime ")
    wanted = embedder.embed(TEXTS)
    assert embedded["ledger"] == wanted.ledger.as_dict()
    assert (embedded["dimension"], embedded["bit_invariant"]) == (12, False)
    np.testing.assert_allclose(np.load(exported / "v.npy"), wanted.vectors, rtol=SAME, atol=SAME)
    model = load(there)
    ours, theirs = (each.embed(TEXTS, prompt="query").vectors for each in (model, embedder))
    np.testing.assert_allclose(theirs, ours, rtol=SAME, atol=SAME)
    assert model.abilities() == ["embed", "similarity"]
    for options in ({"pooling": "cls"}, {"normalize": False}):
        with pytest.raises(TaskError, match="use the model that it was exported from"):
            model.embed(TEXTS, **options)
    with pytest.raises(CheckpointError, match="no weights to save"):
        model.save(exported / "saved")
    with pytest.raises(CheckpointError, match="exported for another engine"):
        load_parts(there)


def test_a_head_that_reads_entities_is_given_them(tiny: Model, tmp_path: Path) -> None:
    done = export(with_task(tiny, "relate"), tmp_path / "there", to="torch-export")
    assert done.inputs == ("input_ids", "attention_mask", "token_type_ids", "entities")
    assert 0.0 < done.difference < SAME
    stated = json.loads((tmp_path / "there" / "export.json").read_text())
    there = ExportedEncoder(
        tiny.encoder.config, ENGINES["torch-export"].open(tmp_path / "there" / done.file), stated
    )
    batch = Batch(torch.tensor([5, 6, 7]), Layout.packed([3]))
    with pytest.raises(TaskError, match="not what needs no more than tokens"):
        there(batch)
    first, second = (
        there(dataclasses.replace(batch, targets={"entities": torch.tensor([pair])}))
        for pair in ([0, 2], [2, 0])
    )
    assert (first.made - second.made).abs().max() > 0.1


def test_a_program_of_torch_lies_beside_the_weights_and_is_not_opened(
    embedder: Model, tmp_path: Path
) -> None:
    done = export(embedder, tmp_path / "there", to="torch-export")
    assert done.difference < SAME
    # Opening it could run code that is hidden in it; what runs are the weights.
    (tmp_path / "there" / "model.pt2").write_bytes(b"no program")
    np.testing.assert_array_equal(
        load(tmp_path / "there").embed(TEXTS).vectors, embedder.embed(TEXTS).vectors
    )
    # A model that is saved over it leaves no graph of other weights.
    embedder.save(tmp_path / "there", overwrite=True)
    assert not list((tmp_path / "there").glob("model.pt2"))
    assert not (tmp_path / "there" / "export.json").exists()


def test_a_graph_with_two_inputs_in_one_is_refused_and_nothing_is_written(
    tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One example tensor given twice became one input: the mask was read as the segments."""
    onnx = ENGINES["onnx"]

    def aliased(path: Path) -> Any:
        graph = Graph(tiny.encoder, tiny.sentence)
        return lambda given: graph(given["input_ids"], *2 * [given["attention_mask"]])

    kind = dataclasses.replace(onnx, write=lambda *args: None, open=aliased)
    monkeypatch.setitem(ENGINES, "onnx", kind)
    with pytest.raises(CheckpointError, match=r"gives other numbers.*lengths \(2, 4, 9\)"):
        export(tiny, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_what_cannot_be_exported_is_refused_before_any_work(
    tiny_folder: Path, tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match="holds the weights of a model"):
        export(tiny, tiny_folder, overwrite=True)
    task = ClassifyTask(labels=("bad", "good"))
    head: nn.Module = task.head(tiny.parts.config, task.labels)
    parts: Parts = adapt(tiny.parts, head, labels=task.labels)
    random = Model(dataclasses.replace(parts, settings={"task": task.state()}))
    with pytest.raises(UntrainedHeadError):
        export(random, tmp_path / "there")
    absent = dataclasses.replace(ENGINES["openvino"], runs_on="no_such_engine")
    monkeypatch.setitem(ENGINES, "openvino", absent)
    with pytest.raises(MissingExtraError, match=r"bothways\[openvino\]"):
        export(tiny, tmp_path / "there", to="openvino")
    assert not (tmp_path / "there").exists()


def test_a_folder_for_an_unknown_engine_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text('{"to": "onxx"}')
    with pytest.raises(CheckpointError, match="did you mean 'onnx'"):
        load(tmp_path)
