"""The numbers in a passport: other weights are refused, the same ones on any machine are not."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import new_parts
from bothways.checkpoints.save import save_parts
from bothways.checkpoints.vectors import STRINGS, check_vectors, make_vectors
from bothways.errors import CheckpointError
from bothways.inference.model import Model, load
from bothways.model.config import build_config
from bothways.tokenization.tokenizer import load_tokenizer
from tests.training.tiny import save_tiny_model

LAYER = "encoder.layer.3.output.dense.weight"
# What summing in another order, or on another processor, does to weights of this size.
ROUNDING = 1e-6


@pytest.fixture(scope="module")
def saved(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real encoder, saved here."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_parts(load_parts(minilm), folder)
    return folder


def changed(saved: Path, folder: Path, change: Callable[[dict[str, Tensor]], object]) -> Path:
    """A copy with other weights."""
    shutil.copytree(saved, folder)
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}  # fmt: skip  # noqa: E501
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def passport(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "bothways.json").read_text())["passport"]
    return content


def test_a_saved_model_carries_a_few_numbers(saved: Path) -> None:
    stored = passport(saved)
    assert stored["vector_strings"] == list(STRINGS)
    assert [len(row) for row in stored["vectors"]] == [64] * len(STRINGS)
    assert len(json.dumps(stored["vectors"])) < 3000
    # They are the real model's, and of different texts.
    vectors = torch.tensor(stored["vectors"])
    means = load(saved).embed(STRINGS, pooling="mean", normalize=False).vectors
    places = [index * 384 // 64 for index in range(64)]
    torch.testing.assert_close(vectors, torch.tensor(means)[:, places], rtol=1e-4, atol=1e-5)
    assert torch.pdist(vectors).min() > 0.1
    check_vectors(load_parts(saved))


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors[LAYER].zero_(),
        lambda tensors: tensors[LAYER].copy_(tensors[LAYER.replace("3", "4")]),
        lambda tensors: tensors["embeddings.position_embeddings.weight"].zero_(),
        lambda tensors: tensors["embeddings.LayerNorm.bias"].neg_(),
        lambda tensors: tensors["encoder.layer.5.attention.output.dense.weight"].mul_(1.5),
    ],
    ids=["zeros", "another-layer", "no-positions", "turned-round", "scaled"],
)
def test_other_weights_are_refused(
    saved: Path, tmp_path: Path, change: Callable[[dict[str, Tensor]], object]
) -> None:
    """text-embeddings-inference#749: vectors differed from the library's, and nobody was told."""
    folder = changed(saved, tmp_path / "changed", change)
    with pytest.raises(CheckpointError, match=r"other vectors than .* delete \"passport\""):
        load(folder)
    content = json.loads((folder / "bothways.json").read_text())
    del content["passport"]
    (folder / "bothways.json").write_text(json.dumps(content))
    load(folder)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_make_no_numbers_are_refused_without_a_passport_too(
    saved: Path, tmp_path: Path, number: float
) -> None:
    def damage(tensors: dict[str, Tensor]) -> None:
        tensors[LAYER][0, 0] = number

    folder = changed(saved, tmp_path / "damaged", damage)
    (folder / "bothways.json").unlink()
    with pytest.raises(CheckpointError, match="make no numbers of a plain text"):
        load(folder)


