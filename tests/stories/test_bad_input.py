"""What people really feed to it: each is handled and counted, or refused in one clear message."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from tests.checkpoints.models import edit_json
from tests.cli.command import Command
from tests.training.tiny import write_examples


class Bench:
    """A folder with a good train.csv and dev.csv, and the command over what a test puts there.

    Args:
        command: runs `bothways`.
        model: an encoder.
        folder: to work in.
    """

    def __init__(self, command: Command, model: Path, folder: Path) -> None:
        self.command, self.model, self.folder = command, model, folder
        write_examples(folder / "train.csv", 32)
        write_examples(folder / "dev.csv", 12, seed=1)

    def words(self, **files: Path) -> list[object]:
        """`bothways finetune` over these files."""
        given = {
            "model": self.model,
            "train": self.folder / "train.csv",
            "output": self.folder / "out",
            **files,
        }
        flags: list[object] = [
            word for name, value in given.items() for word in (f"--{name}", value)
        ]
        return ["finetune", *flags, "--epochs", "1", "--learning-rate", "1e-2"]

    def put(self, name: str, content: str | bytes) -> Path:
        """A file with this content."""
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def refuses(self, *parts: str, **files: Path) -> str:
        """Fine-tuning over these files fails with these parts in its message; no model is made."""
        message = self.command.fails(*self.words(**files), parts=parts)
        assert not (self.folder / "out" / "model.safetensors").exists()
        return message

    def copy_of_model(self) -> Path:
        """The encoder's folder, to be damaged."""
        return Path(shutil.copytree(self.model, self.folder / "damaged"))


@pytest.fixture
def bench(bothways: Command, tiny: Path, tmp_path: Path) -> Bench:
    return Bench(bothways, tiny, tmp_path)


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["empty.csv", "empty.tsv", "empty.jsonl", "empty.txt"])
def test_an_empty_file(name: str, bench: Bench) -> None:
    bench.refuses(name, "is empty", "at least one row", train=bench.put(name, ""))


def test_a_file_with_a_header_and_nothing_else(bench: Bench) -> None:
    bench.refuses("a.csv", "has no rows", train=bench.put("a.csv", "text,label\n"))


def test_a_file_that_is_not_there(bench: Bench) -> None:
    bench.refuses("there is no file", "no.csv", train=bench.folder / "no.csv")
    bench.refuses("is a folder", "train.csv", train=bench.folder)


def test_a_column_that_is_missing(bench: Bench) -> None:
    file = bench.put("a.csv", "body,stars\ngood,5\nbad,1\n")
    bench.refuses("a.csv", "'body', 'stars'", "--text", train=file)
    message = bench.command.fails(*bench.words(train=file), "--text", "bdy", "--label", "stars")
    assert "--text 'bdy'" in message
    assert "did you mean 'body'" in message


def test_a_mended_mistake_needs_no_other_folder(bench: Bench) -> None:
    bench.refuses("no.csv", train=bench.folder / "no.csv")
    bench.command(*bench.words())


def test_a_row_with_too_many_cells(bench: Bench) -> None:
    file = bench.put("a.csv", "text,label\ngood,yes\nbad, or not,no\n")
    bench.refuses("a.csv", "line 3", train=file)


def test_one_class_only(bench: Bench) -> None:
    file = bench.put("a.csv", "text,label\ngood,yes\nfine,yes\n")
    bench.refuses(
        "a.csv", "2 examples and one label", "'yes'", "at least two", "--label", train=file
    )


def test_a_label_in_dev_that_training_lacks(bench: Bench) -> None:
    dev = bench.put("d.csv", "text,label\ngreat,good\ndull,terrible\n")
    bench.refuses("d.csv", "line 3", "'terrible'", "bad, good", dev=dev)


def test_rows_without_a_label(bench: Bench) -> None:
    file = bench.put("a.csv", "text,label\ngood,yes\nfine,\nbad,no\n")
    bench.refuses("a.csv, line 3", "without a label", "take them out", train=file)


def test_latin_1_where_utf_8_is_expected(bench: Bench) -> None:
    file = bench.put("a.csv", "text,label\ngood,yes\ncaf\xe9,no\n".encode("latin-1"))
    bench.refuses("a.csv", "line 3", "0xe9", "--encoding latin-1", train=file)


def test_a_lone_surrogate(bench: Bench) -> None:
    file = bench.put("a.jsonl", '{"text": "x", "label": "a"}\n{"text": "\\ud83d", "label": "b"}\n')
    bench.refuses("a.jsonl", "line 2", "surrogate", train=file)


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("a.csv", b"PK\x03\x04 rest of a spreadsheet", ["spreadsheet", "save it as csv"]),
        ("a.csv", "text,label\na,b\n".encode("utf-16"), ["UTF-16", "--encoding utf-16"]),
        ("a.jsonl", b'{"text": "a", "label": "b"}\n{"text": "a"\n', ["line 2", "JSON"]),
        ("a.jsonl", b"[1, 2]\n", ["line 1", "object"]),
        ("a.csv.gz", b"\x1f\x8bnot really", ["damaged gzip"]),
    ],
)
def test_a_file_of_another_kind(name: str, content: bytes, parts: list[str], bench: Bench) -> None:
    bench.refuses(name, *parts, train=bench.put(name, content))


