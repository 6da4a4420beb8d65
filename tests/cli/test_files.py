"""Output files: claimed before the work, complete or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bothways.cli.files import _header, claim, npy_writer
from bothways.errors import CheckpointError, UsageError
from tests.checkpoints.limits import file_size_limit


@pytest.mark.parametrize(("width", "parts"), [(1, [1]), (384, [3, 1, 2]), (99_999, [2, 9])])
def test_numpy_reads_what_was_written_part_by_part(
    width: int, parts: list[int], tmp_path: Path
) -> None:
    whole = np.arange(sum(parts) * width, dtype=np.float32).reshape(-1, width)
    with npy_writer(tmp_path / "x.npy") as write:
        for part in np.split(whole, np.cumsum(parts)[:-1]):
            write(part)
    found = np.load(tmp_path / "x.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy", mmap_mode="r"), whole)


def test_the_header_has_room_for_any_number_of_rows() -> None:
    assert len(_header(0, 0)) == len(_header(10**12, 99_999))


def test_other_layouts_are_written_in_rows(tmp_path: Path) -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    with npy_writer(tmp_path / "x.npy") as write:
        write(np.asfortranarray(matrix))
        write(matrix[:, ::-1])
    np.testing.assert_array_equal(
        np.load(tmp_path / "x.npy"), np.concatenate([matrix, matrix[:, ::-1]])
    )


def test_nothing_written_is_an_empty_matrix(tmp_path: Path) -> None:
    with npy_writer(tmp_path / "x.npy"):
        pass
    assert np.load(tmp_path / "x.npy").shape == (0, 0)


def fail_in_the_middle(file: Path) -> None:
    with npy_writer(file) as write:
        write(np.ones((2, 2), dtype=np.float32))
        raise ValueError("in the middle")


def test_after_an_error_the_old_file_stands(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(b"old")
    with pytest.raises(ValueError, match="in the middle"):
        fail_in_the_middle(file)
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def fill(file: Path, rows: int) -> None:
    with npy_writer(file) as write:
        for _ in range(rows):
            write(np.ones((1, 1_000), dtype=np.float32))


def test_a_full_disk_is_named_and_the_old_file_stands(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(b"old")
    with file_size_limit(10_000), pytest.raises(CheckpointError, match="the disk is full"):
        fill(file, 100)
    assert file.read_bytes() == b"old"


def test_an_output_is_claimed_before_the_work(tmp_path: Path) -> None:
    source = tmp_path / "texts.csv"
    claim(tmp_path / "new.npy", overwrite=False, source=source, suffix=".npy")
    (tmp_path / "old.npy").touch()
    claim(tmp_path / "old.npy", overwrite=True, source=source)
    with pytest.raises(CheckpointError, match=r"old\.npy exists.*--overwrite"):
        claim(tmp_path / "old.npy", overwrite=False, source=source)
    with pytest.raises(CheckpointError, match="is a folder"):
        claim(tmp_path, overwrite=True, source=source)
    with pytest.raises(UsageError, match=r"x\.np; expected a name that ends in \.npy"):
        claim(tmp_path / "x.np", overwrite=False, source=source, suffix=".npy")


def test_the_input_is_never_replaced_by_the_output(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("text\nfine\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match="is the input too"):
        claim(tmp_path / "." / "rows.csv", overwrite=True, source=source)
