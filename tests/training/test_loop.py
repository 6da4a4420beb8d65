"""The loop: exact accumulation, seeded dropout, the best checkpoint, stopping."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bothways.errors import RunStopped, TrainingError
from bothways.model.layout import Batch
from bothways.training.meter import Meter
from bothways.training.recorder import CheckpointSaved, Evaluated, Event, StepDone
from bothways.training.runtime import seeded
from tests.training.runs import Texts, ToyRun, same_bits

# Gradients of a batch and of its parts are sums in another order; Adam divides by their size, so
# after some steps weights differ by a small share of the learning rate (5e-3).
WEIGHT_TOLERANCE = 2e-4
# Other processors differ in the last bits; a change of 1e-7 in the weights moves it by 5e-7.
CURVE_TOLERANCE = 1e-4

GOLDEN_CURVE = [
    1.083233, 1.145695, 1.114819, 1.207673, 1.130927,
    1.076890, 1.122309, 1.084051, 1.016751, 0.973790,
    0.998068, 0.952986, 0.741603, 0.834603, 0.733266,
    0.615640, 0.744611, 0.682920, 0.647873, 0.740532,
]  # fmt: skip


def losses(folder: Path, split: str = "train") -> list[float]:
    return [line["loss"] for line in lines(folder) if line["split"] == split]


def lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_the_loss_falls(tmp_path: Path) -> None:
    ToyRun(folder=tmp_path, epochs=6).run()
    curve = losses(tmp_path)
    assert sum(curve[-6:]) / 6 < 0.6 * curve[0]


def test_the_first_twenty_steps_are_the_golden_ones(tmp_path: Path) -> None:
    ToyRun(folder=tmp_path, epochs=4).run()
    curve = losses(tmp_path)[:20]
    assert curve == pytest.approx(GOLDEN_CURVE, rel=CURVE_TOLERANCE)


@pytest.mark.parametrize("micro_batches", [2, 4, 7])
def test_accumulation_changes_nothing(micro_batches: int, tmp_path: Path) -> None:
    """transformers#34191, #35203, #37474, PR#40610: accumulated loss was not normalised."""
    whole = ToyRun(folder=tmp_path / "whole")
    parts = ToyRun(folder=tmp_path / "parts", micro_batches=micro_batches)
    whole.run()
    parts.run()
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), rel=1e-3)
    for name, weight in whole.weights().items():
        torch.testing.assert_close(parts.weights()[name], weight, rtol=0.0, atol=WEIGHT_TOLERANCE)


def test_a_step_divides_by_its_own_targets_and_not_by_the_parts() -> None:
    """transformers#34191: parts of unlike size were each averaged, and then averaged again."""
    texts = Texts.draw(7)  # 7 examples in 4 parts: 2, 2, 2, 1

    def gradient(micro_batches: int) -> Tensor:
        run = ToyRun(texts=texts, batch_size=7, micro_batches=micro_batches, epochs=1)
        kept: list[Tensor] = []
        weight = run.objective.head.output.weight

        def note(*given: Any) -> None:
            assert weight.grad is not None
            kept.append(weight.grad.clone())

        run.optimizer.register_step_pre_hook(note)
        run.plan["clip"] = 0.0
        run.run()
        return kept[0]

    run = ToyRun(texts=texts)
    batch = texts.batch(range(7))
    torch.autograd.backward(run.objective(batch) / 7)
    expected = run.objective.head.output.weight.grad
    for parts in (1, 4):
        torch.testing.assert_close(gradient(parts), expected, rtol=1e-4, atol=1e-7)


def test_dropout_depends_on_the_step_and_on_nothing_before_it(tmp_path: Path) -> None:
    first = ToyRun(dropout=0.3, folder=tmp_path / "a")
    first.run()
    torch.manual_seed(1234)
    second = ToyRun(dropout=0.3, folder=tmp_path / "b")
    torch.rand(17)  # whatever else has drawn numbers
    second.run()
    other = ToyRun(dropout=0.3, folder=tmp_path / "c", plan={"seed": 1})
    other.run()
    without = ToyRun(dropout=0.0, folder=tmp_path / "d")
    without.run()
    assert same_bits(first.weights(), second.weights())
    assert not same_bits(first.weights(), other.weights())
    assert losses(tmp_path / "a")[0] != losses(tmp_path / "d")[0]  # dropout is on


