"""Several heads on one encoder: settings, order of batches, losses, resuming, refusals."""

from __future__ import annotations

import dataclasses
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bothways.checkpoints.load import load_parts
from bothways.config import leaves, read_recipe
from bothways.errors import DataError, UsageError
from bothways.inference.model import Model
from bothways.training.finetune import finetune
from bothways.training.head_table import HeadTable
from bothways.training.run_tables import DataSettings, LoopSettings, NetworkSettings
from bothways.training.runs import Runner
from bothways.training.runtime import Runtime
from bothways.training.settings import FinetuneSettings
from bothways.training.several import (
    SeveralObjective,
    read_several,
    several_task,
    steps_of_several,
)
from bothways.training.task_tables import TagSettings
from bothways.training.tuning_table import TuningSettings
from tests.training.several import settings_of, table, tables, without_dev, write_files
from tests.training.tiny import Killed, kill_after, lines


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("several"))


@pytest.fixture(scope="module")
def two(files: Path) -> tuple[HeadTable, ...]:
    mood, *_, chain = tables(files)[:5]
    return mood, chain


def data_of(settings: FinetuneSettings) -> Any:
    model = Model(load_parts(settings.model))
    return read_several(settings, several_task(settings), model)


# --- settings -----------------------------------------------------------------------------------


def test_a_recipe_reads_back_as_the_same_settings(
    files: Path, tiny_model: Path, tmp_path: Path
) -> None:
    given = settings_of(tiny_model, tmp_path / "out", tables(files))
    (tmp_path / "recipe.toml").write_text(given.recipe(), encoding="utf-8")
    assert given.recipe().count("[[task]]") == 9
    again = read_recipe(FinetuneSettings, tmp_path / "recipe.toml")
    assert again == given
    again.check()


def test_each_head_has_the_settings_that_would_train_it_alone(
    two: tuple[HeadTable, ...], tiny_model: Path, tmp_path: Path
) -> None:
    mood, chain = two
    latin = dataclasses.replace(mood, encoding="latin-1")
    alone = settings_of(tiny_model, tmp_path / "out", (latin, chain)).alone
    assert list(alone) == ["mood", "chain"]
    assert (alone["mood"].task, alone["mood"].common.encoding) == ("classify", "latin-1")
    assert alone["mood"].network.pooling == "mean"
    assert (alone["chain"].task, alone["chain"].common.encoding) == ("tag", None)
    assert alone["chain"].task_settings()["crf"]
    assert alone["chain"].loop.batch_size == 8


