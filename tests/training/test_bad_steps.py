"""Steps whose loss is not finite or jumps: the run stops, or goes back and leaves them out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bothways.errors import BadStepError, TrainingError
from bothways.model.layout import Batch
from bothways.training.loop import MOST_SKIPPED
from bothways.training.meter import SPIKES_FROM
from bothways.training.objectives import Part
from bothways.training.recorder import StepDone
from tests.training.runs import Texts, ToyObjective, ToyRun, same_bits
from tests.training.tiny import Killed, kill_after


def lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def losses(folder: Path) -> dict[int, float | None]:
    return {line["step"]: line["loss"] for line in lines(folder)}


def spoil(run: ToyRun, what: Callable[[Tensor], Tensor], *steps: int) -> None:
    """Change the loss of the batches that some steps read, however often they are read."""
    batches = [batch.micro[0].batch for batch in run.feed.steps({})]
    bad = [tuple(batches[step].ids.tolist()) for step in steps]
    forward = run.objective.forward

    def spoiled(batch: Batch) -> Tensor:
        loss = forward(batch)
        return what(loss) if tuple(batch.ids.tolist()) in bad else loss

    run.objective.forward = spoiled  # type: ignore[method-assign]


def broken(loss: Tensor) -> Tensor:
    return loss * float("nan")


def skipping(folder: Path, *steps: int, **plan: Any) -> ToyRun:
    """12 steps with dropout, of which some are bad."""
    plan = {"on_bad_step": "skip", "checkpoint_every": 4, **plan}
    run = ToyRun(folder=folder, dropout=0.3, plan=plan)
    spoil(run, broken, *steps)
    return run


@pytest.mark.parametrize("bad", [0, 4, 6, 11])
def test_a_bad_step_is_left_out_and_nothing_else(bad: int, tmp_path: Path) -> None:
    run = skipping(tmp_path, bad)
    progress = run.run()
    assert list(progress.skipped) == [bad]
    assert progress.step == 12
    expected = ToyRun(dropout=0.3)
    optimizer: Any = expected.optimizer
    step = optimizer.step
    taken: list[int] = []

    def all_but_the_bad_one(*given: Any) -> Any:
        taken.append(len(taken))
        return None if taken[-1] == bad else step(*given)

    optimizer.step = all_but_the_bad_one
    expected.run()
    assert same_bits(run.weights(), expected.weights())
    assert losses(tmp_path)[bad + 1] is None
    assert list(losses(tmp_path)) == list(range(1, 13))  # each line once


def test_going_back_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    skipping(tmp_path, 6).run()
    assert "step 7: the loss is nan" in caplog.text
    assert "Back at step 4; step 7 will be left out" in caplog.text


@pytest.mark.parametrize("killed", [3, 8, 10])
def test_a_killed_run_leaves_out_the_same_steps(killed: int, tmp_path: Path) -> None:
    straight = skipping(tmp_path / "straight", 6, 9)
    assert list(straight.run().skipped) == [6, 9]
    first = skipping(tmp_path / "killed", 6, 9)
    first.on_event = kill_after(killed)
    with pytest.raises(Killed):
        first.run()
    second = skipping(tmp_path / "killed", 6, 9)
    assert list(second.run().skipped) == [6, 9]
    assert same_bits(second.weights(), straight.weights())


def test_many_bad_steps_stop_the_run(tmp_path: Path) -> None:
    run = ToyRun(folder=tmp_path, epochs=4, plan={"on_bad_step": "skip"})
    spoil(run, broken, *range(24))
    with pytest.raises(TrainingError, match=f"{MOST_SKIPPED} steps were left out before it"):
        run.run()


def long_run(folder: Path, **plan: Any) -> ToyRun:
    return ToyRun(
        texts=Texts.draw(16), folder=folder, epochs=SPIKES_FROM, plan={"spike": 2.0, **plan}
    )


def tripled(loss: Tensor) -> Tensor:
    return loss + 3.0 * 8


def test_a_jump_of_the_loss_stops_with_step_and_batch(tmp_path: Path) -> None:
    run = long_run(tmp_path)
    calls = 0
    forward = run.objective.forward

    def jumping(batch: Batch) -> Tensor:
        nonlocal calls
        calls += 1
        return tripled(forward(batch)) if calls in (10, 70) else forward(batch)

    run.objective.forward = jumping  # type: ignore[method-assign]
    with pytest.raises(BadStepError, match=r"step 70: the loss jumped to .* examples \d") as error:
        run.run()
    assert error.value.step == 69
    # The tenth was no reason: what is usual was not known yet.
    assert losses(tmp_path)[10] is not None


def test_without_a_limit_a_jump_is_allowed(tmp_path: Path) -> None:
    run = long_run(tmp_path, spike=0.0)
    spoil(run, tripled, 90)
    assert run.run().step == 100


def test_what_is_usual_survives_a_kill(tmp_path: Path) -> None:
    usual: list[float | None] = []
    for name, killed in (("straight", None), ("killed", 60)):
        run = long_run(tmp_path / name, checkpoint_every=7)
        if killed is not None:
            run.on_event = kill_after(killed)
            with pytest.raises(Killed):
                run.run()
            run = long_run(tmp_path / name, checkpoint_every=7)
        progress = run.run()
        usual.append(progress.usual_loss)
        assert progress.looked_at == 100
    assert usual[0] == usual[1]


class TwoParts(ToyObjective):
    """The toy's loss, a weighted part over another count, and one that is only watched."""

    parts = (Part("label"), Part("size", 0.25), Part("texts", 0.0))

    def forward(self, batch: Batch) -> Tensor:
        loss = super().forward(batch)
        size = self.encoder(batch).last_hidden.pow(2).sum()
        return torch.stack([loss, size, torch.tensor(float(batch.layout.num_sequences))])

    def counts(self, batch: Batch) -> tuple[int, ...]:
        return (batch.layout.num_sequences, batch.layout.num_tokens, 1)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_parts_are_means_over_their_own_counts(micro_batches: int, tmp_path: Path) -> None:
    """Parts of unlike counts (tokens, texts) add up exactly over micro-batches."""
    run = ToyRun(
        texts=Texts.draw(7),
        batch_size=7,
        epochs=1,
        micro_batches=micro_batches,
        folder=tmp_path,
        plan={"clip": 0.0},
    )
    run.objective = TwoParts()
    gradients: list[Tensor] = []
    weight = run.objective.encoder.embeddings.words.weight

    def keep(event: Any) -> None:
        gradients.append(event)

    weight.register_post_accumulate_grad_hook(lambda p: keep(p.grad.clone()))
    run.run()
    batch = run.texts.batch(range(7))
    objective = TwoParts()
    sums, counts = objective(batch), objective.counts(batch)
    loss = sums[0] / counts[0] + 0.25 * sums[1] / counts[1]
    torch.autograd.backward(loss)
    expected = objective.encoder.embeddings.words.weight.grad
    torch.testing.assert_close(gradients[-1], expected, rtol=1e-4, atol=1e-7)
    (line,) = lines(tmp_path)
    assert line["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert line["label"] == pytest.approx(sums[0].item() / 7, rel=1e-5)
    assert line["texts"] == pytest.approx(7 / micro_batches, rel=1e-5)


def test_the_events_carry_the_parts(tmp_path: Path) -> None:
    seen: list[Sequence[str]] = []
    run = ToyRun(folder=tmp_path, epochs=1)
    run.objective = TwoParts()
    run.on_event = lambda event: (
        seen.append(list(event.metrics)) if isinstance(event, StepDone) else None
    )
    run.run()
    assert seen[-1] == ["label", "size", "texts"]