def test_weights_that_are_cut_short(bench: Bench) -> None:
    folder = bench.copy_of_model()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    bench.refuses("damaged/model.safetensors", model=folder)


def test_a_vocabulary_that_the_weights_do_not_have(bench: Bench) -> None:
    folder = bench.copy_of_model()
    edit_json(folder / "config.json", vocab_size=500)
    bench.refuses("vocab_size 500", "has 23 rows", "from the same model", model=folder)


def test_a_folder_without_a_tokenizer(bench: Bench) -> None:
    folder = bench.copy_of_model()
    for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    bench.refuses("damaged has no tokenizer", "tokenizer.json", "vocab.txt", model=folder)


def test_pickled_weights(bench: Bench) -> None:
    """CVE-2025-32434, CVE-2026-24747: opening such a file can run code."""
    folder = bench.copy_of_model()
    (folder / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(1)}, folder / "pytorch_model.bin")
    bench.refuses("pytorch_model.bin", "can run code", "bothways convert", model=folder)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("{", ["config.json", "not valid JSON", "line 1"]),
        ("[]", ["config.json", "expected an object"]),
        ('{"model_type": "bort"}', ["config.json", "bort"]),
    ],
)
def test_a_configuration_that_cannot_be(content: str, parts: list[str], bench: Bench) -> None:
    folder = bench.copy_of_model()
    (folder / "config.json").write_text(content, encoding="utf-8")
    bench.refuses(*parts, model=folder)


def test_a_folder_that_is_none_and_a_name_that_nobody_has(bench: Bench) -> None:
    empty = bench.folder / "empty"
    empty.mkdir()
    bench.refuses("empty has no config.json", model=empty)
    bench.refuses("no-such/model", model=Path("no-such/model"))


def test_an_output_folder_that_exists(bench: Bench) -> None:
    (bench.folder / "out").mkdir()
    bench.put("out/mine.txt", "mine")
    bench.refuses("out is not empty", "mine.txt", "--resume", "--overwrite")
    bench.refuses("is a file", "must be a folder", output=bench.folder / "train.csv")


# --- handled, and counted -------------------------------------------------------------------------


@pytest.fixture
def classifier(bench: Bench) -> Path:
    """A model that is trained on the good files."""
    bench.command(*bench.words())
    return bench.folder / "out"


def test_empty_and_blank_texts_are_predicted_and_counted(bench: Bench, classifier: Path) -> None:
    file = bench.put("a.csv", 'text\ngreat\n""\n"   "\n')
    done = bench.command("predict", "--model", classifier, "--input", file)
    assert len(done.lines) == 3
    assert "2 of 3 texts are empty" in done.err
    assert "a.csv, line 3" in done.err


def test_a_text_of_fifty_thousand_tokens_is_cut_and_counted(bench: Bench, classifier: Path) -> None:
    file = bench.put("a.csv", "text\n" + "great " * 50_000 + "\n")
    output = bench.folder / "p.jsonl"
    words = ("predict", "--model", classifier, "--input", file, "--output", output, "--json")
    ledger = bench.command(*words).json["ledger"]
    assert (ledger["tokens"], ledger["tokens_cut"], ledger["end"]) == (50_000, 49_978, "tail")
    whole = bench.command(*words, "--overwrite", "--policy", "windows").json["ledger"]
    assert (whole["tokens_cut"], whole["windows"]) == (0, 3125)
    assert len(output.read_text(encoding="utf-8").splitlines()) == 1


def test_characters_that_are_dropped_are_counted(bench: Bench, classifier: Path) -> None:
    file = bench.put("a.jsonl", json.dumps({"text": "gre\0at \ufffdfilm\u200b"}) + "\n")
    output = bench.folder / "p.jsonl"
    done = bench.command(
        *("predict", "--model", classifier, "--input", file, "--output", output, "--json")
    )
    assert done.json["ledger"]["dropped_characters"] >= 2
    told = bench.command(
        *("predict", "--model", classifier, "--input", file, "--output", output, "--overwrite")
    )
    assert "characters became no token" in told.out


def test_quotes_and_line_ends_inside_cells_are_read(bench: Bench) -> None:
    rows = ['"great,\n""lovely"" film",good', '"dull\n\nstory, it ended",bad'] * 8
    file = bench.put("q.csv", "text,label\n" + "\n".join(rows) + "\n")
    done = bench.command(*bench.words(train=file), "--test", file, "--json")
    assert done.json["count"] == 16


def test_what_looks_like_nothing_or_a_number_stays_text(bench: Bench) -> None:
    rows = ["NA,01", "null,1", "None,01", "nan,1"] * 4
    file = bench.put("n.csv", "text,label\n" + "\n".join(rows) + "\n")
    bench.command(*bench.words(train=file))
    stored = json.loads((bench.folder / "out" / "bothways.json").read_text(encoding="utf-8"))
    assert stored["task"]["labels"] == ["01", "1"]
    assert stored["provenance"]["ledger"]["texts"] == 16


def test_special_tokens_that_a_user_types_are_text_and_counted(
    bench: Bench, classifier: Path
) -> None:
    file = bench.put("a.csv", "text\ngreat [SEP] film [CLS]\n")
    output = bench.folder / "p.jsonl"
    words = ("predict", "--model", classifier, "--input", file, "--output", output, "--json")
    assert bench.command(*words).json["ledger"]["special_in_text"] == 2
