"""From raw text to shards: by many workers, after a kill, with what was left out counted."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bothways.cli.main import main
from bothways.data import prepare as module
from bothways.data import units
from bothways.data.manifest import Manifest
from bothways.data.prepare import PrepareSettings, prepare
from bothways.data.shards import Shards
from bothways.errors import CheckpointError, DataError, TrainingError, UsageError
from tests.data.corpora import documents, make_shards, tokenizer, write_corpus

ENOUGH_SECONDS = 120  # a process that hangs never ends


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder of shards."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "UNIT_CHARACTERS", 3000)
    monkeypatch.setattr(module, "UNIT_CHARACTERS", 3000)


def test_text_that_the_vocabulary_does_not_know_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_shards(tmp_path / "known", documents())
    assert not caplog.records
    make_shards(tmp_path / "foreign", ("日本 語 は 難しい", "☃ ☃ word"))
    assert "of the tokens stand for what the vocabulary" in caplog.text


def test_counts_add_up(tmp_path: Path) -> None:
    odd = ("\x00", "word [SEP] more", "日本 ☃", "ba")
    manifest = make_shards(tmp_path, documents() + odd)
    counts = manifest.counts
    assert counts["documents"] == len(documents()) + 4
    assert counts["documents_empty"] == 1
    assert counts["special_in_text"] == 1
    assert counts["dropped_characters"] == 1
    assert counts["unknown_pieces"] >= 3
    assert counts["documents_of_one_token"] >= 1
    assert counts["documents_near_duplicate"] == counts["documents_split"] == 0
    assert counts["documents_train"] + counts["documents_heldout"] == len(documents()) + 3
    for split in ("train", "heldout"):
        shards = Shards(tmp_path / "shards", split)
        assert (counts[f"rows_{split}"], counts[f"tokens_{split}"]) == (
            shards.num_rows,
            shards.num_tokens,
        )
    assert contents(tmp_path / "shards").keys() == {
        "manifest.json", "train-00000.arrow", "heldout-00000.arrow",
        "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json",
        "tokenizer/special_tokens_map.json",
    }  # fmt: skip


@pytest.mark.usefixtures("small_units")
def test_workers_change_nothing(tmp_path: Path) -> None:
    """transformers#5486; skrub#1251; vllm llm-compressor#2007: forked workers hung or warned."""
    path = write_corpus(tmp_path / "corpus.txt", documents())
    seen: dict[int, list[int]] = {}
    for workers in (1, 3):
        units_seen: list[units.Unit] = []
        settings = PrepareSettings((path,), tmp_path / str(workers), workers=workers)
        prepare(settings, tokenizer(), on_unit=units_seen.append)
        seen[workers] = [unit.number for unit in units_seen]
    assert sorted(seen[3]) == seen[1] == list(range(len(seen[1])))
    assert len(seen[1]) > 5
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


