"""What is wrong is said, and what can go on goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bothways.ladder.choose import ChooseResult
from tests.cli.command import Command

SHORT = ("--seeds", 1, "--epochs", 2, "--batch-size", 16, "--device", "cpu", "--pooling", "mean")
Fails = Callable[..., str]


@pytest.fixture
def fails(bothways: Command, data: Path, tmp_path: Path) -> Fails:
    """Runs `choose` over the reviews with some flags, which must fail with some words."""

    def run(*flags: object, code: int = 1, parts: tuple[str, ...] = ()) -> str:
        given = {"--data": data, "--target": "accuracy=0.9", "--output": tmp_path / "out"}
        rest = [each for pair in given.items() if pair[0] not in flags for each in pair]
        return bothways.fails("choose", *rest, *flags, code=code, parts=parts)

    return run


def test_a_metric_that_the_task_does_not_have(fails: Fails, tmp_path: Path) -> None:
    parts = ("'bleu'", "accuracy (+)", "f1_macro (+)", "loss (-)")
    fails("--target", "bleu=0.9", "--candidates", "a", code=2, parts=parts)
    assert not (tmp_path / "out").exists()


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
        (("--epochs", "0"), "--epochs is 0"),
    ],
    ids=lambda given: str(given)[:20],
)
def test_impossible_settings(fails: Fails, flags: tuple[str, ...], said: str) -> None:
    fails(*flags, code=2, parts=(said,))


def test_neither_data_nor_train(bothways: Command, tmp_path: Path) -> None:
    words = ("--target", "accuracy=0.9", "--output", tmp_path / "out")
    bothways.fails("choose", *words, code=2, parts=("--data", "--train"))


def test_candidates_that_fail_are_reported_and_the_rest_go_on(
    bothways: Command, ladders: dict[str, list[Path]], data: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    good = ladders["smallest"][-1]
    done = bothways(
        *("choose", "--data", data, "--target", "accuracy=0.5", "--output", tmp_path / "out"),
        *("--candidates", f"{tmp_path / 'empty'},{tmp_path / 'nowhere'},{good}"),
        *("--learning-rate", "1e-2", "--json", *SHORT),
    )
    rungs = {Path(rung["candidate"]).name: rung for rung in done.json["rungs"]}
    assert rungs["empty"]["outcome"] == rungs["nowhere"]["outcome"] == "failed"
    assert "config.json" in rungs["empty"]["why"]
    assert done.json["chosen"] == str(good)
    assert done.json["target_met"] is True
    assert done.json["spent_seconds"] > 0
    assert "candidates" in {finding["question"] for finding in done.json["findings"]}


def test_no_candidate_that_loads(fails: Fails, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    fails("--candidates", missing, parts=("no candidate can be loaded", str(missing)))


def test_a_budget_too_small_for_one_rung(fails: Fails, ladders: dict[str, list[Path]]) -> None:
    good, parts = ladders["smallest"][-1], ("too small for one candidate", "--budget")
    fails("--candidates", good, "--budget", "0.01s", *SHORT, parts=parts)


def test_limits_that_nobody_keeps(fails: Fails, ladders: dict[str, list[Path]]) -> None:
    good = ladders["smallest"][-1]
    fails("--candidates", good, "--max-size", "1KB", *SHORT, parts=("--max-size is 0.001 MB",))


def test_without_candidates_nothing_is_fetched(
    fails: Fails, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    parts = ("distilbert/distilbert-base-uncased (not here)", "Nothing is fetched unasked")
    fails(parts=parts)


def test_a_taken_folder_is_refused(fails: Fails, choices: dict[str, ChooseResult]) -> None:
    fails("--candidates", "a", "--output", choices["smallest"].folder, parts=("--resume",))
