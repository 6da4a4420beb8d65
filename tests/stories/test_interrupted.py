"""A run that is killed, told to stop, or finds the disk full: nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import bothways as library
from tests.checkpoints.limits import file_size_limit
from tests.cli.command import Command
from tests.training.tiny import write_examples


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    folder = tmp_path / "examples"
    folder.mkdir()
    write_examples(folder / "train.csv", 400)
    write_examples(folder / "dev.csv", 24, seed=1)
    return folder


def words(tiny: Path, examples: Path, output: Path) -> list[str]:
    given = ["finetune", "--model", str(tiny), "--train", str(examples / "train.csv")]
    given += ["--dev", str(examples / "dev.csv"), "--epochs", "8", "--batch-size", "8"]
    given += ["--learning-rate", "1e-3", "--checkpoint-every", "20", "--log-every", "20"]
    return [*given, "--threads", "1", "--output", str(output)]


def start(given: list[str]) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "bothways", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def stop_after(process: subprocess.Popen[str], output: Path, step: int, with_signal: int) -> str:
    """Send a signal once a checkpoint of that step or a later one is there."""

    def newest() -> int:
        names = [path.name for path in (output / "checkpoints").glob("step-*")]
        return max((int(name.removeprefix("step-")) for name in names), default=0)

    while newest() < step and process.poll() is None:
        try:
            process.wait(timeout=0.01)
        except subprocess.TimeoutExpired:
            continue
    process.send_signal(with_signal)
    _, told = process.communicate(timeout=60)
    return told


def same_weights(one: Path, other: Path) -> bool:
    left, right = (load_file(folder / "model.safetensors") for folder in (one, other))
    return left.keys() == right.keys() and all(torch.equal(left[n], right[n]) for n in left)


def dev_lines(folder: Path) -> list[dict[str, object]]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [
        {key: value for key, value in line.items() if "second" not in key and key != "peak_share"}
        for line in map(json.loads, text.splitlines())
        if line["split"] == "dev"
    ]


def test_a_killed_run_that_goes_on_ends_like_one_that_was_not(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    """transformers#11323, #8874, #11294, PR#40691: other results after resuming."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = start(words(tiny, examples, killed))
    stop_after(process, killed, 40, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not (killed / "model.safetensors").exists()
    done = bothways(*words(tiny, examples, killed), "--resume")
    assert "resumed at step " in done.err
    bothways(*words(tiny, examples, whole))
    assert same_weights(whole, killed)
    assert dev_lines(whole) == dev_lines(killed)
    results = [library.load(folder).predict(["great film"]) for folder in (whole, killed)]
    assert results[0] == results[1]


def test_a_run_that_is_told_to_stop_saves_and_says_how_to_go_on(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    output = tmp_path / "told"
    process = start(words(tiny, examples, output))
    told = stop_after(process, output, 20, signal.SIGTERM)
    assert process.returncode == 143
    command = f"bothways finetune --config {output / 'recipe.toml'} --resume"
    assert command in told
    assert "Traceback" not in told
    done = bothways(*command.split()[1:])
    assert "resumed at step" in done.err
    assert (output / "model.safetensors").exists()


def test_a_full_disk_keeps_the_last_good_model(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    output = tmp_path / "model"
    short = [*words(tiny, examples, output), "--epochs", "1"]
    bothways(*short)
    before = library.load(output).predict(["great film", "dull film"])
    with file_size_limit(20_000):
        message = bothways.fails(*short, "--overwrite", "--seed", "9")
    assert "the disk is full" in message
    assert "free some space" in message
    assert library.load(output).predict(["great film", "dull film"]) == before


def test_a_full_disk_leaves_no_half_of_an_output(
    bothways: Command, minilm: Path, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text("a text\n" * 40, encoding="utf-8")
    given = ("embed", "--model", minilm, "--input", tmp_path / "texts.txt")
    with file_size_limit(9_000):
        bothways.fails(*given, "--output", tmp_path / "x.npy", parts=["the disk is full"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.txt"]


def test_the_model_that_is_loaded_can_be_trained_into_its_own_folder(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny, tmp_path / "model")
    given = [*words(folder, examples, folder), "--epochs", "1"]
    bothways.fails(*given, parts=["is not empty", "--overwrite"])
    loaded = library.load(folder)
    vectors = loaded.embed(["great film"]).vectors
    bothways(*given, "--overwrite")
    assert (loaded.embed(["great film"]).vectors == vectors).all()  # its pages are its own still
    assert len(library.load(folder).predict(["great film"])) == 1
