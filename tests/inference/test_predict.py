"""Predictions of classifiers: those of transformers, in input order, with names and ledgers."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import adapt
from bothways.checkpoints.save import save_parts
from bothways.errors import DataError, TaskError, UntrainedHeadError, UsageError
from bothways.inference.model import Model, load
from bothways.model.heads import ClassificationHead
from bothways.tasks.classify import ClassifyTask
from bothways.tasks.results import LabelResult
from tests.checkpoints.models import edit_json, save_theirs
from tests.training.tiny import BAD, GOOD, PLAIN, SPECIAL

LABELS = {0: "bad", 1: "good", 2: "so so"}
# Probabilities of a tiny model, in float32.
PARITY = 1e-5
WORDS = [*SPECIAL, *GOOD, *BAD, *PLAIN]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier as transformers saves it, with names of labels and without bothways.json."""
    folder = tmp_path_factory.mktemp("published")
    save_theirs(
        folder,
        "BertForSequenceClassification",
        vocab_size=len(WORDS),
        hidden_act="gelu",  # equal results below mean equal bits
        id2label=LABELS,
        label2id={label: index for index, label in LABELS.items()},
        problem_type="single_label_classification",
    )
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def model(published: Path) -> Model:
    made = load(published)
    assert made.bit_invariant
    return made


def draw_texts(count: int) -> list[str]:
    draw = random.Random(4)
    return [" ".join(draw.choices(WORDS[5:], k=draw.randint(0, 30))) for _ in range(count)]


def test_a_published_classifier_predicts_what_transformers_does(
    published: Path, model: Model
) -> None:
    """transformers#13298, #2487, #15474, #28589: names of labels lost or permuted."""
    assert model.task is not None
    assert model.task.labels == tuple(LABELS.values())
    assert model.abilities()[-1] == "predict (classify)"
    texts = draw_texts(17)
    results = model.predict(texts)
    kind: Any = transformers.BertForSequenceClassification
    theirs = kind.from_pretrained(published).eval()
    for text, result in zip(texts, results, strict=True):
        given = model.tokenizer.padded([text], max_length=40)
        with torch.no_grad():
            expected = theirs(**given).logits[0].softmax(-1).tolist()
        assert isinstance(result, LabelResult)
        assert list(result.probabilities.values()) == pytest.approx(expected, abs=PARITY)
        assert result.label == LABELS[expected.index(max(expected))]
        assert result.probability == max(result.probabilities.values())


@pytest.mark.parametrize("budget", [1, 60, None])
def test_results_are_in_input_order(model: Model, budget: int | None) -> None:
    texts = draw_texts(23)
    alone = [model.predict([text])[0] for text in texts]
    assert list(model.predict(iter(texts), batch_tokens=budget)) == alone


def test_pairs_are_read_as_one_text(model: Model) -> None:
    pairs = [("great film", "dull"), ("great", "film dull")]
    one, other = model.predict(pairs)
    assert one != other
    with pytest.raises(UsageError, match="1 of 2 examples are pairs"):
        model.predict(["great", ("great", "film")])


def test_a_stream_in_chunks_is_the_whole(model: Model) -> None:
    texts = draw_texts(11)
    parts = list(model.predict_stream(iter(texts), chunk_texts=4))
    assert [len(part) for part in parts] == [4, 4, 3]
    whole = model.predict(texts)
    assert [result for part in parts for result in part] == list(whole)
    assert sum(part.ledger.tokens for part in parts) == whole.ledger.tokens

    def endless() -> Iterator[str]:
        return (f"the film was {word}" for word in itertools.cycle(GOOD))

    assert len(next(model.predict_stream(endless(), chunk_texts=5))) == 5


def test_windows_of_a_long_text_are_put_together(model: Model) -> None:
    long = " ".join(["great", *PLAIN] * 9)
    results = model.predict(["dull", long, "fine"], policy="windows", max_length=12)
    assert len(results) == 3
    assert results.ledger.windows > 3
    assert results.ledger.tokens_cut == 0
    assert results[0] == model.predict(["dull"])[0]
    first = model.predict([long], max_length=12)
    assert first.ledger.tokens_cut > 0
    assert results[1] != first[0]


def test_empty_texts_are_predicted(model: Model) -> None:
    results = model.predict(["", "  ", "\n"])
    assert len(results) == 3
    assert results[0] == results[1] == results[2]
    assert list(model.predict([])) == []


def test_progress_counts_every_text(model: Model) -> None:
    told: list[int] = []
    model.predict(draw_texts(9), batch_tokens=30, on_batch=told.append)
    assert sum(told) == 9


def test_lone_surrogates_and_other_kinds_of_values_are_refused(model: Model) -> None:
    with pytest.raises(DataError, match=r"row 1, character 0 \(U\+DC80\)"):
        model.predict(["fine", "\udc80"])
    with pytest.raises(UsageError, match="got one: 'great'"):
        model.predict("great")
    with pytest.raises(UsageError, match="type NoneType"):
        model.predict(["great", None])


def test_an_untrained_head_predicts_nothing(published: Path, tmp_path: Path) -> None:
    """transformers#8887, #8407, #5421: random heads, and warnings that nobody read."""
    parts = load_parts(published)
    head = ClassificationHead(parts.config.hidden_size, 2)
    fresh = adapt(parts, head, labels=("no", "yes"), problem_type="single_label_classification")
    save_parts(fresh, tmp_path / "fresh")
    for made in (Model(fresh), load(tmp_path / "fresh")):
        assert made.task is not None
        assert "predict (classify)" not in made.abilities()
        with pytest.raises(UntrainedHeadError, match=r"random.*bothways finetune"):
            made.predict(["great"])
        made.embed(["great"])  # what does not need the head goes on


@pytest.mark.parametrize(("problem", "labels"), [("regression", 2)])
def test_a_head_of_another_kind_of_problem_is_not_guessed_at(
    problem: str, labels: int, tmp_path: Path
) -> None:
    """transformers#10232, #38219, PR#35848: softmax where sigmoid was meant."""
    save_theirs(
        tmp_path,
        "BertForSequenceClassification",
        vocab_size=len(WORDS),
        num_labels=labels,
        problem_type=problem,
    )
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    with pytest.raises(TaskError, match=rf"a head that no task reads \({problem}\)"):
        load(tmp_path).predict(["great"])


def test_where_config_does_not_say_the_problem_it_is_said(
    published: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = shutil.copytree(published, tmp_path / "model")
    edit_json(folder / "config.json", problem_type=None)
    with caplog.at_level(logging.WARNING, logger="bothways"):
        assert len(load(folder).predict(["great"])) == 1
    assert "does not say the problem_type; the 3 labels are read as excluding each" in caplog.text


def test_a_model_without_a_head_says_what_to_do(real: Model) -> None:
    with pytest.raises(TaskError, match=r"no head for a task; it can: embed.*bothways finetune"):
        real.predict(["great"])


def test_the_stored_task_counts(published: Path, tmp_path: Path) -> None:
    """What training stored about columns and pairs comes back with the model."""
    parts = load_parts(published)
    task = ClassifyTask(labels=parts.labels, pairs=True)
    save_parts(dataclasses.replace(parts, settings={"task": task.state()}), tmp_path / "model")
    model = load(tmp_path / "model")
    assert model.task == task
    with pytest.raises(TaskError, match="trained on pairs of texts and got single texts"):
        model.predict(["great"])
    assert len(model.predict([("great", "film")])) == 1
