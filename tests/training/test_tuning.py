"""Fine-tuning beyond its plain form: layers, balance, curves, few texts, and what is refused."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from bothways.config import CommonSettings
from bothways.errors import TrainingError, UsageError
from bothways.inference.model import load
from bothways.model.encoder import Encoder
from bothways.tasks.classify import label_results
from bothways.training.balanced import balanced_epoch, copies
from bothways.training.curve import part_of
from bothways.training.few_shot import TEMPERATURE, contrast, few_shot_plan
from bothways.training.finetune import finetune
from bothways.training.grid import Spread
from bothways.training.layers import layer_factors, reinitialise
from bothways.training.optim import adamw, set_learning_rate
from bothways.training.settings import FinetuneSettings
from bothways.training.task_tables import ClassifySettings
from bothways.training.tuning_table import TuningSettings
from tests.training.runs import ToyObjective, tiny_config
from tests.training.tiny import Killed, kill_after, same, settings_for, write_examples

# --- layers ---------------------------------------------------------------------------------------


def test_rates_fall_from_the_head_to_the_embeddings() -> None:
    objective = ToyObjective()  # two layers
    factors = layer_factors(objective, objective.encoder, 0.5)
    optimizer = adamw(objective, learning_rate=1.0, factors=factors)
    assert set_learning_rate(optimizer, 0.1) == pytest.approx(0.1)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    found = {name: round(rates[id(p)], 6) for name, p in objective.named_parameters()}
    assert found["head.output.weight"] == 0.1
    assert found["encoder.layers.1.attention.query.weight"] == 0.05
    assert found["encoder.layers.0.attention.query.bias"] == 0.025
    assert found["encoder.embeddings.words.weight"] == 0.0125
    decays = {
        id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]
    }
    assert decays[id(objective.head.output.bias)] == 0.0
    assert decays[id(objective.head.output.weight)] == 0.01


def test_a_factor_of_one_moves_weights_as_without() -> None:
    steps = []
    for factors in (False, True):
        objective = ToyObjective()
        given = layer_factors(objective, objective.encoder, 1.0) if factors else None
        optimizer = adamw(objective, learning_rate=0.1, factors=given)
        for parameter in objective.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        steps.append(objective.state_dict())
    assert all(torch.equal(steps[0][name], steps[1][name]) for name in steps[0])


def test_new_top_layers_leave_what_is_below() -> None:
    encoder = Encoder(tiny_config())
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    reinitialise(encoder, 1)
    changed = {n for n, v in encoder.state_dict().items() if not torch.equal(v, before[n])}
    assert changed
    assert all(name.startswith("layers.1.") for name in changed)


@pytest.mark.parametrize(
    ("network", "tuning", "message"),
    [
        ({"freeze": "99"}, {}, "--freeze is '99'; expected .* from 1 to 2"),
        ({}, {"reinit_layers": 3}, "--reinit-layers is 3; the encoder has 2 layers"),
        ({"freeze": "1"}, {"reinit_layers": 2}, "--reinit-layers is 2 above 1 frozen"),
    ],
)
def test_what_the_encoder_has_not_is_refused_before_the_data(
    network: dict[str, Any],
    tuning: dict[str, Any],
    message: str,
    tiny_model: Path,
    tmp_path: Path,
) -> None:
    settings = settings_for(
        tiny_model,
        tmp_path / "nothing",
        tmp_path / "out",
        network=network,
        tuning=TuningSettings(**tuning),
    )
    with pytest.raises(UsageError, match=message):
        finetune(settings)
    longer = dataclasses.replace(
        settings,
        network=type(settings.network)(),
        tuning=TuningSettings(),
        common=CommonSettings(max_length=99),
    )
    with pytest.raises(UsageError, match="99"):
        finetune(longer)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"freeze": "foo"}, "--freeze is 'foo'; expected embeddings, encoder"),
        ({"freeze": "-1"}, "--freeze is '-1'"),
        ({"freeze": "0"}, "--freeze is '0'"),
        ({"layer_decay": 0.0}, "--layer-decay is 0.0"),
        ({"lora_alpha": 3.0}, "go with --lora-rank"),
        ({"lora_rank": 4, "freeze": "1"}, "--lora-rank freezes the whole encoder"),
        ({"layer_decay": 0.9, "freeze": "encoder"}, "leaves no layer to learn"),
        ({"learning_curve": (0.5, 1.5)}, "--learning-curve has shares"),
        ({"learning_curve": (0.5,), "dev": None}, "--learning-curve needs something to score on"),
        ({"few_shot": True, "multi_label": True}, "need one label a text"),
        ({"few_shot": True, "lora_rank": 2}, "leave out --sampling and --lora-rank"),
        ({"track": ("foo",)}, "no tracker is called 'foo'"),
        ({"task": "multi-label"}, "--task classify --multi-label"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(
    tables: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = dict(tables)
    names = {field.name for field in dataclasses.fields(TuningSettings)}
    settings = settings_for(
        tmp_path / "no-model",
        tmp_path,
        tmp_path / "out",
        data={"dev": given.pop("dev", tmp_path / "dev.csv")},
        network={"freeze": given.pop("freeze", None)},
        tuning=TuningSettings(**{name: given.pop(name) for name in names & given.keys()}),
        classify=ClassifySettings(multi_label=given.pop("multi_label", False)),
        **given,
    )
    with pytest.raises(UsageError, match=message):
        finetune(settings)


# --- balance --------------------------------------------------------------------------------------

LABELS = ["a"] * 17 + ["b"] * 4 + ["c"]


def test_a_balanced_epoch_has_each_label_as_often_and_is_a_function_of_its_number() -> None:
    places = copies(LABELS)
    labels = [LABELS[place] for place in places]
    epochs = [balanced_epoch(labels, 22, seed=1, epoch=epoch) for epoch in range(3)]
    for epoch in epochs:
        assert len(epoch) == len(set(epoch)) == 22
        assert sorted(Counter(labels[place] for place in epoch).values()) == [7, 7, 8]
    assert epochs[0] != epochs[1]
    assert epochs[1] == balanced_epoch(labels, 22, seed=1, epoch=1)
    read = {places[place] for epoch in epochs for place in epoch}
    assert len(read & set(range(17))) > 8  # other frequent texts in other epochs


def write_uneven(path: Path, count: int) -> None:
    """A tenth of the texts is good."""
    write_examples(path, 2 * count)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    good = [row for row in rows if row["label"] == "good"][: count // 10]
    bad = [row for row in rows if row["label"] == "bad"][: count - count // 10]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows([*good, *bad])


def test_balanced_sampling_trains_and_resumes_to_the_same_bits(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    write_uneven(tmp_path / "train.csv", 40)

    def settings(name: str, **rest: Any) -> FinetuneSettings:
        return settings_for(
            tiny_model,
            tmp_path,
            tmp_path / name,
            data={"dev": examples / "dev.csv"},
            loop={"checkpoint_every": 2},
            tuning=TuningSettings(sampling="balanced"),
            **rest,
        )

    with pytest.raises(Killed):
        finetune(settings("killed"), on_event=kill_after(7))
    finetune(settings("killed", resume=True))
    result = finetune(settings("straight"))
    assert same(tmp_path / "killed", tmp_path / "straight")
    assert result.best.step == 15  # three epochs of 40 texts, 8 a step


def test_weights_of_labels_are_in_the_report(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    """transformers#35061: one flag, with the effect shown for each class."""
    write_uneven(tmp_path / "train.csv", 40)
    settings = settings_for(
        tiny_model,
        tmp_path,
        tmp_path / "out",
        data={"dev": examples / "dev.csv"},
        loop={"epochs": 1},
        classify=ClassifySettings(class_weights=("balanced",)),
    )
    result = finetune(settings)
    tables = {table.name: table for table in result.report.tables}
    assert tables["weights"].rows == (("bad", 36, 40 / 72), ("good", 4, 5.0))
    assert {row[0] for row in tables["labels"].rows} == {"bad", "good"}


