"""Lines of text files: where they end, how they are decoded, and what is said when they cannot be.

A wrong byte, a wrong kind of file and a missing one are each one clear error.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bothways.data.lines import NOT_TEXT, check_encoding, read_head, read_lines, read_text
from bothways.data.problems import LINES_SHOWN, Problems, shown
from bothways.errors import DataError, UsageError


def write(folder: Path, content: bytes, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    text = "a\x0bb\x0cc\x85d\u2028e\rf\nlast"
    path = write(tmp_path, text.encode())
    assert list(read_lines(path)) == text.split("\n")


def test_carriage_returns_of_line_ends_go_unless_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, b"a\r\nb\n\r\nc")
    assert list(read_lines(path)) == ["a", "b", "", "c"]
    assert list(read_lines(path, keep_ends=True)) == ["a\r\n", "b\n", "\r\n", "c"]
    assert read_text(path) == "a\r\nb\n\r\nc"


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf_8"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path, b"\xef\xbb\xbftext,label\n\xef\xbb\xbfkept,1\n")
    # In the middle of a file the same character is a zero-width no-break space, and stays.
    assert list(read_lines(path, encoding=encoding)) == ["text,label", "\ufeffkept,1"]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "gb18030", "utf-16", "utf-32-be"])
def test_other_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    lines = ["café", "", "naïve\tÜber"]
    path = write(tmp_path, "\n".join(lines).encode(encoding))
    assert list(read_lines(path, encoding=encoding)) == lines


def test_latin_1_bytes_in_utf_8_name_file_line_byte_and_the_way_out(tmp_path: Path) -> None:
    path = write(tmp_path, b"plain\n1 caf\xe9 fine\nplain\n0 na\xefve\n")
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    message = str(caught.value)
    assert str(path) in message
    assert r"line 2: byte 0xe9 at position 6, in '1 caf\xe9 fine'" in message
    assert "line 4: byte 0xef" in message
    assert "--encoding latin-1" in message


def test_no_line_is_handed_out_after_one_that_cannot_be_read(tmp_path: Path) -> None:
    lines = read_lines(write(tmp_path, b"first\n\xff\nthird\n"))
    assert next(lines) == "first"
    with pytest.raises(DataError):
        next(lines)


def test_bytes_that_are_not_the_encoding_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "日本語\n".encode())
    with pytest.raises(DataError, match=r"not ascii: 1(.|\n)*usual one is --encoding utf-8"):
        list(read_lines(path, encoding="ascii"))
    odd = write(tmp_path, "a\nb\n".encode("utf-16") + b"\x00", "odd.txt")
    with pytest.raises(DataError, match="after line 2: not utf-16"):
        list(read_lines(odd, encoding="utf-16"))


@pytest.mark.parametrize("encoding", ["klingon", "base64", "hex", ""])
def test_an_unknown_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(UsageError, match=r"no text encoding.*utf-8, latin-1"):
        check_encoding(encoding)


def test_gzip_is_known_by_its_bytes_and_not_by_its_name(tmp_path: Path) -> None:
    packed = gzip.compress(b"a\nb\n")
    for name in ("data.csv.gz", "data.csv"):
        assert list(read_lines(write(tmp_path, packed, name))) == ["a", "b"]
    assert list(read_lines(write(tmp_path, b"plain\n", "plain.gz"))) == ["plain"]


@pytest.mark.parametrize("damage", ["cut", "changed", "header"])
def test_a_damaged_gzip_is_one_clear_error(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress(os.urandom(5000) + b"\n"))
    if damage == "cut":
        packed = packed[:-500]
    elif damage == "changed":
        packed[-6] ^= 0xFF
    else:
        packed[2] = 9  # a compression method that does not exist
    path = write(tmp_path, bytes(packed), "data.gz")
    with pytest.raises(DataError, match="damaged gzip"):
        list(read_lines(path, encoding="latin-1"))


def test_a_missing_file_a_folder_and_a_pipe(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file .*none\.csv \(looked in "):
        read_head(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"is a folder.*holds no files"):
        read_head(tmp_path)
    write(tmp_path, b"x", "inside.csv")
    with pytest.raises(DataError, match=r"is a folder.*holds inside\.csv"):
        list(read_lines(tmp_path))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="no regular file"):
        read_head(pipe)


def test_a_path_through_a_file_cannot_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, b"x")
    with pytest.raises(DataError, match="cannot be read: Not a directory"):
        read_head(path / "inside.csv")


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match="is empty"):
        list(read_lines(write(tmp_path, content)))


@pytest.mark.parametrize("magic", NOT_TEXT)
def test_files_that_are_no_text_are_named(tmp_path: Path, magic: bytes) -> None:
    path = write(tmp_path, magic + b" and more\n", "data.csv")
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert NOT_TEXT[magic] in str(caught.value)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r")))
def test_lines_put_together_are_the_text(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("lines") / "data.txt"
    path.write_bytes(("x" + text).encode())
    assert "".join(read_lines(path, keep_ends=True)) == "x" + text
    assert "\n".join(read_lines(path)) == ("x" + text).removesuffix("\n")


def test_problems_show_the_first_ten_and_count_the_rest() -> None:
    problems = Problems("a.csv", what="rows that are wrong", advice="mend them")
    problems.raise_if_any()
    assert not problems
    for line in range(1, LINES_SHOWN + 4):
        problems.add(line, "wrong")
    assert problems
    with pytest.raises(DataError) as caught:
        problems.raise_if_any()
    lines = str(caught.value).splitlines()
    assert lines[0] == "a.csv: rows that are wrong: 13"
    assert lines[1 : LINES_SHOWN + 1] == [f"  line {n}: wrong" for n in range(1, LINES_SHOWN + 1)]
    assert lines[LINES_SHOWN + 1 :] == ["  and 3 more", "mend them"]


def test_shown_cuts_long_texts() -> None:
    assert shown("a\tb") == r"'a\tb'"
    assert shown("x" * 100, width=5) == "'xxxxx...'"