def test_micro_batches_steps_and_ranks_draw_different_masks() -> None:
    def draw(*numbers: int) -> tuple[float, ...]:
        with seeded(*numbers, device=torch.device("cpu")):
            return tuple(torch.rand(4).tolist())

    names = [(0, 1, 2, 3), (1, 1, 2, 3), (0, 2, 2, 3), (0, 1, 3, 3), (0, 1, 2, 4), (0, 12, 3, 3)]
    assert len({draw(*name) for name in names}) == len(names)
    assert draw(0, 1, 2, 3) == draw(0, 1, 2, 3)


def test_the_caller_s_random_numbers_are_untouched() -> None:
    torch.manual_seed(5)
    run = ToyRun(dropout=0.3)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run.run()
    assert torch.equal(torch.rand(3), expected)


def test_a_part_of_the_model_that_is_not_read_keeps_its_weights() -> None:
    run = ToyRun(unused=True)
    before = run.weights()["unused.weight"]
    run.run()
    assert torch.equal(run.weights()["unused.weight"], before)


def test_a_loss_that_is_not_finite_stops_with_step_and_batch(tmp_path: Path) -> None:
    """microsoft/DeBERTa#77: training went on with a loss of 0 or NaN."""
    run = ToyRun(folder=tmp_path, plan={"checkpoint_every": 1})
    forward = run.objective.forward
    calls: list[list[int]] = []

    def break_at_the_fourth(batch: Batch) -> Tensor:
        calls.append([source.example for source in batch.sources])
        return forward(batch) * (float("nan") if len(calls) == 4 else 1.0)

    run.objective.forward = break_at_the_fourth  # type: ignore[method-assign]
    with pytest.raises(TrainingError) as error:
        run.run()
    examples = "examples " + ", ".join(map(str, calls[3]))
    assert "step 4: the loss is nan" in str(error.value)
    assert examples in str(error.value)
    assert run.store is not None
    assert run.store.steps()[-1] == 3
    assert all(torch.isfinite(weight).all() for weight in run.weights().values())


def test_an_infinite_gradient_under_a_finite_loss_stops_too() -> None:
    run = ToyRun()
    run.objective.head.output.weight.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(TrainingError, match="norm of the gradients"):
        run.run()


def test_a_device_is_looked_at_with_the_next_line_and_the_right_step_is_named() -> None:
    """Looking at each loss would make the host wait for the device at every step."""
    run = ToyRun()
    run.runtime.device = torch.device("cuda")  # only the meter is asked here; tensors stay put
    meter = Meter(run.objective, run.feed, run.runtime)
    batches = next(run.feed.steps({}))
    for step, loss in enumerate((1.0, float("nan"), 3.0)):
        meter.add(step, batches, torch.tensor(loss), torch.tensor(1.0), [8.0])
    with pytest.raises(TrainingError, match=r"step 2: the loss is nan.*examples \d"):
        meter.take()


# --- evaluation -------------------------------------------------------------------------------


def scores(*values: float, name: str = "accuracy") -> Any:
    given = iter(values)
    return lambda: {name: next(given), "loss": 1.0}


@pytest.mark.parametrize(
    ("direction", "best_step"), [(1, 12), (-1, 6)], ids=["larger is better", "smaller is better"]
)
def test_the_best_is_kept_in_the_metric_s_direction(
    direction: int, best_step: int, tmp_path: Path
) -> None:
    """transformers PR#31142, #11931, PR#40221: the worst or the last one was kept as best."""
    run = ToyRun(
        folder=tmp_path,
        epochs=4,
        evaluate=scores(0.5, 0.9, 0.7, 0.6),
        plan={"metric": "accuracy", "direction": direction},
    )
    weights: dict[int, dict[str, Tensor]] = {}
    run.on_event = lambda event: (
        weights.update({event.step: run.weights()}) if isinstance(event, Evaluated) else None
    )
    progress = run.run()
    assert progress.best_step == best_step
    assert run.store is not None
    run.store.load_weights(run.objective, best_step)
    assert same_bits(run.weights(), weights[best_step])
    assert not same_bits(run.weights(), weights[24])