# --- seeds and curves -----------------------------------------------------------------------------


def test_seeds_and_shares_are_told_with_their_spread(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    settings = settings_for(
        tiny_model,
        examples,
        tmp_path / "out",
        loop={"epochs": 2, "seeds": 2},
        tuning=TuningSettings(learning_curve=(0.25, 1.0)),
    )
    result = finetune(settings)
    told = json.loads(json.dumps(result.as_dict()))
    values = [run.metrics["accuracy"] for run in result.runs]
    assert told["spread"][0]["metrics"]["accuracy"] == dataclasses.asdict(Spread.of(values))
    assert result.best.value == max(values)
    small, whole = told["learning_curve"]
    assert (small["examples"], whole["examples"]) == (16, 64)
    assert whole["value"] == pytest.approx(result.best.value)
    assert small["low"] is None or small["low"] <= small["value"]
    report = json.loads((settings.output / "report.json").read_text(encoding="utf-8"))
    assert {"runs", "seeds", "learning_curve"} <= {table["name"] for table in report["tables"]}
    assert "learning_curve" in {figure["name"] for figure in report["figures"]}
    again = finetune(dataclasses.replace(settings, resume=True))
    assert again.curve == result.curve
    assert [path.name for path in settings.output.glob("runs/share-*/checkpoints/step-*")] == []


def test_shares_are_nested() -> None:
    parts = [set(part_of(50, share, seed=3)) for share in (0.1, 0.25, 0.5, 1.0)]
    assert [len(part) for part in parts] == [5, 13, 25, 50]
    assert all(small < large for small, large in pairwise(parts))


# --- few texts a label ----------------------------------------------------------------------------


def test_contrast_is_the_mean_over_partners_by_hand() -> None:
    vectors = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    labels = torch.tensor([0, 0, 1])
    cosine, other = 1.0 / TEMPERATURE, 0.0
    one = -torch.log_softmax(torch.tensor([cosine, other]), 0)[0]
    torch.testing.assert_close(contrast(vectors, labels), 2 * one)
    vectors.requires_grad_(True)
    alone = contrast(vectors, torch.tensor([0, 1, 2]))
    assert alone.item() == 0.0
    (gradient,) = torch.autograd.grad(alone, vectors)
    assert torch.isfinite(gradient).all()


def test_few_shot_batches_hold_partners() -> None:
    plan = few_shot_plan(LABELS, batch_size=6, seed=0)
    for batch in plan(0):
        assert len(set(batch)) == len(batch) <= 6
        counts = Counter(LABELS[place] for place in batch)
        assert all(count == 2 or label == "c" for label, count in counts.items())
    assert plan(0) != plan(1)
    assert plan(1) == few_shot_plan(LABELS, batch_size=6, seed=0)(1)


def test_few_shot_leaves_an_ordinary_classifier(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    write_examples(tmp_path / "train.csv", 32)

    def settings(name: str, **rest: Any) -> FinetuneSettings:
        return settings_for(
            tiny_model,
            tmp_path,
            tmp_path / name,
            data={"dev": examples / "dev.csv"},
            optim={"learning_rate": (1e-2,)},
            loop={"epochs": 2, "checkpoint_every": 5},
            tuning=TuningSettings(few_shot=True),
            **rest,
        )

    with pytest.raises(Killed):
        finetune(settings("killed"), on_event=kill_after(12))
    finetune(settings("killed", resume=True))
    result = finetune(settings("straight"))
    assert same(tmp_path / "killed", tmp_path / "straight")
    assert result.report.metrics["accuracy"].value > 0.8
    texts = ["the film was great", "the film was awful"]
    found = label_results(load(tmp_path / "straight").predict(texts))
    assert [each.label for each in found] == ["good", "bad"]


# --- resuming -------------------------------------------------------------------------------------


def test_another_spelling_of_a_path_resumes_and_other_data_does_not(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seed in (("train", 0), ("dev", 1)):
        write_examples(tmp_path / f"{name}.csv", 24, seed=seed)
    monkeypatch.chdir(tmp_path)

    def settings(folder: Path, model: str, **rest: Any) -> FinetuneSettings:
        given = settings_for(
            tiny_model,
            folder,
            tmp_path / "out",
            loop={"epochs": 2, "checkpoint_every": 1},
            optim={"learning_rate": (1e-2, 2e-2)},
            **rest,
        )
        return dataclasses.replace(given, model=model)

    with pytest.raises(Killed):
        finetune(settings(tmp_path, str(tiny_model)), on_event=kill_after(2))
    other = os.path.relpath(tiny_model)
    finetune(settings(Path("."), other, resume=True))
    # A run of the grid that is over is not taken for one over other data.
    write_examples(tmp_path / "train.csv", 24, seed=5)
    with pytest.raises(TrainingError, match="training data was"):
        finetune(settings(Path("."), other, resume=True))
    write_examples(tmp_path / "train.csv", 24)
    write_examples(tmp_path / "dev.csv", 24, seed=6)
    with pytest.raises(TrainingError, match="dev data was"):
        finetune(settings(Path("."), other, resume=True))
