"""Pretraining in processes of its own: several ranks, and real kills."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from bothways.training.pretrain import pretrain
from bothways.training.pretrain_settings import PretrainSettings
from tests.training.pretraining import curve, lines, text_settings
from tests.training.test_processes import CURVE_TOLERANCE, python
from tests.training.tiny import same

RANKS = """
import os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = ""
from bothways.cli.main import main

for recipe in sys.argv[1:]:
    assert main(["pretrain", "--config", recipe, "--json"]) == 0
"""

KILLED = """
import os, signal, sys
from pathlib import Path
from bothways.training.pretrain import pretrain
from bothways.training.recorder import StepDone
from tests.training.test_pretrain_processes import dropped

def on_event(event):
    if isinstance(event, StepDone) and event.step == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

pretrain(dropped(Path(sys.argv[1]), Path(sys.argv[2]), resume=True), on_event=on_event)
"""


def undropped(shards: Path, output: Path, **changes: Any) -> PretrainSettings:
    """A run without dropout, over tied tables, whose log has every step."""
    off = {"network__hidden_dropout": 0.0, "network__attention_dropout": 0.0}
    return text_settings(shards, output, loop__log_every=1, **off, **changes)


def dropped(shards: Path, output: Path, **changes: Any) -> PretrainSettings:
    return text_settings(shards, output, loop__checkpoint_every=2, **changes)


def test_two_ranks_give_the_curve_of_one(project: Path, shards: Path, tmp_path: Path) -> None:
    """transformers#34191, PR#40610: the loss of several ranks was not that of one.

    Nobody says that they have no accelerator: accelerate would then take each for a run of its own.
    """
    alone = pretrain(undropped(shards, tmp_path / "alone"))
    script, recipes = tmp_path / "ranks.py", [tmp_path / "1.toml", tmp_path / "2.toml"]
    script.write_text(RANKS, encoding="utf-8")
    for recipe in recipes:
        parts = {"loop__accumulate": int(recipe.stem), "machine__device": None}
        settings = undropped(shards, tmp_path / recipe.stem, **parts)
        recipe.write_text(settings.recipe(), encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = python(project, *launcher, str(script), *map(str, recipes))
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["tokens"] for result in told] == [alone.tokens] * 2
    expected = [loss for _, loss in curve(tmp_path / "alone")]
    assert len(expected) == 12
    for accumulate in ("1", "2"):
        folder = tmp_path / accumulate
        found = [loss for _, loss in curve(folder)]
        assert found == pytest.approx(expected, rel=CURVE_TOLERANCE)
        assert lines(folder)[-1]["tokens"] == alone.tokens
        scored = lines(folder, "dev")[-1]
        assert scored["loss"] == pytest.approx(alone.metrics["loss"], rel=CURVE_TOLERANCE)
        stored = json.loads((folder / "bothways.json").read_text(encoding="utf-8"))
        assert stored["provenance"]["tokens"] == alone.tokens


def test_a_run_goes_on_after_kills_at_random_steps(
    project: Path, shards: Path, tmp_path: Path
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED, encoding="utf-8")
    output = tmp_path / "killed"
    steps = sorted(random.Random(4).sample(range(1, 12), 2))
    for step in steps:
        killed = python(project, str(script), str(shards), str(output), str(step))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    pretrain(dropped(shards, output, resume=True))
    pretrain(dropped(shards, tmp_path / "straight"))
    assert same(output, tmp_path / "straight")
    assert curve(output) == curve(tmp_path / "straight")