def test_the_first_of_equals_is_the_best_and_nan_never_is(tmp_path: Path) -> None:
    run = ToyRun(
        folder=tmp_path,
        epochs=4,
        evaluate=scores(float("nan"), 0.5, 0.5, float("nan")),
        plan={"metric": "accuracy", "direction": 1},
    )
    progress = run.run()
    assert (progress.best, progress.best_step, progress.stale) == (0.5, 12, 2)


def test_early_stop_counts_evaluations_without_improvement(tmp_path: Path) -> None:
    events: list[Event] = []
    run = ToyRun(
        folder=tmp_path,
        epochs=6,
        on_event=events.append,
        evaluate=scores(0.5, 0.9, 0.7, 0.8, 0.95, 0.99),
        plan={"metric": "accuracy", "direction": 1, "patience": 2},
    )
    progress = run.run()
    assert progress.stopped_early
    assert (progress.step, progress.best_step) == (24, 12)
    evaluated = [event for event in events if isinstance(event, Evaluated)]
    assert [event.is_best for event in evaluated] == [True, True, False, False]


def test_evaluation_every_so_many_steps(tmp_path: Path) -> None:
    run = ToyRun(
        folder=tmp_path,
        evaluate=scores(*[0.1] * 4),
        plan={"metric": "accuracy", "direction": 1, "evaluate_every": 3},
    )
    run.run()
    assert [line["step"] for line in lines(tmp_path) if line["split"] == "dev"] == [3, 6, 9, 12]


def test_training_goes_on_with_dropout_after_an_evaluation(tmp_path: Path) -> None:
    run = ToyRun(folder=tmp_path, dropout=0.3, plan={"metric": "accuracy", "direction": 1})

    def evaluate() -> dict[str, float]:
        run.objective.eval()
        return {"accuracy": 0.5}

    run.evaluate = evaluate
    modes: list[bool] = []
    run.on_event = lambda event: modes.append(run.objective.training)
    run.run()
    assert all(modes)


# --- what is reported -------------------------------------------------------------------------


def test_lines_and_events_add_up(tmp_path: Path) -> None:
    events: list[Event] = []
    run = ToyRun(
        folder=tmp_path, on_event=events.append, plan={"log_every": 4}, evaluate=lambda: {"loss": 1}
    )
    progress = run.run()
    train = [line for line in lines(tmp_path) if line["split"] == "train"]
    assert [line["step"] for line in train] == [4, 6, 8, 12]
    assert [line["epoch"] for line in train] == [1, 1, 2, 2]
    tokens = 2 * sum(len(ids) for ids in run.texts.ids)
    assert train[-1]["tokens"] == progress.tokens == tokens
    assert all(line["tokens_per_second"] > 0 for line in train)
    assert [line["seconds"] for line in train] == sorted(line["seconds"] for line in train)
    steps = [event for event in events if isinstance(event, StepDone)]
    assert [event.step for event in steps] == list(range(1, 13))
    assert steps[-1].seconds_left == 0.0
    assert steps[0].loss is not None


def test_a_line_has_the_mean_over_all_targets_since_the_last(tmp_path: Path) -> None:
    each, together = tmp_path / "each", tmp_path / "together"
    ToyRun(texts=Texts.draw(20), folder=each).run()
    ToyRun(texts=Texts.draw(20), folder=together, plan={"log_every": 3}).run()
    sizes = [8, 8, 4] * 2
    steps = losses(each)
    expected = [
        sum(size * loss for size, loss in zip(sizes[at : at + 3], steps[at : at + 3], strict=True))
        / sum(sizes[at : at + 3])
        for at in (0, 3)
    ]
    assert losses(together) == pytest.approx(expected, rel=1e-5)


# --- stopping ---------------------------------------------------------------------------------


def test_sigterm_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    saved: list[int] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        if isinstance(event, CheckpointSaved):
            saved.append(event.step)

    before = signal.getsignal(signal.SIGTERM)
    run = ToyRun(folder=tmp_path, on_event=on_event, dropout=0.3)
    run.plan["resume_command"] = "bothways finetune --resume"
    with pytest.raises(RunStopped, match="step 6 of 12 is saved; go on with: bothways finetune"):
        run.run()
    assert saved == [6]
    assert signal.getsignal(signal.SIGTERM) is before
    again = ToyRun(folder=tmp_path, dropout=0.3)
    again.run()
    straight = ToyRun(dropout=0.3)
    straight.run()
    assert same_bits(again.weights(), straight.weights())