def test_another_equation_is_refused(saved: Path, tmp_path: Path) -> None:
    folder = changed(saved, tmp_path / "changed", lambda tensors: None)
    load(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    with pytest.raises(CheckpointError, match="cosine distance"):
        load(folder)


def test_rounding_is_no_difference(saved: Path, tmp_path: Path) -> None:
    def jitter(tensors: dict[str, Tensor]) -> None:
        for tensor in tensors.values():
            tensor.mul_(1 + ROUNDING * torch.randn_like(tensor))

    load(changed(saved, tmp_path / "changed", jitter))


def test_half_precision_is_not_compared(saved: Path, tmp_path: Path) -> None:
    folder = changed(saved, tmp_path / "changed", lambda tensors: tensors[LAYER].zero_())
    load(folder, dtype=torch.bfloat16)
    half = load_parts(saved, dtype=torch.bfloat16)
    assert make_vectors(half) == {}
    save_parts(half, tmp_path / "half")
    assert set(passport(tmp_path / "half")) == {"strings", "ids"}
    load(tmp_path / "half")


def test_saving_again_and_in_training_mode_gives_the_same_numbers(
    saved: Path, tmp_path: Path
) -> None:
    parts = load_parts(saved)
    parts.encoder.train()
    save_parts(parts, tmp_path / "again")
    assert parts.encoder.training
    stored, before = passport(tmp_path / "again"), passport(saved)
    torch.testing.assert_close(
        torch.tensor(stored["vectors"]), torch.tensor(before["vectors"]), rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize(
    "damage",
    [
        {"vectors": [[1.0] * 64]},
        {"vectors": []},
        {"vectors": [["a"] * 64] * 3},
        {"vectors": 3},
        {"vector_strings": None},
        {"vector_strings": [1, 2, 3]},
        {"vectors": [[float("nan")] * 64] * 3},
    ],
)
def test_a_damaged_passport_is_refused(
    saved: Path, tmp_path: Path, damage: dict[str, object]
) -> None:
    parts = load_parts(saved)
    content = {**passport(saved), **damage}
    settings = {**parts.settings, "passport": content}
    with pytest.raises(CheckpointError, match=r"passport must hold lists|cosine distance nan"):
        check_vectors(_with(parts, settings=settings))


def _with(parts: Any, **fields: Any) -> Any:
    return dataclasses.replace(parts, **fields)


def test_short_models_compare_what_fits_and_strange_ones_nothing(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "tiny")
    stored = passport(folder)
    assert len(stored["vectors"][0]) == load_parts(folder).config.hidden_size
    tokenizer = load_tokenizer(folder)
    without_room = new_parts(
        build_config(
            vocab_size=tokenizer.vocab_size, hidden_size=8, num_heads=2, num_layers=1,
            max_positions=2,
        ),
        tokenizer=tokenizer,
    )  # fmt: skip
    assert make_vectors(without_room) == {}
    no_tokenizer = _with(without_room, tokenizer=None)
    assert make_vectors(no_tokenizer) == {}
    check_vectors(no_tokenizer)


# --- when it is compared


@pytest.fixture(scope="module")
def large(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More numbers in its layers than are compared at once."""
    folder = tmp_path_factory.mktemp("large") / "model"
    tokenizer = load_tokenizer(saved)
    config = build_config(
        vocab_size=tokenizer.vocab_size,
        hidden_size=512,
        num_heads=8,
        num_layers=5,
        max_positions=64,
    )
    torch.manual_seed(0)
    save_parts(new_parts(config, tokenizer=tokenizer), folder)
    return folder


def use(model: Model) -> None:
    assert model.embed(["one", "two"]).vectors.shape == (2, 512)


def test_a_large_model_is_compared_at_its_first_use(large: Path, tmp_path: Path) -> None:
    use(load(large))

    def damage(tensors: dict[str, Tensor]) -> None:
        name = next(name for name in tensors if "attention.query.weight" in name)
        tensors[name].neg_()
        tensors[name.replace("query", "value")].neg_()

    model = load(changed(large, tmp_path / "changed", damage))
    for _ in range(2):  # a second try is no way round
        with pytest.raises(CheckpointError, match="other vectors"):
            use(model)
    with pytest.raises(CheckpointError, match="other vectors"):
        model.embed_tokens(["one"])


def test_weights_that_were_changed_on_purpose_are_not_compared(large: Path) -> None:
    model = load(large)
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.mul_(1.5)
    use(model)


def test_training_on_from_a_saved_model_is_not_held_against_it(saved: Path) -> None:
    """Parts with new weights still hold the old settings until they are saved."""
    parts = load_parts(saved)
    with torch.no_grad():
        parts.encoder.get_parameter("layers.0.attention.query.weight").mul_(3.0)
    Model(parts).embed(["one"])
