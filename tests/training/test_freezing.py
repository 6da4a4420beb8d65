"""Frozen parts keep their weights, and a frozen encoder runs once."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts
from bothways.errors import UsageError
from bothways.model.config import EncoderConfig, build_config
from bothways.model.encoder import Encoder
from bothways.model.heads import TokenHead
from bothways.tasks.classify import ClassifyExample, ClassifyTask
from bothways.tokenization.policy import CutPolicy
from bothways.training.examples import Splits, TrainingData
from bothways.training.finetune import finetune
from bothways.training.freezing import HeadObjective, KeptStates, freeze
from bothways.training.objectives import TaskObjective
from tests.training.tiny import settings_for

# The same states, computed in batches of another size.
STATE_TOLERANCE = 1e-5


def learned(encoder: Encoder) -> set[str]:
    names = [name for name, p in encoder.named_parameters() if p.requires_grad]
    return {".".join(name.split(".")[: 2 if name.startswith("layers") else 1]) for name in names}


def encoder(**axes: Any) -> Encoder:
    config = build_config(vocab_size=20, hidden_size=16, num_heads=2, num_layers=3)
    return Encoder(EncoderConfig(**{**vars(config), "pooler": True, **axes}))


@pytest.mark.parametrize(
    ("what", "left"),
    [
        (None, {"embeddings", "layers.0", "layers.1", "layers.2", "norm", "pooler"}),
        ("embeddings", {"layers.0", "layers.1", "layers.2", "norm", "pooler"}),
        ("2", {"layers.2", "norm", "pooler"}),
        ("3", {"norm", "pooler"}),
        ("encoder", set()),
    ],
)
def test_what_still_learns(what: str | None, left: set[str]) -> None:
    made = encoder()
    freeze(made, what)
    assert learned(made) == left


@pytest.mark.parametrize("what", ["4", "0", "-1", "layers", "1.5"])
def test_what_cannot_be_frozen_is_refused_with_what_can(what: str) -> None:
    with pytest.raises(UsageError, match="embeddings, encoder, or a number of layers from 1 to 3"):
        freeze(encoder(), what)


def test_layers_that_share_weights_cannot_be_frozen_alone() -> None:
    with pytest.raises(UsageError, match="share their weights"):
        freeze(encoder(num_layer_groups=1), "2")


@pytest.mark.parametrize("what", ["embeddings", "1", "encoder"])
def test_frozen_weights_keep_their_bits(
    what: str, tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    settings = settings_for(
        tiny_model, examples, tmp_path / "out", data={"dev": None}, network={"freeze": what}
    )
    finetune(settings)
    frozen = load_parts(settings.output).encoder.state_dict()
    start = load_parts(tiny_model).encoder.state_dict()
    changed = {name for name in start if not torch.equal(start[name], frozen[name])}
    assert not {name for name in changed if name.startswith("embeddings")}
    assert not ({name for name in changed if name.startswith("layers.0")} and what != "embeddings")
    assert bool(changed) == (what != "encoder")


# --- a frozen encoder -------------------------------------------------------------------------


def data_of(model: Path, examples: Path) -> tuple[Parts, TrainingData]:
    with (examples / "train.csv").open(encoding="utf-8", newline="") as file:
        rows = [ClassifyExample(row["text"], label=row["label"]) for row in csv.DictReader(file)]
    parts = load_parts(model)
    task = ClassifyTask(pooling="mean").fit(rows)
    assert parts.tokenizer is not None
    splits = Splits(task, rows, None, None)
    return parts, TrainingData.encode(splits, parts.tokenizer, CutPolicy(24))


@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
def test_kept_states_give_the_same_logits(pooling: Any, tiny_model: Path, examples: Path) -> None:
    parts, data = data_of(tiny_model, examples)
    task = ClassifyTask(labels=data.splits.task.labels, pooling=pooling)
    head = task.head(parts.config, task.labels).eval()
    indices = [5, 0, 17, 40]
    with torch.inference_mode():
        whole = TaskObjective(parts.encoder.eval(), head, task).logits(data.train.batch(indices))
        data.train.keep(KeptStates(parts.encoder, head, data.train.encodings))
        kept = HeadObjective(head, task).logits(data.train.batch(indices))
    torch.testing.assert_close(kept, whole, rtol=0.0, atol=STATE_TOLERANCE)
    states = data.train.batch(indices).targets["states"]
    assert states.shape == (4, 16)  # one vector a text is all that is kept


def test_a_head_that_reads_tokens_gets_all_of_them(tiny_model: Path, examples: Path) -> None:
    parts, data = data_of(tiny_model, examples)
    head = TokenHead(16, 2).eval()
    indices = [3, 9]
    with torch.inference_mode():
        batch = data.train.batch(indices)
        whole = head(parts.encoder.eval()(batch), batch)
        data.train.keep(KeptStates(parts.encoder, head, data.train.encodings))
        kept_batch = data.train.batch(indices)
        kept = HeadObjective(head, data.splits.task).logits(kept_batch)
    assert kept_batch.layout.lengths == batch.layout.lengths
    torch.testing.assert_close(kept, whole, rtol=0.0, atol=STATE_TOLERANCE)


def test_a_frozen_encoder_reads_each_text_once_with_dropout_off(
    tiny_model: Path, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    forward = Encoder.forward

    def counting(self: Encoder, batch: Any, **options: Any) -> Any:
        assert not self.training
        read.append(batch.layout.num_sequences)
        return forward(self, batch, **options)

    monkeypatch.setattr(Encoder, "forward", counting)
    settings = settings_for(
        tiny_model,
        examples,
        tmp_path / "out",
        network={"freeze": "encoder"},
        optim={"learning_rate": (1e-2, 2e-2)},
    )
    finetune(settings)
    # Train and dev for all runs and epochs, dev for the report, three texts for the passport.
    assert sum(read) == 64 + 24 + 24 + 3


def test_only_the_head_is_in_the_checkpoints(
    tiny_model: Path, examples: Path, tmp_path: Path
) -> None:
    settings = settings_for(
        tiny_model,
        examples,
        tmp_path / "out",
        data={"dev": None},
        network={"freeze": "encoder"},
        loop={"checkpoint_every": 8},
    )
    finetune(settings)
    paths = list((tmp_path / "out" / "checkpoints").glob("*/weights.safetensors"))
    assert paths
    assert all(name.startswith("head.") for name in load_file(paths[0]))


def test_a_low_rate_for_a_head_alone_is_remarked(
    tiny_model: Path, examples: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_for(
        tiny_model,
        examples,
        tmp_path / "out",
        data={"dev": None},
        network={"freeze": "encoder"},
        optim={"learning_rate": (5e-5,)},
    )
    finetune(settings)
    assert "hardly moves" in caplog.text
