"""Distillation from end to end: tasks, masked text, students of every beginning, resuming."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import adapt, new_head
from bothways.checkpoints.save import save_parts
from bothways.config import CommonSettings, read_recipe
from bothways.errors import BothwaysError, CheckpointError, TrainingError, UsageError
from bothways.inference.model import load
from bothways.training.distill import distill
from bothways.training.distill_settings import DistillSettings, HeldOutSettings
from bothways.training.finetune import finetune
from bothways.training.imitation import ImitationSettings
from bothways.training.pretrain import pretrain
from bothways.training.recorder import Event, StepDone
from bothways.training.run_tables import LoopSettings, OptimSettings
from bothways.training.student import with_layers
from tests.cli.command import Command, undisturbed
from tests.training.pretraining import text_settings
from tests.training.tiny import Killed, kill_after, lines, same, save_tiny_model, settings_for


@pytest.fixture(scope="module")
def teacher(tiny_model: Path, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of two layers that knows good from bad."""
    output = tmp_path_factory.mktemp("teacher") / "model"
    finetune(settings_for(tiny_model, examples, output, loop={"epochs": 6}))
    return output


@pytest.fixture(scope="module")
def filler(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers that fills masks, and tells whether sentences follow each other."""
    output = tmp_path_factory.mktemp("filler") / "model"
    pretrain(text_settings(shards, output, objective__relation="next-sentence"))
    return output


Make = Callable[..., DistillSettings]


@pytest.fixture
def settings(teacher: Path, examples: Path, tmp_path: Path) -> Make:
    """Settings of a short run; what a test varies is given."""

    def make(name: str = "student", **changes: Any) -> DistillSettings:
        common = CommonSettings(device="cpu")
        whole = DistillSettings(
            str(teacher),
            tmp_path / name,
            (str(examples / "train.csv"),),
            student_layers=1,
            held_out=HeldOutSettings(dev=examples / "dev.csv", test=examples / "test.csv"),
            optim=OptimSettings((2e-2,)),
            loop=LoopSettings(epochs=3, batch_size=8),
            common=common,
        )
        return dataclasses.replace(whole, **changes)

    return make


def of_text(filler: Path, shards: Path, output: Path, **changes: Any) -> DistillSettings:
    """Settings of 6 steps over text."""
    whole = DistillSettings(
        str(filler),
        output,
        (str(shards),),
        student_layers=1,
        steps=6,
        held_out=HeldOutSettings(held_out_tokens=600),
        optim=OptimSettings((2e-3,)),
        common=CommonSettings(device="cpu", batch_tokens=384, max_length=32),
    )
    return dataclasses.replace(whole, **changes)


# --- tasks ------------------------------------------------------------------------------------


def test_a_student_does_its_teachers_task(settings: Make, teacher: Path, examples: Path) -> None:
    result = distill(settings())
    found = result.comparison
    assert found.student_parameters < found.teacher_parameters
    assert found.times_faster is not None
    assert found.times_faster > 0
    assert found.scores is not None
    assert found.scores.metric == "accuracy"
    assert found.scores.student.value > 0.9
    assert found.scores.difference.value == pytest.approx(
        found.scores.student.value - found.scores.teacher.value
    )
    student = load(result.folder)
    assert student.encoder.config.num_layers == 1
    assert student.task == load(teacher).task
    assert result.report is not None
    table = next(table for table in result.report.tables if table.name == "teacher")
    assert [row[0] for row in table.rows][:3] == ["parameters", "megabytes", "speed"]
    stored = json.loads((result.folder / "bothways.json").read_text())["distilled"]
    assert stored["comparison"] == json.loads(json.dumps(found.as_dict()))
    assert {"hard", "soft", "hidden"} <= lines(result.folder, "train")[0].keys()
    assert lines(result.folder, "dev")[-1]["accuracy"] > 0.9


def test_the_teachers_columns_and_files_are_read_as_it_was(
    tiny_model: Path, examples: Path, settings: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "semicolons"
    folder.mkdir()
    for name in ("train", "dev"):
        rows = (examples / f"{name}.csv").read_text(encoding="utf-8").splitlines()[1:]
        content = "\n".join("\t".join(reversed(row.rsplit(",", 1))) for row in rows)
        (folder / f"{name}.txt").write_text(content, encoding="utf-16")
    files = {"format": "tsv", "encoding": "utf-16", "header": False, "quoting": False}
    made = settings_for(tiny_model, folder, tmp_path / "teacher", loop={"epochs": 1})
    data = dataclasses.replace(
        made.data, train=folder / "train.txt", dev=folder / "dev.txt", text="2", label="1"
    )
    finetune(
        dataclasses.replace(made, data=data, common=CommonSettings(device="cpu", **files))  # type: ignore[arg-type]
    )
    result = distill(
        settings(
            teacher=str(tmp_path / "teacher"),
            data=(str(folder / "train.txt"),),
            held_out=HeldOutSettings(dev=folder / "dev.txt"),
            loop=LoopSettings(epochs=1),
        )
    )
    assert result.report is not None
    assert result.report.count == 24


def test_a_killed_run_ends_with_the_bits_of_the_straight_one(settings: Make) -> None:
    straight = distill(settings("straight")).folder
    loop = dataclasses.replace(settings().loop, checkpoint_every=3)
    assert load_parts(straight).config.dropout.hidden > 0
    with pytest.raises(Killed):
        distill(settings(loop=loop), on_event=kill_after(11))
    seen: list[Event] = []
    resumed = settings(loop=loop, resume=True)
    distill(resumed, on_event=seen.append)
    assert min(event.step for event in seen if isinstance(event, StepDone)) == 10
    assert same(resumed.output, straight)
    with pytest.raises(TrainingError, match="soft_weight"):
        distill(
            dataclasses.replace(
                resumed, imitation=ImitationSettings(soft_weight=7.0, hidden_weight=1)
            )
        )


def test_the_recipe_is_the_settings(settings: Make) -> None:
    given = settings(loop=LoopSettings(epochs=1))
    distill(given)
    assert read_recipe(DistillSettings, given.output / "recipe.toml") == given


def test_several_seeds_are_runs_of_which_the_best_is_kept(settings: Make) -> None:
    result = distill(settings(loop=LoopSettings(epochs=1, batch_size=8, seeds=2)))
    assert result.report is not None
    assert "runs" in {table.name for table in result.report.tables}


def test_another_encoder_can_be_the_student(settings: Make, tmp_path: Path) -> None:
    other = tmp_path / "other"
    save_tiny_model(other)
    result = distill(settings(student=str(other), student_layers=None))
    assert load(result.folder).encoder.config.num_layers == 2
    assert result.comparison.scores is not None
    assert result.comparison.scores.student.value > 0.9


def test_a_narrower_student_learns_from_predictions_alone(settings: Make, tmp_path: Path) -> None:
    parts = load_parts(save_tiny_model(tmp_path / "wide"))
    config = dataclasses.replace(
        parts.config,
        hidden_size=8,
        embeddings=dataclasses.replace(parts.config.embeddings, size=8),
        attention=dataclasses.replace(parts.config.attention, head_size=4),
    )
    narrow = type(parts.encoder)(config)
    save_parts(dataclasses.replace(parts, encoder=narrow, raw={}), tmp_path / "narrow")
    given = settings(student=str(tmp_path / "narrow"), student_layers=None)
    result = distill(given)
    assert lines(result.folder, "train")[-1]["hidden"] == 0.0
    wanted = dataclasses.replace(
        given, overwrite=True, imitation=ImitationSettings(hidden_weight=1.0)
    )
    with pytest.raises(UsageError, match="16 wide, the student's 8"):
        distill(wanted)


def test_words_are_left_out_and_learned_without(settings: Make, examples: Path) -> None:
    words = "great lovely fine bright awful dull poor bleak the film was a very long story"
    few = examples / "words.txt"
    few.write_text(words, encoding="utf-8")
    result = distill(settings(keep_words_from=few, loop=LoopSettings(epochs=1)))
    kept = load(result.folder).tokenizer
    assert len(kept.vocabulary()) == 5 + len(words.split())
    assert result.comparison.scores is not None


# --- masked text ------------------------------------------------------------------------------


def test_a_filler_of_masks_has_a_student(filler: Path, shards: Path, tmp_path: Path) -> None:
    result = distill(of_text(filler, shards, tmp_path / "out"))
    assert result.report is None
    assert set(result.metrics) >= {"loss", "soft", "hidden", "perplexity"}
    scores = result.comparison.scores
    assert scores is not None
    assert scores.metric == "loss"
    assert scores.difference.low is not None
    assert scores.difference.value == pytest.approx(scores.student.value - scores.teacher.value)
    before = with_layers(load_parts(filler), (0,))
    parts = load_parts(result.folder)
    assert parts.masked_lm is not None
    assert parts.config.num_layers == before.config.num_layers == 1
    (candidates,) = load(result.folder).fill(["a [MASK]"])[0]
    assert len(candidates) == 5


def test_a_killed_run_over_text_ends_with_the_bits_of_the_straight_one(
    filler: Path, shards: Path, tmp_path: Path
) -> None:
    distill(of_text(filler, shards, tmp_path / "straight"))
    loop = LoopSettings(checkpoint_every=2)
    with pytest.raises(Killed):
        distill(of_text(filler, shards, tmp_path / "out", loop=loop), on_event=kill_after(5))
    distill(of_text(filler, shards, tmp_path / "out", loop=loop, resume=True))
    assert same(tmp_path / "out", tmp_path / "straight")


# --- no training ------------------------------------------------------------------------------


def test_the_start_alone_needs_no_data(teacher: Path, tmp_path: Path) -> None:
    result = distill(
        DistillSettings(str(teacher), tmp_path / "cut", student_layers=1, init_only=True)
    )
    assert result.comparison.scores is None
    student, whole = load(result.folder), load_parts(teacher)
    assert student.encoder.config.num_layers == 1
    for name, value in student.encoder.layers[0].state_dict().items():
        assert torch.equal(value, whole.encoder.layers[0].state_dict()[name])
    assert len(list(student.predict(["a great film"]))) == 1


def test_fewer_words_alone_change_no_prediction(
    teacher: Path, examples: Path, tmp_path: Path
) -> None:
    given = DistillSettings(
        str(teacher), tmp_path / "few", keep_words_from=examples / "dev.csv", init_only=True
    )
    small, whole = load(distill(given).folder), load(teacher)
    texts = [example.text for example in _read(whole, examples / "dev.csv")]
    assert len(small.tokenizer.vocabulary()) <= len(whole.tokenizer.vocabulary())
    assert list(small.predict(texts)) == list(whole.predict(texts))


def _read(model: Any, path: Path) -> list[Any]:
    from bothways.data.options import FileOptions

    return list(model.task.read(FileOptions().rows(path)))


def test_from_the_command_line(
    teacher: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with undisturbed():
        run = Command(capsys)
        words = ("distill", "--teacher", teacher, "--student-layers", 1)
        done = run(*words, "--init-only", "--output", tmp_path / "cut", "--json").json
        assert done["comparison"]["student_parameters"] < done["comparison"]["teacher_parameters"]
        told = run(*words, "--init-only", "--output", tmp_path / "again").out
        assert told.split()[:2] == ["teacher", "student"]
        run.fails(*words, "--output", tmp_path / "x", code=2, parts=["--data", "--init-only"])


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"student_layers": None}, "say what is smaller"),
        ({"keep_layers": (0,)}, "give one of --student-layers, --keep-layers, --student"),
        ({"init_only": True}, "--data says nothing"),
        ({"data": ()}, "give --data to learn from"),
        ({"imitation": ImitationSettings(temperature=0.0)}, "--temperature is 0.0"),
        ({"imitation": ImitationSettings(soft_weight=-1.0)}, "--soft-weight is -1.0"),
        ({"imitation": ImitationSettings(2.0, 0.0, 0.0, 0.0)}, "nothing to learn"),
        ({"resume": True, "overwrite": True}, "--resume goes with neither"),
        ({"student_layers": 3}, "--student-layers is 3; the teacher has 2 layers"),
        ({"data": ("a.csv", "b.csv")}, "one labelled file"),
        ({"steps": 5}, "--epochs, not --steps"),
    ],
)
def test_what_cannot_be_is_refused(settings: Make, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(BothwaysError, match=expected):
        distill(settings(**changes))


def test_text_needs_steps(filler: Path, shards: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give --steps"):
        distill(of_text(filler, shards, tmp_path / "out", steps=None))


def test_a_teacher_needs_something_to_say(settings: Make, tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="neither a task"):
        distill(settings(teacher=str(tiny_model)))
    parts = load_parts(tiny_model)
    untrained = adapt(parts, new_head(parts, "sequence", 2), labels=("bad", "good"))
    save_parts(untrained, tmp_path / "untrained")
    with pytest.raises(CheckpointError, match="random weights"):
        distill(settings(teacher=str(tmp_path / "untrained")))


def test_a_student_with_other_pieces_is_refused(settings: Make, filler: Path) -> None:
    with pytest.raises(BothwaysError, match="different tokenizers"):
        distill(settings(student=str(filler), student_layers=None))


def test_labels_that_the_teacher_does_not_have_are_refused(settings: Make, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("text,label\nthe film,odd\na film,good\n", encoding="utf-8")
    with pytest.raises(BothwaysError, match="odd"):
        distill(settings(data=(str(path),)))
