"""A name on the hub is found in a cache that is laid out by hand; everything else is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import huggingface_hub
import pytest

from bothways.checkpoints.hub import find_folder
from bothways.checkpoints.load import load_parts
from bothways.errors import CheckpointError, TokenizerError
from bothways.tokenization.tokenizer import load_tokenizer
from tests.checkpoints.models import save_theirs

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An offline cache with the model org/tiny."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    model = tmp_path / "hub" / "models--org--tiny"
    snapshot = model / "snapshots" / REVISION
    save_theirs(tmp_path / "tiny")
    (model / "blobs").mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(REVISION)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted((tmp_path / "tiny").iterdir())):
        shutil.move(path, model / "blobs" / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    return snapshot


def test_a_name_is_found_in_the_cache_without_a_network(cache: Path) -> None:
    assert find_folder("org/tiny") == cache
    parts = load_parts("org/tiny")
    assert parts.report.source == "org/tiny"
    assert parts.folder == cache


def test_a_name_that_is_nowhere_says_what_to_do(cache: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"'org/other' is neither a folder here nor a model in the hub's"
    ) as caught:
        find_folder("org/other")
    assert "give the path" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_goes_before_a_name(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cache.parents[3])
    Path("org/tiny").mkdir(parents=True)
    assert find_folder("org/tiny") == Path("org/tiny")


@pytest.mark.parametrize("source", ["./absent", "/no/such/folder", "a/b/c", Path("org/tiny")])
def test_a_path_that_is_not_there_is_not_looked_up(cache: Path, source: str | Path) -> None:
    with pytest.raises(CheckpointError, match="there is no folder"):
        find_folder(source)


@pytest.mark.parametrize("source", ["", "  "])
def test_an_empty_name_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    save_theirs(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="the name of the model is empty"):
        find_folder(source)
    with pytest.raises(TokenizerError, match="the name of the folder is empty"):
        load_tokenizer(source)
    assert find_folder(".") == Path()


def test_an_impossible_name_is_refused(cache: Path) -> None:
    with pytest.raises(CheckpointError, match="nor a possible name on the hub"):
        find_folder("org/a--b..c")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(CheckpointError, match=rf"is a file; .* try {tmp_path}"):
        find_folder(tmp_path / "model.safetensors")
