"""LoRA: what learns, what is merged, what peft reads over the base model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForSequenceClassification

from bothways.checkpoints.load import load_parts
from bothways.errors import UsageError
from bothways.inference.model import load
from bothways.tasks.classify import label_results
from bothways.training.adapters import add_adapters, merge_adapters
from bothways.training.finetune import finetune
from bothways.training.settings import FinetuneSettings
from bothways.training.tuning_table import TuningSettings
from tests.training.tiny import Killed, kill_after, same, settings_for, weights

# Two implementations of the same numbers in float32.
SINGLE = 1e-5
TEXTS = ["the great film", "a dull story"]
NETWORK = {"pooling": "auto"}


def lora(model: Path, examples: Path, output: Path, **rest: Any) -> FinetuneSettings:
    tuning = {"lora_rank": 2, "lora_targets": ("query", "value", "input"), **rest.pop("tuning", {})}
    return settings_for(
        model,
        examples,
        output,
        network=NETWORK,
        loop={"epochs": 2, "checkpoint_every": 3},
        tuning=TuningSettings(**tuning),
        **rest,
    )


@pytest.fixture(scope="module")
def trained(
    tiny_model: Path, examples: Path, tmp_path_factory: pytest.TempPathFactory
) -> FinetuneSettings:
    settings = lora(
        tiny_model,
        examples,
        tmp_path_factory.mktemp("lora") / "out",
        tuning={"lora_save": "adapter", "lora_alpha": 6.0},
    )
    finetune(settings)
    return settings


def test_only_the_projections_that_are_named_change(
    trained: FinetuneSettings, tiny_model: Path
) -> None:
    before, after = weights(tiny_model), weights(trained.output)
    changed = {
        name
        for name, value in before.items()
        if not torch.equal(value, after.get(f"bert.{name.removeprefix('bert.')}", value))
    }
    assert changed == {
        f"{prefix}encoder.layer.{layer}.{name}.weight"
        for prefix in ({"bert."} if any(n.startswith("bert.") for n in before) else {""})
        for layer in (0, 1)
        for name in ("attention.self.query", "attention.self.value", "intermediate.dense")
    }


def test_merged_weights_give_the_numbers_of_the_changes_beside_them(tiny_model: Path) -> None:
    model = load(tiny_model)
    before = model.embed(TEXTS).vectors
    add_adapters(model.encoder, TuningSettings(lora_rank=2))
    for name, parameter in model.encoder.named_parameters():
        assert parameter.requires_grad == ("lora_" in name)
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    beside = model.embed(TEXTS).vectors
    assert abs(beside - before).max() > 100 * SINGLE
    assert len(merge_adapters(model.encoder)) == 4
    assert abs(model.embed(TEXTS).vectors - beside).max() < SINGLE
    assert not any("lora" in name for name in model.encoder.state_dict())


# peft asks transformers by a name that is going to change.
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_peft_reads_the_adapter_over_the_base_model(
    trained: FinetuneSettings, tiny_model: Path
) -> None:
    ours = load(trained.output)
    base = AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=2)
    theirs = PeftModel.from_pretrained(base, str(trained.output / "adapter")).eval()
    with torch.no_grad():
        logits = theirs(**ours.tokenizer.padded(TEXTS)).logits
    expected = logits.softmax(-1)
    found = [list(r.probabilities.values()) for r in label_results(ours.predict(TEXTS))]
    torch.testing.assert_close(torch.tensor(found), expected, rtol=0, atol=SINGLE)
    config = json.loads((trained.output / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tiny_model)
    assert (config["r"], config["lora_alpha"]) == (2, 6.0)


def test_a_killed_run_resumes_to_the_same_bits(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    killed = lora(tiny_model, examples, tmp_path / "killed")
    with pytest.raises(Killed):
        finetune(killed, on_event=kill_after(7))
    finetune(dataclasses.replace(killed, resume=True))
    finetune(lora(tiny_model, examples, tmp_path / "straight"))
    assert same(tmp_path / "killed", tmp_path / "straight")
    assert not (tmp_path / "killed" / "adapter").exists()


def test_wrong_targets_are_refused_before_the_data(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    wrong = lora(tiny_model, tmp_path, tmp_path / "out", tuning={"lora_targets": ("querry",)})
    with pytest.raises(UsageError, match=r"'querry': did you mean 'query'"):
        finetune(wrong)


def test_a_head_that_transformers_has_not_makes_no_adapter(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    settings = lora(tiny_model, examples, tmp_path / "out", tuning={"lora_save": "adapter"})
    mean = dataclasses.replace(
        settings, network=dataclasses.replace(settings.network, pooling="mean")
    )
    with pytest.raises(UsageError, match="no class with this head"):
        finetune(mean)


def test_the_parts_are_plain_again(trained: FinetuneSettings) -> None:
    assert load_parts(trained.output).report.head_trained
