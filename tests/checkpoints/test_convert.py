"""Old weight files become safetensors in a process of its own; hostile ones are refused unread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

from bothways.checkpoints.convert import _check_torch, convert
from bothways.checkpoints.load import load_parts
from bothways.checkpoints.unpickling import unpickle
from bothways.cli.main import main
from bothways.errors import CheckpointError, UnsafeFileError

KEYS: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 18,
}


class Evil:
    """A pickle that makes a file when it is read by a reader that trusts it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.target),)


def old_folder(folder: Path, *, shards: int = 1) -> dict[str, Tensor]:
    """A masked LM as transformers 4 saved it, with the tied weights under both names."""
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(transformers.BertConfig(**KEYS))
    folder.mkdir(parents=True)
    model.config.architectures = ["BertForMaskedLM"]
    model.config.save_pretrained(folder)
    state = dict(model.state_dict())
    names = list(state)
    if shards == 1:
        torch.save(state, folder / "pytorch_model.bin")
        return state
    places = {}
    for index in range(shards):
        file = f"pytorch_model-{index + 1:05}-of-{shards:05}.bin"
        part = names[index::shards]
        torch.save({name: state[name] for name in part}, folder / file)
        places.update(dict.fromkeys(part, file))
    listing = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(listing))
    return state


def test_tensors_keep_their_names_and_bits(tmp_path: Path) -> None:
    state = old_folder(tmp_path / "old")
    (tmp_path / "old" / "vocab.txt").write_text("[PAD]\n")
    (tmp_path / "old" / "modeling_own.py").write_text("raise SystemExit")
    (tmp_path / "old" / "tf_model.h5").write_bytes(b"x")
    torch.save([1], tmp_path / "old" / "training_args.bin")
    done = convert(tmp_path / "old", tmp_path / "new")
    written = load_file(tmp_path / "new" / "model.safetensors")
    assert written.keys() == state.keys()
    assert all(torch.equal(written[name], state[name]) for name in state)
    assert done.tensors == len(state)
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(done.files) == {
        "config.json", "model.safetensors", "vocab.txt",
    }  # fmt: skip
    assert done.left_out == ("modeling_own.py", "tf_model.h5", "training_args.bin")
    assert "left out: modeling_own.py" in done.summary()


