"""`bothways embed`: a file of texts to a file of vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bothways.inference.model import load
from tests.cli.command import LEDGER_KEYS, Command
from tests.inference.encoders import threads

TEXTS = ["the film was great", "", "a long story, it ended", "dull " * 30]
ROUNDING = 1e-6


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return file


def test_vectors_are_those_of_the_library(
    bothways: Command, tiny: Path, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "new folder" / "x.npy"
    done = bothways("embed", "--model", tiny, "--input", texts, "--output", output)
    vectors = np.load(output)
    expected = load(tiny).embed(TEXTS)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - expected.vectors).max() < ROUNDING
    assert f"{output}: 4 vectors of 16 numbers" in done.out
    assert expected.ledger.sentence() in done.out
    assert [path.name for path in output.parent.iterdir()] == ["x.npy"]


def test_the_json_is_that_of_the_interface(
    bothways: Command, tiny: Path, texts: Path, tmp_path: Path
) -> None:
    done = bothways(
        "embed", "--model", tiny, "--input", texts, "--output", tmp_path / "x.npy", "--json"
    )
    assert set(done.json) == {"model", "texts", "dimension", "seconds", "bit_invariant", "ledger"}
    assert done.json["model"] == str(tiny)
    assert (done.json["texts"], done.json["dimension"]) == (4, 16)
    assert done.json["seconds"] > 0
    assert set(done.json["ledger"]) == LEDGER_KEYS
    assert done.json["ledger"] == load(tiny).embed(TEXTS).ledger.as_dict()
    assert done.json["bit_invariant"] is True


def test_flags_reach_the_library(
    bothways: Command, tiny: Path, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "x.npy"
    done = bothways(
        *("embed", "--model", tiny, "--input", texts, "--output", output, "--json"),
        *("--pooling", "cls", "--normalize", "--prompt", "very ", "--max-length", "6"),
        *("--policy", "tail", "--batch-tokens", "7", "--threads", "2"),
    )
    with threads(2):
        expected = load(tiny).embed(
            TEXTS, pooling="cls", normalize=True, prompt="very ", max_length=6, policy="tail"
        )
    assert np.abs(np.load(output) - expected.vectors).max() < ROUNDING
    assert done.json["ledger"] == expected.ledger.as_dict()


@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("a.csv", 'number,text\n1,"the film, great"\n2,NA\n', ()),
        ("a.csv", 'number,body\n1,"the film, great"\n2,NA\n', ("--text", "body")),
        ("a.tsv", "the film, great\t1\nNA\t2\n", ("--no-header", "--text", "1")),
        ("a.jsonl", '{"text": "the film, great"}\n{"text": "NA"}\n', ()),
        ("a.txt", "the film, great\nNA\n", ()),
        ("a.txt", "1 the film, great\n0 NA\n", ("--format", "label-text")),
        ("a.txt", "text\tx\nthe film, great\t1\nNA\t2\n", ("--text", "text", "--format", "tsv")),
    ],
)
def test_every_format_gives_its_texts(
    name: str,
    content: str,
    flags: tuple[str, ...],
    bothways: Command,
    tiny: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    output = tmp_path / "x.npy"
    bothways("embed", "--model", tiny, "--input", tmp_path / name, "--output", output, *flags)
    expected = load(tiny).embed(["the film, great", "NA"]).vectors
    assert np.abs(np.load(output) - expected).max() < ROUNDING


def test_pairs_are_read_from_two_columns(bothways: Command, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("sentence1\tsentence2\nthe film\tdull\n", encoding="utf-8")
    output = tmp_path / "x.npy"
    bothways("embed", "--model", tiny, "--input", tmp_path / "a.tsv", "--output", output)
    expected = load(tiny).embed([("the film", "dull")]).vectors
    assert np.abs(np.load(output) - expected).max() < ROUNDING


def test_another_encoding_is_read(bothways: Command, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("caf\xe9 film\n".encode("latin-1"))
    words = ["embed", "--model", tiny, "--input", tmp_path / "a.txt"]
    words += ["--output", tmp_path / "x.npy"]
    bothways.fails(*words, parts=["a.txt", "line 1", "0xe9", "--encoding latin-1"])
    assert not (tmp_path / "x.npy").exists()
    bothways(*words, "--encoding", "latin-1")
    assert len(np.load(tmp_path / "x.npy")) == 1


def test_an_output_that_exists_is_kept(
    bothways: Command, tiny: Path, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "x.npy"
    output.write_bytes(b"mine")
    words = ["embed", "--model", tiny, "--input", texts, "--output", output]
    bothways.fails(*words, parts=[str(output), "exists", "--overwrite"])
    assert output.read_bytes() == b"mine"
    bothways(*words, "--overwrite")
    assert np.load(output).shape == (4, 16)
    bothways.fails(*words[:-1], tmp_path, code=2, parts=[".npy"])
    (tmp_path / "folder.npy").mkdir()
    bothways.fails(*words[:-1], tmp_path / "folder.npy", parts=["is a folder"])


def test_an_error_in_the_middle_leaves_no_file(
    bothways: Command, tiny: Path, tmp_path: Path
) -> None:
    rows = [json.dumps({"text": "the film"}), '{"text": "bad \\ud800"}', "{"]
    (tmp_path / "a.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    words = ["embed", "--model", tiny, "--input", tmp_path / "a.jsonl"]
    bothways.fails(*words, "--output", tmp_path / "x.npy", parts=["a.jsonl"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("flags", "code", "parts"),
    [
        (("--device", "cuda:7"), 2, ["'cuda:7'", "cpu"]),
        (("--device", "banana"), 2, ["'banana'", "cpu"]),
        (("--threads", "0"), 2, ["--threads is 0"]),
        (("--batch-tokens", "0"), 2, ["batch_tokens is 0"]),
        (("--max-length", "25"), 2, ["max_length is 25", "at most 24"]),
        (("--policy", "windows"), 2, ["windows", "head+tail"]),
        (("--encoding", "latin1k"), 2, ["latin1k"]),
        (("--text", "body"), 1, ["'body'", "it has: 'text'"]),
    ],
)
def test_flags_that_cannot_be_are_refused(
    flags: tuple[str, ...],
    code: int,
    parts: list[str],
    bothways: Command,
    tiny: Path,
    texts: Path,
    tmp_path: Path,
) -> None:
    if "--text" in flags:
        texts = tmp_path / "a.csv"
        texts.write_text("text\nthe film\n", encoding="utf-8")
    words = ["embed", "--model", tiny, "--input", texts, "--output", tmp_path / "x.npy"]
    bothways.fails(*words, *flags, code=code, parts=parts)
    assert not (tmp_path / "x.npy").exists()


def test_half_precision(bothways: Command, tiny: Path, texts: Path, tmp_path: Path) -> None:
    words = ["embed", "--model", tiny, "--input", texts]
    bothways(*words, "--output", tmp_path / "x.npy")
    bothways(*words, "--output", tmp_path / "y.npy", "--precision", "bfloat16")
    full, half = np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy")
    assert half.dtype == np.float32
    assert 0 < np.abs(full - half).max() < 0.2
