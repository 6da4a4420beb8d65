"""Weight files: what the format's own library reads of ours, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load, load_file, save_file
from torch import Tensor

from bothways.checkpoints.files import (
    INDEX_NAME,
    WEIGHTS_NAME,
    Staged,
    WeightFiles,
    find_weights,
    stage_weights,
    write_safetensors,
    write_tensors,
)
from bothways.errors import CheckpointError, UnsafeFileError
from tests.checkpoints.limits import file_size_limit

DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3)), max_size=6
    )
)
def test_the_formats_own_library_reads_what_we_write(
    tensors: list[tuple[torch.dtype, list[int]]],
) -> None:
    from io import BytesIO

    content = {
        f"t{n}": torch.randint(0, 2, shape).to(dtype) for n, (dtype, shape) in enumerate(tensors)
    }
    file = BytesIO()
    write_tensors(file, content)
    assert equal(load(file.getvalue()), content)


def test_tensors_that_are_no_plain_memory_are_written(tmp_path: Path) -> None:
    table = torch.randn(6, 4)
    content = {"a": table.T, "b": table[2:], "c": torch.nn.Parameter(table[::2])}
    write_safetensors(tmp_path / "w.safetensors", content)
    read = load_file(tmp_path / "w.safetensors")
    assert all(torch.equal(read[name], content[name]) for name in content)


def test_the_file_says_that_it_is_torchs_and_its_data_are_aligned(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_safetensors(path, {"a": torch.ones(3), "b": torch.ones(3, dtype=torch.int8)}, {"k": "v"})
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"format": "pt", "k": "v"}
    assert (int.from_bytes(path.read_bytes()[:8], "little") + 8) % 64 == 0
    assert WeightFiles([path]).tensor("a").data_ptr() % 64 == 0


def test_writing_into_a_tensor_does_not_change_the_file(tmp_path: Path) -> None:
    write_safetensors(tmp_path / WEIGHTS_NAME, {"a": torch.ones(3)})
    before = (tmp_path / WEIGHTS_NAME).read_bytes()
    tensor = find_weights(tmp_path).tensor("a")
    tensor[0] = 7
    assert (tmp_path / WEIGHTS_NAME).read_bytes() == before


def test_the_file_that_is_mapped_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / WEIGHTS_NAME
    write_safetensors(path, {"a": torch.arange(50_000.0)})
    tensor = find_weights(tmp_path).tensor("a")
    write_safetensors(path, {"a": tensor + 1})
    assert torch.equal(tensor, torch.arange(50_000.0))
    assert torch.equal(find_weights(tmp_path).tensor("a"), tensor + 1)


def test_a_full_disk_leaves_the_old_weights(tmp_path: Path) -> None:
    path = tmp_path / WEIGHTS_NAME
    write_safetensors(path, {"a": torch.ones(100)})
    with file_size_limit(10_000), pytest.raises(CheckpointError, match="the disk is full"):
        write_safetensors(path, {"a": torch.ones(100_000)})
    assert torch.equal(find_weights(tmp_path).tensor("a"), torch.ones(100))


def sharded(folder: Path, size: int = 100) -> dict[str, Tensor]:
    content = {f"t{n}": torch.full((10,), float(n)) for n in range(5)}
    with Staged(folder) as files:
        stage_weights(files, content, size)
    return content


def test_shards_hold_at_most_their_size_and_are_indexed(tmp_path: Path) -> None:
    content = sharded(tmp_path)
    index = json.loads((tmp_path / INDEX_NAME).read_text())
    assert index["metadata"] == {"total_size": 200}
    assert sorted(set(index["weight_map"].values())) == [
        f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)
    ]
    weights = find_weights(tmp_path)
    assert equal({name: weights.tensor(name) for name in weights.shapes}, content)
    assert weights.place == str(tmp_path)


def test_a_tensor_larger_than_a_shard_has_its_own(tmp_path: Path) -> None:
    content = sharded(tmp_path, size=1)
    weights = find_weights(tmp_path)
    assert len(weights.paths) == len(content)


def test_one_form_of_weights_takes_the_place_of_the_other(tmp_path: Path) -> None:
    """Other tools prefer the single file, so an old one beside new shards would be loaded."""
    sharded(tmp_path, size=1000)
    assert [path.name for path in tmp_path.iterdir()] == [WEIGHTS_NAME]
    sharded(tmp_path, size=100)
    assert not (tmp_path / WEIGHTS_NAME).exists()
    sharded(tmp_path, size=1)
    assert len(list(tmp_path.glob("*.safetensors"))) == 5
    sharded(tmp_path, size=1000)
    assert [path.name for path in tmp_path.iterdir()] == [WEIGHTS_NAME]


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    sharded(tmp_path)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"lacks 1 of 3 .*: model-00002-of-00003"):
        find_weights(tmp_path)


def test_an_index_must_keep_to_its_folder_and_to_its_files(tmp_path: Path) -> None:
    sharded(tmp_path)
    index = json.loads((tmp_path / INDEX_NAME).read_text())
    index["weight_map"]["t9"] = "model-00001-of-00003.safetensors"
    (tmp_path / INDEX_NAME).write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="in none of its files: t9"):
        find_weights(tmp_path)
    index["weight_map"]["t9"] = "../elsewhere.safetensors"
    (tmp_path / INDEX_NAME).write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="outside its folder"):
        find_weights(tmp_path)
    (tmp_path / INDEX_NAME).write_text("{}")
    with pytest.raises(CheckpointError, match="has no weight_map"):
        find_weights(tmp_path)


def test_a_tensor_in_two_files_is_an_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_file({"t": torch.ones(1)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(CheckpointError, match="the tensor t stands in another file too"):
        WeightFiles([tmp_path / "a.safetensors", tmp_path / "b.safetensors"])


@pytest.mark.parametrize("kept", [0, 5, 40, -1])
def test_a_truncated_file_is_named_with_its_size(tmp_path: Path, kept: int) -> None:
    path = tmp_path / WEIGHTS_NAME
    write_safetensors(path, {"a": torch.ones(100)})
    content = path.read_bytes()[:kept]
    path.write_bytes(content)
    with pytest.raises(
        CheckpointError,
        match=rf"model\.safetensors \({len(content)} bytes\) is truncated or corrupt: .* again",
    ):
        find_weights(tmp_path)


def test_a_pointer_to_large_files_is_recognised(tmp_path: Path) -> None:
    (tmp_path / WEIGHTS_NAME).write_text("version https://git-lfs.github.com/spec/v1\noid x\n")
    with pytest.raises(CheckpointError, match="Git LFS pointer .* `git lfs pull`"):
        find_weights(tmp_path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "last.ckpt", "tf_model.h5"])
def test_weights_that_can_run_code_are_refused_with_the_safe_way(tmp_path: Path, name: str) -> None:
    """CVE-2025-32434: a pickle executes code even where it is read with care."""
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(UnsafeFileError, match=rf"{name} only.*bothways convert {tmp_path} NEW"):
        find_weights(tmp_path)


def test_pickles_beside_safe_weights_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "heads.pt").write_bytes(b"not read")
    write_safetensors(tmp_path / WEIGHTS_NAME, {"a": torch.ones(1)})
    assert find_weights(tmp_path).shapes == {"a": (1,)}


def test_a_folder_without_weights_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"neither model\.safetensors nor"):
        find_weights(tmp_path)
