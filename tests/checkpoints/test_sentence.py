"""Sentence vectors of a folder: the same as sentence-transformers makes, both ways."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.save import save_parts
from bothways.checkpoints.sentence import read_sentence
from bothways.errors import (
    CheckpointError,
    ConfigError,
    UnsafeFileError,
    UnsupportedModelError,
    UsageError,
)
from bothways.inference.model import load
from tests.checkpoints.models import edit_json
from tests.training.tiny import save_tiny_model

TEXTS = ["the film was great", "a very long story and it ended", "", "dull"]
WIDTH = 16
# Float32 sums in another order; the vectors of the tiny model are of size 1.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model folder without sentence steps."""
    return save_tiny_model(tmp_path_factory.mktemp("bare") / "model")


def theirs(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


def vectors(model: SentenceTransformer, **options: Any) -> Any:
    return model.encode(TEXTS, **options)


def close(ours: Any, expected: Any) -> bool:
    return bool(ours.shape == expected.shape and np.abs(ours - expected).max() < TOLERANCE)


STEPS: dict[str, tuple[Sequence[str], Sequence[Any]]] = {
    "mean": (["mean"], ()),
    "cls, normalised": (["cls"], ["normalize"]),
    "max": (["max"], ()),
    "mean over the root of the length": (["mean_sqrt_len_tokens"], ()),
    "all in the old order": (["cls", "max", "mean", "mean_sqrt_len_tokens"], ()),
    "two in an order of their own": (["mean", "cls"], ["normalize"]),
    "dense, tanh": (["mean"], [torch.nn.Tanh()]),
    "dense twice, normalised": (["mean"], [torch.nn.ReLU(), torch.nn.Identity(), "normalize"]),
    "dense over two": (["max", "mean"], [torch.nn.GELU()]),
}


def make(bare: Path, folder: Path, steps: str) -> Path:
    """A folder with these steps, saved by sentence-transformers."""
    modes, after = STEPS[steps]
    torch.manual_seed(3)
    modules: list[Any] = [Transformer(str(bare))]
    modules.append(Pooling(WIDTH, pooling_mode=tuple(modes)))
    width = WIDTH * len(modes)
    for step in after:
        modules.append(
            Normalize() if step == "normalize" else Dense(width, 5, activation_function=step)
        )
        width = 5
    SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    return folder


def to_old_spelling(folder: Path) -> None:
    """Rewrite what sentence-transformers before 6 wrote otherwise."""
    listing = folder / "modules.json"
    modules = json.loads(listing.read_text())
    for module in modules:
        kind = module["type"].rpartition(".")[2]
        module["type"] = f"sentence_transformers.models.{kind}"
    listing.write_text(json.dumps(modules))
    pooling = folder / "1_Pooling" / "config.json"
    modes = json.loads(pooling.read_text())["pooling_mode"]
    words = {
        "cls": "pooling_mode_cls_token",
        "mean": "pooling_mode_mean_tokens",
        "max": "pooling_mode_max_tokens",
        "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    }
    old = {
        key: word in ([modes] if isinstance(modes, str) else modes) for word, key in words.items()
    }
    pooling.write_text(json.dumps({"word_embedding_dimension": WIDTH, **old}))


@pytest.mark.parametrize("steps", STEPS)
def test_vectors_are_theirs_and_theirs_are_ours_again(
    steps: str, bare: Path, tmp_path: Path
) -> None:
    """text-embeddings-inference#749, #278, infinity#336, llama_index#9074: a step left out."""
    folder = make(bare, tmp_path / "theirs", steps)
    expected = vectors(theirs(folder))
    model = load(folder)
    ours = model.embed(TEXTS).vectors
    assert close(ours, expected)
    assert model.dimension() == ours.shape[1]
    model.save(tmp_path / "ours")
    assert close(vectors(theirs(tmp_path / "ours")), expected)
    assert close(load(tmp_path / "ours").embed(TEXTS).vectors, expected)


@pytest.mark.parametrize(
    "steps", [name for name in STEPS if name != "two in an order of their own"]
)
def test_the_older_spelling_means_the_same(steps: str, bare: Path, tmp_path: Path) -> None:
    folder = make(bare, tmp_path / "theirs", steps)
    expected = load(folder).embed(TEXTS).vectors
    to_old_spelling(folder)
    assert (load(folder).embed(TEXTS).vectors == expected).all()
    assert close(vectors(theirs(folder)), expected)


def test_settings_that_are_not_known_are_kept(bare: Path, tmp_path: Path) -> None:
    folder = make(bare, tmp_path / "theirs", "mean")
    name = "config_sentence_transformers.json"
    edit_json(folder / name, prompts={"query": "the "}, truncate_dim=7)
    save_parts(load_parts(folder), tmp_path / "ours")
    before, after = (json.loads((at / name).read_text()) for at in (folder, tmp_path / "ours"))
    assert after["truncate_dim"] == 7
    assert after["__version__"]["sentence_transformers"]
    assert after == {**before, "default_prompt_name": None}


def test_prompts_are_put_before_the_text(bare: Path, tmp_path: Path) -> None:
    folder = make(bare, tmp_path / "theirs", "cls, normalised")
    edit_json(
        folder / "config_sentence_transformers.json",
        prompts={"query": "very long ", "passage": "the film: "},
        default_prompt_name="passage",
    )
    expected, model = theirs(folder), load(folder)
    ours = model.embed(TEXTS).vectors
    assert close(ours, vectors(expected))
    assert close(model.embed(TEXTS, prompt="query").vectors, vectors(expected, prompt_name="query"))
    assert close(model.embed(TEXTS, prompt="dull: ").vectors, vectors(expected, prompt="dull: "))
    assert close(model.embed(TEXTS, prompt="").vectors, vectors(expected, prompt=""))
    assert not close(model.embed(TEXTS, prompt="query").vectors, ours)
    with pytest.raises(UsageError, match=r"no prompt 'qery'; did you mean 'query'"):
        model.embed(TEXTS, prompt="qery")


def test_pooling_and_norm_can_be_overruled(bare: Path, tmp_path: Path) -> None:
    model = load(make(bare, tmp_path / "theirs", "cls, normalised"))
    plain = load(bare)
    mean = plain.embed(TEXTS).vectors
    unit = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    assert close(model.embed(TEXTS, pooling="mean").vectors, unit)
    assert close(model.embed(TEXTS, pooling="mean", normalize=False).vectors, mean)
    assert close(plain.embed(TEXTS, normalize=True).vectors, unit)
    states = plain.embed_tokens(TEXTS)
    largest = np.stack([state.max(0) for state in states])
    first = np.stack([state[0] for state in states])
    assert close(plain.embed(TEXTS, pooling="max").vectors, largest)
    assert close(plain.embed(TEXTS, pooling="cls").vectors, first)


def test_a_dense_layer_stays_after_another_pooling_of_its_width(bare: Path, tmp_path: Path) -> None:
    model = load(make(bare, tmp_path / "one", "dense, tanh"))
    dense = model.sentence.dense[0]
    first = load(bare).embed(TEXTS, pooling="cls").vectors
    with torch.no_grad():
        expected = dense(torch.from_numpy(first)).numpy()
    assert close(model.embed(TEXTS, pooling="cls").vectors, expected)
    assert model.dimension("cls") == 5
    two = load(make(bare, tmp_path / "two", "dense over two"))
    with pytest.raises(ConfigError, match="'cls' makes vectors of another width than max, mean"):
        two.embed(TEXTS, pooling="cls")


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "sentence_transformers.models.LSTM",
        "sentence_transformers.models.WeightedLayerPooling",
        "my_package.Transformer",
    ],
)
def test_a_step_that_is_not_known_is_refused(kind: str, bare: Path, tmp_path: Path) -> None:
    folder = make(bare, tmp_path / "theirs", "mean")
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Other", "type": kind})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UnsupportedModelError, match=rf"names the steps {kind}.*not loaded"):
        load_parts(folder)