RECIPE = 'model = "m"\noutput = "o"\n[[task]]\nname = "a"\ntrain = "a.csv"\n'


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('[[task]]\nname = "b"\ntrian = "b.csv"', "task 2: there is no setting trian; did you"),
        ('[[task]]\ntrain = "b.csv"', "task 2: name is missing"),
        ('[[task]]\nname = "b"\nweight = "much"', "task 2: weight is 'much'; expected a number"),
        ('[[task]]\nname = "b"\n[task.classify]\nloss = "focal"', "no setting classify"),
        ('[data]\ntrain = "a.csv"\n', "belong into the [[task]] tables"),
        ("[network]\npooling = 'mean'\n", "belong into the [[task]] tables"),
        ('[[task]]\nname = "a"\ntrain = "b.csv"', "need names of their own"),
        ('[[task]]\nname = "b.c"\ntrain = "b.csv"', "[[task]] b.c: a name is a word"),
        ('[[task]]\nname = "type"\ntrain = "b.csv"', "[[task]] type: a name is a word"),
        ('[[task]]\nname = "b"\ntask = "embed"\ntrain = "b"', "[[task]] b: no head does 'embed'"),
        ('[[task]]\nname = "b"\ntask = "tga"\ntrain = "b"', "did you mean 'tag'?"),
        ('[[task]]\nname = "b"\nweight = 0\ntrain = "b"', "[[task]] b: weight is 0.0"),
        ('[[task]]\nname = "b"', "[[task]] b: give --train"),
        ('[[task]]\nname = "b"\ntrain = "b"\ncrf = true', "[[task]] b: --crf is for --task tag"),
        ('[[task]]\nname = "b"\ntrain = "b"\ndev = "c"', "give every [[task]] a dev"),
        ("[tuning]\nfew_shot = true", "--few-shot need one label a text"),
        ("[tuning]\nsampling = 'balanced'", "--few-shot need one label a text"),
        ("[tuning]\nlearning_curve = [0.5, 1.0]", "--learning-curve is for one task"),
    ],
)
def test_a_wrong_table_is_refused_with_its_name(more: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE + more, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_recipe(FinetuneSettings, path).check()
    assert words in str(caught.value)


def test_tables_are_for_recipes_and_no_flag() -> None:
    leaf = leaves(FinetuneSettings)["[task]"]
    assert leaf.tables is HeadTable
    assert leaf.flags == ()


def test_what_is_wrong_with_a_file_names_the_head(
    files: Path, tiny_model: Path, tmp_path: Path
) -> None:
    wrong = HeadTable("b", data=DataSettings(train=files / "classify.csv", label="lable"))
    heads = (*without_dev(tables(files)[:1]), wrong)
    with pytest.raises(DataError, match=r"\[\[task\]\] b: .*classify.csv has no column .*'lable'"):
        finetune(settings_of(tiny_model, tmp_path / "out", heads))


def test_the_metric_is_the_mean_or_one_of_a_head(
    two: tuple[HeadTable, ...], tiny_model: Path, tmp_path: Path
) -> None:
    loop = LoopSettings(epochs=1, batch_size=8, metric="accuracy")
    with pytest.raises(UsageError, match=r"'mood.accuracy'.* mean \(\+\), mood.accuracy \(\+\)"):
        finetune(settings_of(tiny_model, tmp_path / "out", two, loop=loop))


# --- batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0])
def test_batches_are_of_one_head_and_alternate_by_weight(
    weight: float, files: Path, two: tuple[HeadTable, ...], tiny_model: Path, tmp_path: Path
) -> None:
    mood, chain = two
    heads = (mood, dataclasses.replace(chain, weight=weight))
    settings = settings_of(tiny_model, tmp_path / "out", heads)
    data = data_of(settings)
    plan = steps_of_several(settings, data, seed=0, num_ranks=1)
    lists = data.train.lists()
    seen: list[int] = []
    for epoch in range(2):
        steps = plan(epoch)
        batches = [data.train.batch([i for each in step for i in lists[each]]) for step in steps]
        order = [batch.head for batch in batches]
        assert order.count("mood") == 3
        assert order.count("chain") == max(1, round(3 * weight))
        # Spread over the epoch, and not one head after another.
        assert len(set(order[: math.ceil(len(order) / 2)])) == 2
        for step, batch in zip(steps, batches, strict=True):
            assert ("tag" in batch.targets) == (batch.head == "chain")
            seen += step
    # Nothing is left out, half of the data an epoch or not.
    assert {*seen[:24], *seen} >= set(range(24))
    assert sum(place >= 24 for place in seen) == 2 * 8 * max(1, round(3 * weight))
    assert plan(0) == plan(0) != plan(1)


def test_a_batch_moves_its_own_head_and_the_encoder(
    files: Path, tiny_model: Path, tmp_path: Path
) -> None:
    settings = settings_of(tiny_model, tmp_path / "out", tables(files))
    data = data_of(settings)
    runner = Runner(
        settings,
        data=data,
        base=load_parts(tiny_model),
        runtime=Runtime(device="cpu"),
        metric="mean",
    )
    objective = runner._objective(runner.start(_spec(settings)))
    assert isinstance(objective, SeveralObjective)
    names = [part.name for part in objective.parts]
    for number, name in enumerate(data.heads):
        batch = data.train.batch([24 * number + index for index in range(8)])
        objective.zero_grad(set_to_none=True)
        sums, counts = objective(batch), objective.counts(batch)
        assert names[number] == f"{name}.loss"
        assert [at for at, value in enumerate(sums.tolist()) if value] == [number]
        assert [at for at, count in enumerate(counts) if count] == [number]
        own = objective.each[name]
        assert sums[number] == own(batch) or name in ("chain", "where")  # dropout is drawn anew
        sums.sum().backward()
        moved = {each for each, p in objective.heads.named_parameters() if p.grad is not None}
        assert moved
        assert all(each.startswith(f"{name}.") for each in moved)
        assert objective.encoder is not None
        reached = objective.encoder.get_parameter("layers.0.attention.query.weight").grad
        assert reached is not None
        assert reached.abs().sum() > 0
    # The encoder is in it once.
    assert len([n for n, _ in objective.named_parameters() if "words.weight" in n]) == 1


def _spec(settings: FinetuneSettings) -> Any:
    from bothways.training.grid import grid

    return grid(settings)[0]


# --- runs ---------------------------------------------------------------------------------------


def test_a_killed_run_resumes_to_the_same_bits(
    two: tuple[HeadTable, ...], tiny_model: Path, tmp_path: Path
) -> None:
    """Dropout is on, and the cut lies within an epoch."""

    def settings(name: str, **rest: Any) -> FinetuneSettings:
        loop = LoopSettings(epochs=2, batch_size=8, checkpoint_every=2, log_every=1)
        return settings_of(tiny_model, tmp_path / name, two, loop=loop, **rest)

    with pytest.raises(Killed):
        finetune(settings("killed"), on_event=kill_after(5))
    finetune(settings("killed", resume=True))
    finetune(settings("straight"))
    for file in ("model.safetensors", "head.safetensors"):
        ours, theirs = (load_file(tmp_path / name / file) for name in ("killed", "straight"))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    both = [lines(tmp_path / name, "train") for name in ("killed", "straight")]
    assert [line["loss"] for line in both[0][-6:]] == [line["loss"] for line in both[1][-6:]]


def test_lines_have_the_loss_of_each_head_and_dev_the_mean(
    two: tuple[HeadTable, ...], tiny_model: Path, tmp_path: Path
) -> None:
    loop = LoopSettings(epochs=2, batch_size=8, log_every=3, seeds=2)
    result = finetune(settings_of(tiny_model, tmp_path / "out", two, loop=loop))
    first = lines(tmp_path / "out", "train")[0]
    assert first["loss"] == pytest.approx(first["mood.loss"] + first["chain.loss"])
    for line in lines(tmp_path / "out", "dev"):
        main = [line["mood.accuracy"], line["chain.f1_strict"]]
        assert line["mean"] == pytest.approx(statistics.fmean(main))
    assert len(result.runs) == 2
    assert result.best.value == max(run.value or 0.0 for run in result.runs)
    metrics = {name: metric.value for name, metric in result.report.metrics.items()}
    assert metrics == pytest.approx(result.best.metrics, abs=1e-6)
    assert result.report.count == 48
    assert result.report.baselines["majority"].keys() < metrics.keys()


@pytest.mark.parametrize(
    "rest",
    [
        {"network": NetworkSettings(freeze="encoder")},
        {"tuning": TuningSettings(layer_decay=0.5, reinit_layers=1)},
        {"tuning": TuningSettings(lora_rank=2)},
    ],
    ids=["frozen", "layers", "lora"],
)
def test_what_changes_the_encoder_s_training_goes_with_several(
    rest: dict[str, Any], files: Path, tiny_model: Path, tmp_path: Path
) -> None:
    heads = without_dev(
        (
            table(files, "mood", "classify.csv", "classify", pooling="mean"),
            table(files, "chain", "tag.conll", "tag", tag=TagSettings(crf=True)),
        )
    )
    finetune(settings_of(tiny_model, tmp_path / "out", heads, **rest))
    before, after = load_parts(tiny_model), load_parts(tmp_path / "out")
    name = "layers.1.attention.query.weight"
    same = torch.equal(before.encoder.get_parameter(name), after.encoder.get_parameter(name))
    assert same == ("network" in rest)
    assert after.head_names == ("mood", "chain")
