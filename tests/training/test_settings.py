"""Settings of fine-tuning: numbers that cannot be are refused before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bothways.errors import UsageError
from bothways.training.settings import (
    DataSettings,
    FinetuneSettings,
    LoopSettings,
    NetworkSettings,
    OptimSettings,
)

NAN = float("nan")


def settings(**tables: Any) -> FinetuneSettings:
    return FinetuneSettings("model", Path("out"), DataSettings(Path("train.csv")), **tables)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"loop": LoopSettings(batch_size=0)}, "--batch-size is 0; expected at least 1"),
        ({"loop": LoopSettings(epochs=0)}, "--epochs is 0; expected at least 1"),
        ({"optim": OptimSettings(weight_decay=NAN)}, "--weight-decay is nan"),
        ({"optim": OptimSettings(clip=NAN)}, "--clip is nan"),
        ({"optim": OptimSettings(warmup=NAN)}, "--warmup is nan"),
        ({"optim": OptimSettings(learning_rate=(NAN,))}, "--learning-rate is nan"),
        ({"network": NetworkSettings(hidden_dropout=1.5)}, "--hidden-dropout is 1.5"),
        ({"network": NetworkSettings(attention_dropout=1.0)}, "--attention-dropout is 1.0"),
        ({"network": NetworkSettings(classifier_dropout=NAN)}, "--classifier-dropout is nan"),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_its_flag(
    tables: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        settings(**tables).check()


def test_all_wrong_numbers_are_one_error() -> None:
    wrong = settings(loop=LoopSettings(batch_size=0), network=NetworkSettings(hidden_dropout=-0.1))
    with pytest.raises(UsageError, match=r"--batch-size is 0.*; --hidden-dropout is -0\.1"):
        wrong.check()


def test_a_step_has_32_examples_unless_something_else_is_said() -> None:
    assert settings().batch_size == 32
    assert settings(loop=LoopSettings(batch_size=7)).batch_size == 7


SET: dict[str, Any] = {"corpus": Path("c"), "queries": Path("q"), "qrels": Path("r")}


@pytest.mark.parametrize(
    ("task", "data", "message"),
    [
        ("classify", {}, "give --train, a labelled file"),
        ("rerank", {"corpus": Path("c")}, "a retrieval set needs --queries, --qrels too"),
        ("rerank", {**SET, "train": Path("t")}, r"--train or a retrieval set \(--corpus\), not"),
        ("classify", SET, "for the tasks embed, rerank, not for --task classify"),
        ("rerank", {**SET, "text": "a", "label": "b"}, "--text names .*; --label names a column"),
        ("regress", {"train": Path("t"), "judgements": "plain"}, "--judgements is for --qrels"),
    ],
)
def test_where_examples_come_from_is_said_once(
    task: str, data: dict[str, Any], message: str
) -> None:
    wrong = FinetuneSettings("model", Path("out"), DataSettings(**data), task=task)
    with pytest.raises(UsageError, match=message):
        wrong.check()


def test_a_retrieval_set_is_learned_from_its_judgements() -> None:
    given = FinetuneSettings("model", Path("out"), DataSettings(**SET), task="rerank")
    given.check()
    assert given.data.learned == Path("r")


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("clasify", "there is no task 'clasify'; did you mean 'classify'?"),
        ("sing", "known: answer, classify, embed, fill, multiple-choice, regress, relate,"),
        ("multi-label", "several labels a text are --task classify --multi-label"),
        ("fill", "bothways pretrain --from MODEL --input FILES --output FOLDER"),
    ],
)
def test_a_task_that_is_not_there_is_named_and_where_it_is_else(task: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        FinetuneSettings("m", Path("out"), DataSettings(Path("train.csv")), task=task).check()
    assert message in str(caught.value)
