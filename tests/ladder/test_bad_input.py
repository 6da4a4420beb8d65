"""What is wrong is said, and what can go on goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.ladder.choose import ChooseResult
from tests.cli.command import Command

SHORT = ("--epochs", 1, "--seeds", 1, "--batch-size", 32, "--device", "cpu", "--pooling", "mean")


def words(*given: object) -> list[str]:
    return ["choose", *map(str, given)]


def test_a_metric_that_the_task_does_not_have(
    bothways: Command, data: Path, tmp_path: Path
) -> None:
    done = bothways(
        *words(
            "--data", data, "--target", "bleu=0.9", "--candidates", "a", "--output", tmp_path / "o"
        )
    )
    assert done.code == 2
    assert "'bleu'" in done.err
    for metric in ("accuracy (+)", "f1_macro (+)", "loss (-)"):
        assert metric in done.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--target", "high"), "expected metric=value"),
        (("--budget", "soon"), "expected a number above 0"),
        (("--max-latency", "-1ms"), "--max-latency is '-1ms'"),
        (("--max-size", "10 parsecs"), "with MB, KB, GB"),
        (("--candidates", "a,a"), "more than once"),
        (("--metric", "loss"), "--target names"),
        (("--dev", "dev.csv"), "goes with --train"),
        (("--candidates", "a", "--epochs", "0"), "--epochs is 0"),
    ],
    ids=lambda given: str(given)[:20],
)
def test_impossible_settings(
    bothways: Command, data: Path, tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    given = [] if "--target" in flags else ["--target", "accuracy=0.9"]
    done = bothways(*words("--data", data, "--output", tmp_path / "o", *given, *flags))
    assert done.code == 2
    assert said in done.err


def test_neither_data_nor_train(bothways: Command, tmp_path: Path) -> None:
    done = bothways(*words("--target", "accuracy=0.9", "--output", tmp_path / "o"))
    assert done.code == 2
    assert "--data" in done.err


def test_candidates_that_fail_are_reported_and_the_rest_go_on(
    bothways: Command, ladders: dict[str, list[Path]], data: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    good = ladders["smallest"][-1]
    candidates = f"{tmp_path / 'empty'},{tmp_path / 'nowhere'},{good}"
    done = bothways(
        *words("--data", data, "--target", "accuracy=0.5", "--candidates", candidates),
        *map(str, ("--output", tmp_path / "o", "--json", "--learning-rate", "1e-2", *SHORT)),
    )
    assert done.code == 0, done.err
    outcomes = {Path(rung["candidate"]).name: rung for rung in done.json["rungs"]}
    assert outcomes["empty"]["outcome"] == outcomes["nowhere"]["outcome"] == "failed"
    assert "config.json" in outcomes["empty"]["why"]
    assert done.json["chosen"] == str(good)
    assert done.json["target_met"] is True
    assert done.json["spent_seconds"] > 0
    assert "candidates" in {finding["question"] for finding in done.json["findings"]}


def test_no_candidate_that_loads(bothways: Command, data: Path, tmp_path: Path) -> None:
    done = bothways(
        *words("--data", data, "--target", "accuracy=0.9", "--candidates", tmp_path / "x"),
        "--output",
        str(tmp_path / "o"),
    )
    assert done.code == 1
    assert "no candidate can be loaded" in done.err
    assert str(tmp_path / "x") in done.err


def test_a_budget_too_small_for_one_rung(
    bothways: Command, ladders: dict[str, list[Path]], data: Path, tmp_path: Path
) -> None:
    done = bothways(
        *words("--data", data, "--target", "accuracy=0.9", "--candidates", ladders["smallest"][-1]),
        *map(str, ("--output", tmp_path / "o", "--budget", "0.01s", *SHORT)),
    )
    assert done.code == 1
    assert "too small for one candidate" in done.err
    assert "--budget" in done.err


def test_limits_that_nobody_keeps(
    bothways: Command, ladders: dict[str, list[Path]], data: Path, tmp_path: Path
) -> None:
    done = bothways(
        *words("--data", data, "--target", "accuracy=0.9", "--candidates", ladders["smallest"][-1]),
        *map(str, ("--output", tmp_path / "o", "--max-size", "1KB", *SHORT)),
    )
    assert done.code == 1
    assert "--max-size is 0.001 MB" in done.err


def test_without_candidates_nothing_is_fetched(
    bothways: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    done = bothways(*words("--data", data, "--target", "accuracy=0.9", "--output", tmp_path / "o"))
    assert done.code == 1
    assert "distilbert/distilbert-base-uncased (not here)" in done.err
    assert "Nothing is fetched unasked" in done.err


def test_a_taken_folder_is_refused(
    bothways: Command, choices: dict[str, ChooseResult], data: Path
) -> None:
    done = bothways(
        *words("--data", data, "--target", "accuracy=0.9", "--candidates", "a"),
        "--output",
        str(choices["smallest"].folder),
    )
    assert done.code == 1
    assert "--resume" in done.err
