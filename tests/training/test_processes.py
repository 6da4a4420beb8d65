"""Runs in processes of their own: several ranks, and a real kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bothways.training.finetune import finetune
from bothways.training.settings import FinetuneSettings
from tests.training.runs import Texts, ToyRun, same_bits
from tests.training.tiny import save_tiny_model, settings_for, write_examples

# Sums over ranks are added in another order than over micro-batches.
CURVE_TOLERANCE = 1e-4

RANKS = """
import sys
from pathlib import Path
from bothways.training.finetune import finetune
from tests.training.test_processes import ranked, undropped

finetune(undropped(Path(sys.argv[1]), "two"))
for micro_batches in (1, 3):
    ranked(Path(sys.argv[1]) / str(micro_batches), micro_batches).run()
"""

KILLED = """
import os, signal, sys
from pathlib import Path
from bothways.training.recorder import StepDone
from tests.training.test_processes import dropped

def on_event(event):
    if isinstance(event, StepDone) and event.step == 7:
        os.kill(os.getpid(), signal.SIGKILL)

run = dropped(Path(sys.argv[1]))
run.on_event = on_event
run.run()
"""


def ranked(folder: Path, micro_batches: int = 1) -> ToyRun:
    """45 examples: the last step of an epoch has fewer than there are ranks and parts."""
    run = ToyRun(
        texts=Texts.draw(45),
        batch_size=22,
        epochs=3,
        micro_batches=micro_batches,
        folder=folder,
        unused=True,
        plan={"checkpoint_every": 5},
    )
    run.evaluate = lambda: {"loss": float(len(run.runtime.gather([run.runtime.rank])))}
    return run


def undropped(folder: Path, name: str) -> FinetuneSettings:
    """Fine-tuning without dropout; the pooler gets no gradient."""
    off = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "classifier_dropout": 0.0}
    return settings_for(folder / "model", folder, folder / name, network=off)


def dropped(folder: Path) -> ToyRun:
    return ToyRun(folder=folder, dropout=0.3, plan={"checkpoint_every": 2})


def python(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(project), str(project / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=300,
    )


def curve(folder: Path) -> list[float]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    return [line["loss"] for line in lines if line["split"] == "train"]


def tokens(folder: Path) -> int:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return int(json.loads(text.splitlines()[-1])["tokens"])


def test_two_ranks_give_the_curve_of_one(project: Path, tmp_path: Path) -> None:
    """transformers#34191, PR#40610: the loss of several ranks was not that of one."""
    ranked(tmp_path / "alone").run()
    save_tiny_model(tmp_path / "model")
    for file, count in (("train.csv", 45), ("dev.csv", 21)):
        write_examples(tmp_path / file, count)
    alone = finetune(undropped(tmp_path, "one"))
    script = tmp_path / "ranks.py"
    script.write_text(RANKS, encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = python(project, *launcher, str(script), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(curve(tmp_path / "alone")) == 9
    for micro_batches in ("1", "3"):
        folder = tmp_path / micro_batches
        assert curve(folder) == pytest.approx(curve(tmp_path / "alone"), rel=CURVE_TOLERANCE)
        assert tokens(folder) == tokens(tmp_path / "alone")
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        dev = [line for line in map(json.loads, lines) if line["split"] == "dev"]
        assert [line["loss"] for line in dev] == [2.0, 2.0, 2.0]  # both ranks were asked
    assert curve(tmp_path / "two") == pytest.approx(curve(tmp_path / "one"), rel=CURVE_TOLERANCE)
    report = json.loads((tmp_path / "two" / "report.json").read_text(encoding="utf-8"))
    assert report["count"] == 21  # no example twice, none left out
    assert report["metrics"]["accuracy"]["value"] == alone.report.metrics["accuracy"].value


def test_a_run_goes_on_after_kill_9(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED, encoding="utf-8")
    killed = python(project, str(script), str(tmp_path / "killed"))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed, straight = dropped(tmp_path / "killed"), dropped(tmp_path / "straight")
    resumed.run()
    straight.run()
    assert same_bits(resumed.weights(), straight.weights())
    assert curve(tmp_path / "killed") == curve(tmp_path / "straight")