PREPARE = """
import sys
from bothways.data import prepare, units
units.UNIT_CHARACTERS = prepare.UNIT_CHARACTERS = 3000
from bothways.cli.main import main
sys.exit(main(["prepare", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_run_goes_on_to_the_same_bytes(
    tmp_path: Path, project: Path, workers: int
) -> None:
    path = write_corpus(tmp_path / "corpus.txt", documents())
    tokenizer().save(tmp_path / "tokenizer")
    environment = {**os.environ, "PYTHONPATH": str(project / "src")}
    common = ["--input", path, "--tokenizer", str(tmp_path / "tokenizer"), "--workers"]

    def start(folder: str, *more: str) -> subprocess.Popen[str]:
        words = [*common, str(workers), "--output", str(tmp_path / folder), *more]
        return subprocess.Popen(
            [sys.executable, "-c", PREPARE, *words],
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )

    whole = start("whole")
    assert whole.communicate(timeout=ENOUGH_SECONDS)[1] is not None
    assert whole.returncode == 0

    killed = start("killed")
    folder = tmp_path / "killed" / "units"
    ends = time.monotonic() + ENOUGH_SECONDS
    while killed.poll() is None and len(list(folder.glob("*.arrow"))) < 2:
        assert time.monotonic() < ends
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=ENOUGH_SECONDS)
    assert killed.returncode == -signal.SIGKILL  # it was not done yet
    finished = {p.name: p.stat().st_mtime_ns for p in folder.glob("*.arrow")}
    assert finished
    assert not (tmp_path / "killed" / "manifest.json").exists()

    without = start("killed")
    assert "--resume" in without.communicate(timeout=ENOUGH_SECONDS)[1]
    assert without.returncode == 1

    resumed = start("killed", "--resume")
    said = resumed.communicate(timeout=ENOUGH_SECONDS)[1]
    assert resumed.returncode == 0, said
    assert "units were there already" in said
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.usefixtures("small_units")
def test_units_of_other_text_and_damaged_ones_are_made_again(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "corpus.txt", documents())
    settings = PrepareSettings((path,), tmp_path / "shards", workers=1)
    expected = PrepareSettings((path,), tmp_path / "expected", workers=1)
    prepare(expected, tokenizer())

    def stop(unit: units.Unit) -> None:
        if unit.number == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(settings, tokenizer(), on_unit=stop)
    files = sorted((tmp_path / "shards" / "units").glob("*.arrow"))
    assert len(files) == 6
    files[0].write_bytes(files[1].read_bytes())  # other text
    files[2].write_bytes(files[2].read_bytes()[:50])  # cut short
    made: list[int] = []
    again = PrepareSettings((path,), tmp_path / "shards", workers=1, resume=True)
    prepare(again, tokenizer(), on_unit=lambda unit: made.append(unit.number))
    assert made[:2] == [0, 2]
    assert made[2] == 6
    assert contents(tmp_path / "shards") == contents(tmp_path / "expected")


def test_a_complete_folder_needs_nothing_and_other_settings_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = make_shards(tmp_path)
    before = contents(tmp_path / "shards")
    caplog.set_level(logging.INFO, "bothways")
    path = str(tmp_path / "corpus.txt")
    assert prepare(
        PrepareSettings((path,), tmp_path / "shards", resume=True), tokenizer()
    ).as_dict() == manifest.as_dict()  # fmt: skip
    assert "nothing to do" in caplog.text
    other = PrepareSettings(
        (path,), tmp_path / "shards", resume=True, held_out=0.2, document="line"
    )
    with pytest.raises(TrainingError) as caught:
        prepare(other, tokenizer("bpe"))
    said = str(caught.value)
    for part in ('document was "blank-line" and is "line"', "held_out was 0.01", "tokenizer was"):
        assert part in said
    with pytest.raises(TrainingError, match="is not empty; go on .* --resume"):
        prepare(PrepareSettings((path,), tmp_path / "shards"), tokenizer())
    assert contents(tmp_path / "shards") == before


def test_overwrite_replaces_shards_and_leaves_other_files(tmp_path: Path) -> None:
    make_shards(tmp_path)
    (tmp_path / "shards" / "notes.txt").write_text("mine")
    (tmp_path / "shards" / "train-00007.arrow").write_text("old")
    manifest = make_shards(tmp_path, documents()[:40], overwrite=True)
    assert manifest.counts["documents"] == 40
    names = contents(tmp_path / "shards").keys()
    assert "notes.txt" in names
    assert "train-00007.arrow" not in names


def test_held_out_documents_are_fixed_by_their_text(tmp_path: Path) -> None:
    """Whatever else the corpus holds, and whichever tokenizer reads it."""
    texts = documents(600, 9)

    def held(name: str, some: tuple[str, ...], **options: object) -> set[str]:
        make_shards(tmp_path / name, some, held_out=0.1, **options)
        shards = Shards(tmp_path / name / "shards", "heldout")
        return {some[shards.document(row)] for row in range(len(shards))}

    whole = held("whole", texts)
    assert 0.05 < len(whole) / len(set(texts)) < 0.15
    assert held("half", texts[::2]) == whole & set(texts[::2])
    assert held("turned", texts[::-1]) == whole
    assert held("bpe", texts, tokenizer=tokenizer("bpe")) == whole


@pytest.mark.parametrize(
    ("count", "share", "held"),
    [(1, 0.01, 0), (2, 0.01, 1), (5, 0.01, 1), (2, 0.99, 1), (5, 0.999, 4), (5, 0.0, 0)],
)
def test_never_everything_and_never_nothing_is_held_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, share: float, held: int
) -> None:
    manifest = make_shards(tmp_path, documents()[:count], held_out=share)
    assert manifest.counts["documents_heldout"] == held
    assert manifest.counts["documents_train"] == count - held
    assert ("nothing is held out" in caplog.text) == (held == 0 and share > 0)


def test_equal_documents_are_on_one_side(tmp_path: Path) -> None:
    manifest = make_shards(tmp_path, documents()[:1] * 6 + documents()[1:3])
    counts = manifest.counts
    assert {counts["documents_train"], counts["documents_heldout"]} in ({7, 1}, {6, 2}, {1, 7})
    alike = make_shards(tmp_path / "same", documents()[:1] * 6)
    assert alike.counts["documents_heldout"] == 0


def test_near_duplicates_are_left_out_if_asked(tmp_path: Path) -> None:
    texts = documents()[:60]
    long = [text for text in texts if len(text.split()) > 60]
    assert len(long) > 3
    copies = tuple(text + " Ba." for text in long)
    # Of one-word texts, some are equal.
    kept = make_shards(tmp_path / "kept", texts + copies)
    dropped = make_shards(tmp_path / "dropped", texts + copies, drop_near_duplicates=True)
    assert kept.counts["documents_near_duplicate"] == 0
    again = len(texts) - len(set(texts))
    assert dropped.counts["documents_near_duplicate"] == len(copies) + again
    rows = {
        shards.document(row)
        for shards in (Shards(tmp_path / "dropped" / "shards", s) for s in ("train", "heldout"))
        for row in range(len(shards))
    }
    assert max(rows) < len(texts)  # the first of each stays


@pytest.mark.usefixtures("small_units")
def test_errors_of_the_input_come_through_from_workers(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes("\n\n".join(documents()).encode() + b"\n\nbad \xff here\n")
    with pytest.raises(DataError, match=r"corpus\.txt: lines that are not utf-8"):
        prepare(PrepareSettings((str(path),), tmp_path / "out", workers=2), tokenizer())


def test_no_text_and_no_tokens_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no text in it"):
        make_shards(tmp_path / "a", (" ", "\n"))
    with pytest.raises(DataError, match="no document became a token"):
        make_shards(tmp_path / "b", ("\x00",))


def test_a_full_disk_keeps_what_is_finished(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "corpus.txt", documents())
    settings = PrepareSettings((path,), tmp_path / "shards", workers=1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(CheckpointError, match="the disk is full"):
            prepare(settings, tokenizer())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "shards" / "manifest.json").exists()
    resumed = PrepareSettings((path,), tmp_path / "shards", workers=1, resume=True)
    assert prepare(resumed, tokenizer()).counts["documents"] == len(documents())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"held_out": 1.0}, "held-out share is 1.0"),
        ({"workers": 0}, "--workers is 0"),
        ({"resume": True, "overwrite": True}, "give one"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        PrepareSettings(("a",), Path("b"), **change)  # type: ignore[arg-type]


def test_the_command_says_what_became_of_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_corpus(tmp_path / "corpus.txt", (*documents(), "日本 [MASK]"))
    tokenizer().save(tmp_path / "tokenizer")
    words = ["prepare", "--input", path, "--tokenizer", str(tmp_path / "tokenizer"), "--output"]
    assert main([*words, str(tmp_path / "a"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["counts"] == dict(Manifest.read(tmp_path / "a").counts)
    assert main([*words, str(tmp_path / "b"), "--held-out", "0.1"]) == 0
    out = capsys.readouterr().out
    assert "held out" in out
    assert "1 special tokens in the text were read as plain text" in out
    assert main([*words, str(tmp_path / "b")]) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "c"), "--held-out", "2"]) == 2
    for action in ((), ("--overwrite",)):
        assert main([*words, path, *action]) == 1
        assert "is a file" in capsys.readouterr().err
    learn = ["tokenizer", "train", "--vocab-size", "60", "--input", path, "--output", path]
    assert main([*learn, "--overwrite"]) == 1
    assert "is a file" in capsys.readouterr().err
    assert Path(path).read_text(encoding="utf-8").endswith("[MASK]\n")