def test_steps_in_another_order_are_refused(bare: Path, tmp_path: Path) -> None:
    folder = make(bare, tmp_path / "theirs", "cls, normalised")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["idx"], modules[2]["idx"] = 2, 1
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UnsupportedModelError, match="starts with Transformer, Normalize"):
        load_parts(folder)
    modules[1]["idx"], modules[2]["idx"] = 1, 2
    modules.append({**modules[1], "idx": 3})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UnsupportedModelError, match="Pooling after the pooling"):
        load_parts(folder)


@pytest.mark.parametrize(
    ("file", "changes", "error", "expected"),
    [
        ("1_Pooling", {"pooling_mode": "lasttoken"}, UnsupportedModelError, "lasttoken"),
        ("1_Pooling", {"pooling_mode": []}, UnsupportedModelError, "without a mode"),
        (
            "1_Pooling",
            {"pooling_mode": None, "pooling_mode_weightedmean_tokens": True},
            UnsupportedModelError,
            "weightedmean",
        ),
        ("1_Pooling", {"include_prompt": False}, UnsupportedModelError, "include_prompt"),
        (
            "2_Dense",
            {"activation_function": "torch.nn.modules.activation.Mish"},
            UnsupportedModelError,
            "Mish",
        ),
        ("2_Dense", {"use_residual": True}, UnsupportedModelError, "use_residual"),
        (
            "2_Dense",
            {"module_input_name": "token_embeddings"},
            UnsupportedModelError,
            "module_input_name",
        ),
        ("2_Dense", {"out_features": 6}, CheckpointError, r"\(5, 16\).*means.*\(6, 16\)"),
    ],
)
def test_a_step_that_is_set_otherwise_is_refused(
    file: str,
    changes: dict[str, Any],
    error: type[Exception],
    expected: str,
    bare: Path,
    tmp_path: Path,
) -> None:
    folder = make(bare, tmp_path / "theirs", "dense, tanh")
    edit_json(folder / file / "config.json", **changes)
    with pytest.raises(error, match=expected):
        read_sentence(folder)


def test_a_default_prompt_must_be_there(bare: Path, tmp_path: Path) -> None:
    folder = make(bare, tmp_path / "theirs", "mean")
    edit_json(
        folder / "config_sentence_transformers.json",
        prompts={"query": "q: "},
        default_prompt_name="querry",
    )
    with pytest.raises(CheckpointError, match=r"'querry'.*did you mean 'query'"):
        read_sentence(folder)


def test_pickled_and_truncated_weights_of_a_step_are_refused(bare: Path, tmp_path: Path) -> None:
    folder = make(bare, tmp_path / "theirs", "dense, tanh")
    weights = folder / "2_Dense" / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=r"2_Dense/model\.safetensors"):
        read_sentence(folder)
    weights.rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(UnsafeFileError, match="no model.safetensors"):
        read_sentence(folder)


def test_a_broken_listing_is_named(bare: Path, tmp_path: Path) -> None:
    folder = make(bare, tmp_path / "theirs", "mean")
    (folder / "modules.json").write_text("[{")
    with pytest.raises(CheckpointError, match=r"modules\.json is not valid JSON"):
        load_parts(folder)
