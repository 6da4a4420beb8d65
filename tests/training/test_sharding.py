"""Weights spread over processes: the same run, and checkpoints that any number of them reads."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from bothways.checkpoints.files import write_tensors
from bothways.checkpoints.load import load_parts
from bothways.errors import CheckpointError, UsageError
from bothways.training.pretrain import pretrain
from bothways.training.pretrain_settings import PretrainSettings
from bothways.training.stored import StoredTensors, part_name, put, rows_here
from tests.training.pretraining import curve, lines, text_settings
from tests.training.test_pretrain_processes import RANKS
from tests.training.test_processes import CURVE_TOLERANCE, python

# Weights of two runs whose sums are added in another order, after 12 steps of Adam.
WEIGHTS_TOLERANCE = 1e-3
STEPS, SAVED = 12, 8


def write(folder: Path, name: str, **tensors: torch.Tensor) -> None:
    with (folder / name).open("wb") as file:
        write_tensors(file, tensors)


# --- files --------------------------------------------------------------------------------------


def test_rows_of_several_files_are_put_together(tmp_path: Path) -> None:
    table = torch.arange(15.0).reshape(5, 3)
    first, second = (part_name("weights.safetensors", rank, 2) for rank in (0, 1))
    write(tmp_path, first, table=table[:3], bias=torch.ones(1), step=torch.tensor(4.0))
    write(tmp_path, second, table=table[3:], bias=torch.ones(0))
    stored = StoredTensors(tmp_path, "weights.safetensors")
    assert stored.shapes == {"table": (5, 3), "bias": (1,), "step": ()}
    assert torch.equal(stored.tensor("table"), table)
    assert stored.tensor("bias").tolist() == [1.0]
    assert stored.tensor("step").item() == 4.0
    assert stored.place == str(tmp_path)


def test_a_missing_part_is_told(tmp_path: Path) -> None:
    write(tmp_path, part_name("weights.safetensors", 1, 2), table=torch.ones(2))
    with pytest.raises(CheckpointError, match="1 of 2 files of weights"):
        StoredTensors(tmp_path, "weights.safetensors")


def test_parts_that_do_not_go_together_are_told(tmp_path: Path) -> None:
    first, second = (part_name("weights.safetensors", rank, 2) for rank in (0, 1))
    write(tmp_path, first, table=torch.ones(2, 3))
    write(tmp_path, second, table=torch.ones(2, 4))
    with pytest.raises(CheckpointError, match=f"{second}: table is no part"):
        StoredTensors(tmp_path, "weights.safetensors")


def test_what_is_not_spread_is_written_once() -> None:
    tensors = {"table": torch.ones(2)}
    assert rows_here(tensors, 0) == tensors
    assert rows_here(tensors, 1) == {}
    target = torch.zeros(2)
    put(target, tensors["table"])
    assert target.tolist() == [1.0, 1.0]


def test_whole_matrices_cannot_be_had(tmp_path: Path) -> None:
    settings = text_settings(
        tmp_path, tmp_path / "out", machine__sharded=True, optim__optimizer="muon"
    )
    with pytest.raises(UsageError, match="muon needs whole matrices"):
        settings.check()


# --- processes ----------------------------------------------------------------------------------


def run(shards: Path, output: Path, **changes: Any) -> PretrainSettings:
    """A run without dropout that is saved once on its way."""
    off = {"network__hidden_dropout": 0.0, "network__attention_dropout": 0.0}
    return text_settings(
        shards, output, loop__log_every=1, loop__checkpoint_every=SAVED, **off, **changes
    )


# Without a limit on the gradients the generator learns the same whatever it happens to draw, and
# draws depend on the number of ranks.
DETECTING = {
    "objective__goal": "replaced",
    "objective__sharing": "disentangled",
    "optim__clip": 0.0,
}


def test_spread_weights_give_the_run_of_whole_ones(
    project: Path, shards: Path, tmp_path: Path
) -> None:
    alone = pretrain(run(shards, tmp_path / "alone"))
    pretrain(run(shards, tmp_path / "detecting", **DETECTING))
    resumed = tmp_path / "resumed"
    resumed.mkdir()
    shutil.copytree(tmp_path / "alone" / "checkpoints", resumed / "checkpoints")
    recipes = []
    for name, changes in (("spread", {}), ("resumed", {}), ("spread-detecting", DETECTING)):
        settings = run(shards, tmp_path / name, machine__sharded=True, **changes)
        recipes.append(tmp_path / f"{name}.toml")
        recipes[-1].write_text(settings.recipe(), encoding="utf-8")
    script = tmp_path / "ranks.py"
    script.write_text(RANKS.replace('"--json"', '"--json", "--resume"'), encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = python(project, *launcher, str(script), *map(str, recipes))
    assert done.returncode == 0, done.stderr

    # The same losses from scratch, of the detecting kind too, and of a checkpoint of one process.
    expected = curve(tmp_path / "alone")
    assert [step for step, _ in expected] == list(range(1, STEPS + 1))
    for name, other, key in (
        ("spread", "alone", "loss"),
        ("spread-detecting", "detecting", "masked_lm"),
    ):
        losses = [line[key] for line in lines(tmp_path / other)]
        found = [line[key] for line in lines(tmp_path / name)]
        assert found == pytest.approx(losses, rel=CURVE_TOLERANCE)
    goes_on_as(expected[SAVED:], resumed)
    scored = lines(tmp_path / "spread", "dev")[-1]
    assert scored["loss"] == pytest.approx(alone.metrics["loss"], rel=CURVE_TOLERANCE)

    # The model is whole.
    ours, theirs = (
        load_parts(folder).encoder.state_dict() for folder in (tmp_path / "spread", alone.folder)
    )
    for name, tensor in theirs.items():
        assert torch.allclose(ours[name], tensor, atol=WEIGHTS_TOLERANCE), name

    # Each process wrote its part, and a single one goes on from them.
    saved = tmp_path / "spread" / "checkpoints" / f"step-{SAVED:08d}"
    assert sorted(path.name for path in saved.iterdir()) == [
        "optimizer-00001-of-00002.safetensors",
        "optimizer-00002-of-00002.safetensors",
        "state.json",
        "weights-00001-of-00002.safetensors",
        "weights-00002-of-00002.safetensors",
    ]
    shutil.copytree(saved.parent, tmp_path / "one" / "checkpoints")
    pretrain(dataclasses.replace(run(shards, tmp_path / "one"), resume=True))
    goes_on_as(expected[SAVED:], tmp_path / "one")


def goes_on_as(expected: list[tuple[int, float]], folder: Path) -> None:
    """A run logged these steps and no others, with these losses."""
    steps, losses = zip(*expected, strict=True)
    found_steps, found = zip(*curve(folder), strict=True)
    assert found_steps == steps
    assert found == pytest.approx(losses, rel=CURVE_TOLERANCE)