def test_what_load_names_is_what_converts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`load` opens no pickle and says how to get rid of it."""
    old_folder(tmp_path / "old")
    with pytest.raises(UnsafeFileError, match="pytorch_model.bin only") as caught:
        load_parts(tmp_path / "old")
    command = str(caught.value).split("bothways ")[-1].replace("NEW", str(tmp_path / "new"))
    assert main(command.split()) == 0
    assert "tensors in safetensors" in capsys.readouterr().out
    parts = load_parts(tmp_path / "new")
    theirs: Any = transformers.BertForMaskedLM.from_pretrained(tmp_path / "new")
    theirs.eval()
    ids = torch.tensor([[2, 5, 7, 9, 3]])
    with torch.no_grad():
        ours = parts.encoder.padded(ids).last_hidden
        torch.testing.assert_close(ours, theirs.bert(ids).last_hidden_state, rtol=0, atol=1e-5)
    assert parts.report.tied
    assert main(["convert", str(tmp_path / "old"), str(tmp_path / "new")]) == 1  # holds a model
    assert main(["convert", str(tmp_path / "old"), str(tmp_path / "new"), "--overwrite", "--json"]) == 0  # fmt: skip  # noqa: E501
    assert json.loads(capsys.readouterr().out)["tensors"] > 40
    assert main(["convert", str(tmp_path / "old")]) == 2


def test_shards_stay_shards(tmp_path: Path) -> None:
    state = old_folder(tmp_path / "old", shards=3)
    done = convert(tmp_path / "old", tmp_path / "new")
    assert [name for name in done.files if name.endswith(".safetensors")] == [
        f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)
    ]
    index = json.loads((tmp_path / "new" / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == state.keys()
    assert load_parts(tmp_path / "new").config.hidden_size == 24
    (tmp_path / "old" / "pytorch_model-00002-of-00003.bin").unlink()
    with pytest.raises(CheckpointError, match="lacks 1 of 3 weight files"):
        convert(tmp_path / "old", tmp_path / "other")


def test_an_index_may_name_no_file_elsewhere(tmp_path: Path) -> None:
    old_folder(tmp_path / "old", shards=2)
    index = tmp_path / "old" / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../pytorch_model-00001-of-00002.bin"}}))
    with pytest.raises(CheckpointError, match="expected pytorch_model-00001"):
        convert(tmp_path / "old", tmp_path / "new")
    index.write_text("{}")
    with pytest.raises(CheckpointError, match="no weight_map"):
        convert(tmp_path / "old", tmp_path / "new")


def test_steps_of_a_sentence_encoder_are_converted_too(tmp_path: Path) -> None:
    old_folder(tmp_path / "old")
    step = tmp_path / "old" / "2_Dense"
    step.mkdir()
    (step / "config.json").write_text("{}")
    torch.save({"linear.weight": torch.eye(3)}, step / "pytorch_model.bin")
    done = convert(tmp_path / "old", tmp_path / "new")
    assert "2_Dense/model.safetensors" in done.files
    dense = load_file(tmp_path / "new" / "2_Dense" / "model.safetensors")
    assert torch.equal(dense["linear.weight"], torch.eye(3))
    assert (tmp_path / "new" / "2_Dense" / "config.json").exists()


# --- hostile and damaged files


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_that_runs_code_is_refused_and_runs_none(tmp_path: Path, legacy: bool) -> None:
    """CVE-2025-32434 and its kind: opening the file was enough."""
    old_folder(tmp_path / "old")
    mark = tmp_path / "mark"
    torch.save(
        {"a": torch.zeros(2), "b": Evil(mark)},
        tmp_path / "old" / "pytorch_model.bin",
        _use_new_zipfile_serialization=not legacy,
    )
    with pytest.raises(UnsafeFileError, match="asks for more than tensors.*mkdir"):
        convert(tmp_path / "old", tmp_path / "new")
    assert not mark.exists()
    assert not (tmp_path / "new").exists()
    # The file is what it is said to be: a reader that trusts it makes the folder.
    torch.load(tmp_path / "old" / "pytorch_model.bin", weights_only=False)
    assert mark.is_dir()


def test_a_bare_pickle_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "bare.bin").write_bytes(f"cposix\nmkdir\n(V{mark}\ntR.".encode())
    with pytest.raises(CheckpointError):
        unpickle(tmp_path / "bare.bin", tmp_path / "new")
    assert not mark.exists()


def test_a_small_file_that_says_it_is_large_is_refused(tmp_path: Path) -> None:
    repeated = torch.zeros(1).expand(1 << 40)  # four terabytes of one number
    torch.save({"a": repeated}, tmp_path / "small.bin")
    with pytest.raises(UnsafeFileError, match="says that it holds 4,398,046,511,104"):
        unpickle(tmp_path / "small.bin", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_file_that_unpacks_to_more_memory_than_it_may_is_refused(tmp_path: Path) -> None:
    """Zeros packed a thousandfold: the process that reads them reaches its limit."""
    old_folder(tmp_path / "old")
    path = tmp_path / "old" / "pytorch_model.bin"
    size = 3 << 30
    torch.save({"a": torch.zeros(4)}, path)
    with zipfile.ZipFile(path) as honest:
        parts = {name: honest.read(name) for name in honest.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, content in parts.items():
            if not name.endswith("/data/0"):
                packed.writestr(name, content)
                continue
            with packed.open(name, "w", force_zip64=True) as file:
                for _ in range(size >> 20):
                    file.write(bytes(1 << 20))
    assert path.stat().st_size < 40 << 20
    with pytest.raises(UnsafeFileError, match="takes more memory than twice its size"):
        convert(tmp_path / "old", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is measured in /proc")
def test_the_reading_process_has_little_memory() -> None:
    code = (
        "from bothways.checkpoints.unpickling import limit_resources\n"
        "import torch\n"
        "limit_resources(1000)\n"
        "torch.empty(100 << 20, dtype=torch.uint8)\n"
        "try: torch.empty(2 << 30, dtype=torch.uint8)\n"
        "except RuntimeError as error: print('stopped', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("stopped")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "cannot be read"),
        (b"version https://git-lfs.github.com/spec/v1\n", "more than tensors|cannot be read"),
        ([torch.zeros(1)], "holds a list; expected names with tensors"),
        ({"epoch": 3, "model": {"a": torch.zeros(1)}}, "holds no tensors, but: epoch, model"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, r"a \(complex64"),
        ({"a": torch.eye(2).to_sparse()}, "sparse"),
    ],
)
def test_what_is_no_file_of_weights_is_refused(content: object, told: str, tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(CheckpointError, match=told):
        unpickle(path, tmp_path / "new")


def test_what_stands_beside_tensors_is_said(tmp_path: Path) -> None:
    old_folder(tmp_path / "old")
    torch.save({"a": torch.zeros(2), "step": 7}, tmp_path / "old" / "pytorch_model.bin")
    done = convert(tmp_path / "old", tmp_path / "new")
    assert done.left_out == ("step in pytorch_model.bin",)


def test_folders_without_such_weights_are_told_what_is_expected(tmp_path: Path) -> None:
    old_folder(tmp_path / "old")
    convert(tmp_path / "old", tmp_path / "new")
    with pytest.raises(CheckpointError, match="safetensors already"):
        convert(tmp_path / "new", tmp_path / "other")
    with pytest.raises(CheckpointError, match="holds a model already"):
        convert(tmp_path / "old", tmp_path / "new")
    with pytest.raises(CheckpointError, match="is the folder that is to be converted"):
        convert(tmp_path / "old", tmp_path / "old", overwrite=True)
    with pytest.raises(CheckpointError, match="the name of the new folder is empty"):
        convert(tmp_path / "old", "")
    (tmp_path / "old" / "pytorch_model.bin").unlink()
    with pytest.raises(CheckpointError, match="expected pytorch_model.bin .*config.json"):
        convert(tmp_path / "old", tmp_path / "other")


def test_a_reader_with_a_known_hole_is_not_used() -> None:
    """CVE-2026-24747: torch 2.9 and older could be made to corrupt memory by such files."""
    with pytest.raises(CheckpointError, match="CVE-2026-24747.*torch 2.10 or newer"):
        _check_torch("2.9.1+cpu")
    _check_torch("2.10.0")
    _check_torch(torch.__version__)
