"""Labels that were not trained, asked of a classifier of entailment, as transformers does it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bothways.errors import TaskError, UsageError
from bothways.inference.model import Model, load
from bothways.inference.zero_shot import entailment_of
from bothways.model.heads import ClassificationHead
from bothways.tasks.classify import ClassifyTask, label_results
from tests.inference.nli import NLI, save_nli
from tests.training.tiny import GOOD, PLAIN

TOPICS = ("great", "dull", "long story")
TEXTS = ["the film was lovely", "a very long story ended", "it was poor"]
TEMPLATE = "it was {}"
# Probabilities of a tiny model, in float32.
PARITY = 1e-5


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_nli(tmp_path_factory.mktemp("nli"))


@pytest.fixture(scope="module")
def model(published: Path) -> Model:
    return load(published)


@pytest.mark.parametrize("several", [False, True])
def test_probabilities_are_those_of_the_pipeline_of_transformers(
    published: Path, model: Model, several: bool
) -> None:
    kind: Any = transformers.BertForSequenceClassification
    make: Any = transformers.pipeline
    pipe = make(
        "zero-shot-classification",
        model=kind.from_pretrained(published).eval(),
        tokenizer=transformers.BertTokenizer(str(published / "vocab.txt")),
    )
    theirs: Any = pipe(TEXTS, list(TOPICS), hypothesis_template=TEMPLATE, multi_label=several)
    ours = model.predict_zero_shot(TEXTS, TOPICS, template=TEMPLATE, multi_label=several)
    for result, expected in zip(label_results(ours), theirs, strict=True):
        assert result.label == expected["labels"][0]
        by_label = dict(zip(expected["labels"], expected["scores"], strict=True))
        assert result.probabilities == pytest.approx(by_label, abs=PARITY)
        assert list(result.probabilities) == list(TOPICS)


def test_labels_exclude_each_other_or_stand_alone(model: Model) -> None:
    one = label_results(model.predict_zero_shot(TEXTS, TOPICS))
    assert [sum(result.probabilities.values()) for result in one] == pytest.approx([1.0] * 3)
    many = label_results(model.predict_zero_shot(TEXTS, TOPICS, multi_label=True))
    alone = label_results(model.predict_zero_shot(TEXTS, ["dull"], multi_label=True))
    for together, single in zip(many, alone, strict=True):
        assert single.probabilities["dull"] == pytest.approx(together.probabilities["dull"])


def test_a_text_says_what_one_of_its_windows_says(model: Model) -> None:
    """The windows of a long text are asked one by one, and the surest counts."""
    long = " ".join([*PLAIN, *GOOD] * 3)
    policy = dataclasses.replace(model.policy(20), keep="windows", overlap=0)
    (result,) = label_results(model.predict_zero_shot([long], TOPICS, policy=policy))
    task = model.task
    assert isinstance(task, ClassifyTask)
    best = []
    for topic in TOPICS:
        pair = (long, f"This text is about {topic}.")
        windows = task.encode_all(task.examples([pair]), model.tokenizer, policy)[0][0]
        assert len(windows) > 2
        logits, head = [], model.head
        assert isinstance(head, ClassificationHead)
        for window in windows:
            types = torch.tensor([window.type_ids])
            with torch.inference_mode():
                output = model.encoder.padded(torch.tensor([window.ids]), token_type_ids=types)
                assert output.pooled is not None
                logits.append(float(head.output(output.pooled)[0, 1]))
        best.append(max(logits))
    expected = torch.tensor(best).softmax(0).tolist()
    assert list(result.probabilities.values()) == pytest.approx(expected, abs=PARITY)


def test_the_ledger_counts_a_text_once_a_label(model: Model) -> None:
    results = model.predict_zero_shot(TEXTS, TOPICS, policy=model.policy(12))
    assert results.ledger.texts == len(TEXTS) * len(TOPICS)
    assert results.ledger.texts_cut > 0
    assert len(results.tokens_cut) == len(TEXTS)
    assert max(results.tokens_cut) > 0


def test_which_output_is_entailment() -> None:
    assert entailment_of(ClassifyTask(labels=NLI)) == (1, [0])
    two = ClassifyTask(labels=("entailment", "not_entailment"))
    assert entailment_of(two) == (0, [1])


@pytest.mark.parametrize(
    "task",
    [
        ClassifyTask(labels=("bad", "good")),
        ClassifyTask(labels=("LABEL_0", "LABEL_1", "LABEL_2")),
        ClassifyTask(labels=NLI, pairs=False),
    ],
)
def test_a_model_that_does_not_know_entailment_is_refused(task: ClassifyTask) -> None:
    with pytest.raises(TaskError, match=rf"one label 'entailment'.*{task.labels[0]}.*--labels"):
        entailment_of(task)


def test_what_cannot_be_asked_is_refused_at_once(model: Model) -> None:
    with pytest.raises(UsageError, match=r"stand twice: a;.*template is 'no place'; expected \{\}"):
        model.predict_zero_shot(TEXTS, ["a", "a"], template="no place")
    with pytest.raises(UsageError, match="1 labels are given; expected at least 2"):
        model.predict_zero_shot(TEXTS, ["a"])
    with pytest.raises(UsageError, match="got one text: 'a,b'"):
        model.predict_zero_shot(TEXTS, "a,b")
    with pytest.raises(UsageError, match="labels are given to single texts"):
        model.predict_zero_shot([("a", "b")], ["a", "b"])  # type: ignore[list-item]
