"""`bothways finetune` as a command: its output, its recipe, its refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bothways.inference.model import load
from tests.cli.command import LEDGER_KEYS, Command
from tests.training.tiny import write_examples


def words(tiny: Path, examples: Path, output: Path, *more: str | Path) -> list[str | Path]:
    """A short run over the examples."""
    given: list[str | Path] = ["finetune", "--model", tiny, "--train", examples / "train.csv"]
    given += ["--learning-rate", "2e-2", "--epochs", "1", "--batch-size", "16"]
    return [*given, "--output", output, *more]


def test_the_output_of_a_run(bothways: Command, tiny: Path, examples: Path, tmp_path: Path) -> None:
    output = tmp_path / "model"
    dev = ("--dev", examples / "dev.csv", "--json")
    done = bothways(*words(tiny, examples, output, *dev))
    found = done.json
    expected = {"task", "model", "data", "count", "metrics", "runs", "best", "spread"}
    expected |= {"learning_curve", "ledger", "seconds"}
    assert set(found) == expected
    assert (found["task"], found["count"], found["model"]) == ("classify", 24, str(output))
    assert set(found["metrics"]["accuracy"]) == {"value", "low", "high"}
    assert set(found["ledger"]) == LEDGER_KEYS
    assert [run["name"] for run in found["runs"]] == [found["best"]]
    assert "2 labels, in this order: bad, good" in done.err
    assert "epoch 1, step 4, dev: accuracy" in done.err
    told = bothways(*words(tiny, examples, output, *dev[:2], "--overwrite")).out
    assert "accuracy" in told
    assert told.endswith(f"model and report: {output}\n")


def test_a_recipe_gives_the_same_model(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    bothways(*words(tiny, examples, tmp_path / "a", "--seed", "3"))
    recipe = tmp_path / "a" / "recipe.toml"
    assert "learning_rate = [0.02]" in recipe.read_text(encoding="utf-8")
    bothways("finetune", "--config", recipe, "--output", tmp_path / "b")
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert one == other
    bothways("finetune", "--config", recipe, "--output", tmp_path / "c", "--seed", "4")
    assert (tmp_path / "c" / "model.safetensors").read_bytes() != one


def test_a_mistyped_recipe_names_file_key_and_nearest(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[optim]\nlerning_rate = 1e-3\n", encoding="utf-8")
    given = words(tiny, examples, tmp_path / "a", "--config", recipe)
    parts = ["recipe.toml", "optim.lerning_rate", "learning_rate"]
    bothways.fails(*given, code=2, parts=parts)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("more", "code", "parts"),
    [
        (("--epochs", "0"), 2, ["--epochs is 0"]),
        (("--dev-share", "1.5"), 2, ["--dev-share is 1.5"]),
        (("--metric", "acuracy", "--dev-share", "0.5"), 2, ["'acuracy'", "'accuracy'"]),
        (("--task", "clasify"), 2, ["'clasify'", "'classify'"]),
        (("--early-stop", "2"), 2, ["--early-stop", "--dev-share"]),
        (("--freeze", "everything"), 2, ["'everything'"]),
        (("--batch-tokens", "9", "--batch-size", "9"), 2, ["--batch-tokens", "not both"]),
        (("--max-length", "99"), 2, ["max_length is 99", "at most 24"]),
        (("--device", "cuda:9"), 2, ["cuda:9"]),
        (("--precision", "float16"), 2, ["float16", "bfloat16"]),
        (("--lerning-rate", "1"), 2, ["--lerning-rate", "--learning-rate"]),
        (("--label", "labels"), 1, ["'labels'", "'text', 'label'"]),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_written(
    more: tuple[str, ...],
    code: int,
    parts: list[str],
    bothways: Command,
    tiny: Path,
    examples: Path,
    tmp_path: Path,
) -> None:
    given = words(tiny, examples, tmp_path / "out", *more)
    bothways.fails(*given, code=code, parts=parts)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_an_output_that_is_taken_is_kept(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine", encoding="utf-8")
    given = words(tiny, examples, tmp_path / "out")
    bothways.fails(*given, parts=["is not empty", "mine.txt", "--resume", "--overwrite"])
    bothways(*given, "--overwrite")
    assert (tmp_path / "out" / "mine.txt").read_text(encoding="utf-8") == "mine"
    assert len(load(tmp_path / "out").predict(["great"])) == 1


def test_the_folder_that_is_loaded_can_be_written_into(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    """Saving over memory-mapped weights would otherwise kill the process."""
    folder = shutil.copytree(tiny, tmp_path / "model")
    given = words(folder, examples, folder, "--dev", examples / "dev.csv", "--overwrite")
    bothways(*given)
    stored = json.loads((folder / "bothways.json").read_text(encoding="utf-8"))
    assert stored["task"]["labels"] == ["bad", "good"]
    again = words(folder, examples, folder, "--overwrite")
    bothways(*again)
    assert len(load(folder).predict(["great"])) == 1


def test_resuming_where_there_is_nothing_starts_at_step_0_and_says_so(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    done = bothways(*words(tiny, examples, tmp_path / "out", "--resume"))
    assert "no checkpoint to resume from: starting at step 0" in done.err
    bothways.fails(
        *words(tiny, examples, tmp_path / "out", "--resume", "--seed", "8"),
        parts=["seed", "8"],
    )


def test_groups_and_shares(bothways: Command, tiny: Path, tmp_path: Path) -> None:
    write_examples(tmp_path / "train.csv", 60, groups=12)
    given = words(tiny, tmp_path, tmp_path / "out", "--dev-share", "0.25", "--group", "film")
    assert bothways(*given, "--json").json["count"] == 15
