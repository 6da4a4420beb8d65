"""Files of a folder are replaced together and whole, or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bothways.errors import CheckpointError
from bothways.files import (
    Staged,
    read_json,
    read_json_object,
    write_bytes,
    write_json,
    write_text,
)
from tests.checkpoints.limits import file_size_limit

LIMIT = 10_000


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def stop_halfway(folder: Path) -> None:
    with Staged(folder) as files:
        files.text("old.txt", "new")
        files.remove("old.txt")
        raise KeyError


def write_too_much(folder: Path) -> None:
    with Staged(folder) as files:
        files.text("old.txt", "new")
        files.bytes("large.bin", b"0" * (LIMIT + 1))


def test_single_files_are_written_and_replaced(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "first")
    write_text(tmp_path / "a.txt", "žweit")
    write_bytes(tmp_path / "b.bin", b"\x00\xff")
    write_json(tmp_path / "c.json", {"word": "ž", "list": [1, None]})
    assert (tmp_path / "a.txt").read_bytes() == "žweit".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff"
    assert read_json(tmp_path / "c.json") == {"word": "ž", "list": [1, None]}
    assert "ž" in (tmp_path / "c.json").read_text(encoding="utf-8")
    assert names(tmp_path) == ["a.txt", "b.bin", "c.json"]


def test_nothing_moves_in_before_the_block_ends(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    with Staged(tmp_path) as files:
        files.text("old.txt", "new")
        files.text("deep/er/other.txt", "other")
        files.remove("stale.txt")
        assert (tmp_path / "old.txt").read_text() == "old"
        (tmp_path / "stale.txt").touch()
    assert (tmp_path / "old.txt").read_text() == "new"
    assert names(tmp_path) == ["deep", "deep/er", "deep/er/other.txt", "old.txt"]


def test_an_error_in_the_block_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    with pytest.raises(KeyError):
        stop_halfway(tmp_path)
    assert names(tmp_path) == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"


def test_a_new_folder_does_not_stay_when_nothing_came_into_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        stop_halfway(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_full_disk_leaves_the_old_files_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    match = r"the disk is full .* before is intact; free"
    with file_size_limit(LIMIT), pytest.raises(CheckpointError, match=match):
        write_too_much(tmp_path)
    assert names(tmp_path) == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"


def test_the_limit_is_what_makes_the_disk_full(tmp_path: Path) -> None:
    with file_size_limit(LIMIT):
        write_bytes(tmp_path / "fits.bin", b"0" * LIMIT)
    assert (tmp_path / "fits.bin").stat().st_size == LIMIT


def test_a_place_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written: .*check that it is a folder"):
        write_text(tmp_path / "file" / "a.txt", "a")


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    """Folders of the hub's cache hold links to files that other revisions share."""
    (tmp_path / "shared.txt").write_text("shared")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").symlink_to(tmp_path / "shared.txt")
    write_text(tmp_path / "folder" / "a.txt", "own")
    assert (tmp_path / "shared.txt").read_text() == "shared"
    assert (tmp_path / "folder" / "a.txt").read_text() == "own"


def test_an_open_file_keeps_its_old_content(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")
    with (tmp_path / "a.txt").open() as reader:
        write_text(tmp_path / "a.txt", "new")
        assert reader.read() == "old"


def test_written_files_have_the_usual_rights(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "a")
    (tmp_path / "usual.txt").touch()
    modes = {os.stat(tmp_path / name).st_mode for name in ("a.txt", "usual.txt")}
    assert len(modes) == 1


def test_bad_json_names_file_and_place(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(CheckpointError, match=r"config\.json is not there"):
        read_json(path)
    path.write_text('{"a": 1,\n "b": }')
    with pytest.raises(CheckpointError, match=r"config\.json is not valid JSON: .* in line 2"):
        read_json(path)
    path.write_bytes('{"a": "ü"}'.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"is not UTF-8 \(byte 7 is 0xfc\)"):
        read_json(path)
    path.write_text("[1]")
    with pytest.raises(CheckpointError, match="holds a JSON list; expected an object"):
        read_json_object(path)


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"a": 1}).encode())
    assert read_json_object(tmp_path / "a.json") == {"a": 1}
