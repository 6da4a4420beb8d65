"""Several heads over one encoder, as a user has them: one recipe, one folder, one pass."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bothways.data.options import FileOptions
from bothways.errors import BothwaysError, TaskError
from bothways.evaluation.evaluate import evaluate
from bothways.inference.model import Model, load
from bothways.inference.several import Together
from bothways.tasks.results import SeveralResult, as_dict
from bothways.training.finetune import FinetuneResult, finetune
from tests.cli.command import LEDGER_KEYS, Command
from tests.training.several import COUNT, settings_of, table, tables, write_files

# One pass computes the whole last layer, one head alone only what it reads; sums differ in order.
ATOL = 1e-5
NAMES = ["mood", "kinds", "size", "words", "chain", "link", "pick", "rank", "where"]
# Heads that read single texts, and so can be asked about the same ones.
OF_TEXTS = {"mood", "kinds", "size", "words"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("several"))


@pytest.fixture(scope="module")
def all_of_them(tiny: Path, files: Path) -> FinetuneResult:
    return finetune(settings_of(tiny, files / "all", tables(files)))


@pytest.fixture(scope="module")
def model(all_of_them: FinetuneResult) -> Model:
    return load(all_of_them.folder)


@pytest.fixture(scope="module")
def texts(tiny: Path, files: Path) -> Path:
    """A folder of heads that read single texts."""
    heads = tuple(head for head in tables(files) if head.name in OF_TEXTS)
    return finetune(settings_of(tiny, files / "texts", heads)).folder


def examples_of(model: Model, files: Path) -> dict[str, list[Any]]:
    """What each head was judged on."""
    found = {}
    for head in tables(files):
        task = model.heads[head.name].task
        assert task is not None
        assert head.data.dev is not None
        found[head.name] = task.read(FileOptions().rows(head.data.dev))
    return found


def leaves_of(value: Any) -> list[Any]:
    """What a result is made of, in order."""
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in (key, *leaves_of(each))]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in leaves_of(each)]
    return [value]


def alike(left: Any, right: Any) -> bool:
    """Whether two results have the same words and nearly the same numbers."""
    ours, theirs = leaves_of(left), leaves_of(right)
    return len(ours) == len(theirs) and all(
        a == (pytest.approx(b, abs=ATOL) if isinstance(b, float) else b)
        for a, b in zip(ours, theirs, strict=True)
    )


# --- all tasks that can be combined -----------------------------------------------------------


def test_a_folder_has_a_model_of_every_head(model: Model) -> None:
    assert list(model.heads) == NAMES
    assert model.task is None
    assert {id(one.encoder) for one in model.heads.values()} == {id(model.encoder)}
    assert model.heads["mood"].parts.labels == ("bad", "good")
    assert any(ability.startswith("predict (mood: classify, ") for ability in model.abilities())


@pytest.mark.parametrize("name", NAMES)
def test_each_head_scores_as_its_training_reported(
    name: str, all_of_them: FinetuneResult, model: Model, files: Path
) -> None:
    examples = examples_of(model, files)[name]
    report = evaluate(model.heads[name], examples)
    told = all_of_them.report.metrics
    assert report.metrics
    for metric, value in report.metrics.items():
        assert value.value == pytest.approx(told[f"{name}.{metric}"].value, abs=1e-5, nan_ok=True)


def test_all_heads_together_say_what_each_says_alone(model: Model, files: Path) -> None:
    """Whatever they read: texts, words, marked texts, pairs, several choices, questions."""
    examples = examples_of(model, files)
    rows = [
        Together(dict(zip(examples, each, strict=True)))
        for each in zip(*examples.values(), strict=True)
    ]
    assert len(rows) == COUNT
    together = model.predict(rows, batch_tokens=64)
    for name, own in examples.items():
        alone = model.heads[name].predict(own)
        found = [result.heads[name] for result in together if isinstance(result, SeveralResult)]
        assert len(found) == len(alone)
        for ours, theirs in zip(found, alone, strict=True):
            assert alike(as_dict(ours), as_dict(theirs))


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_and_the_library_agree_on_every_task(
    name: str, bothways: Command, all_of_them: FinetuneResult, model: Model, files: Path
) -> None:
    data = next(head.data.dev for head in tables(files) if head.name == name)
    examples = examples_of(model, files)[name]
    results, task = model.heads[name].predict(examples), model.heads[name].task
    words = ("--model", all_of_them.folder, "--head", name)
    lines = bothways("predict", *words, "--input", data).lines
    assert len(lines) == len(results)
    for line, result in zip(lines, results, strict=True):
        assert alike(dict(list(line.items())[1:]), json.loads(json.dumps(as_dict(result))))
    judged = bothways("evaluate", *words, "--data", data, "--json").json["metrics"]
    assert task is not None
    for metric, value in task.metrics(list(results), examples).items():
        assert judged[metric]["value"] == pytest.approx(value, abs=1e-5)


# --- one pass -------------------------------------------------------------------------------------


def test_a_text_is_encoded_once_whatever_the_number_of_heads(texts: Path) -> None:
    model, read = load(texts), list[int]()
    model.encoder.register_forward_hook(
        lambda module, given, output: read.append(given[0].layout.num_sequences)
    )
    given = ["the great film", "a very dull story", "a very dull story ended", "it was fine"]
    results = model.predict(given)
    assert read == [4]
    assert results.ledger.texts == 4
    assert results.ledger.tokens == 15
    assert [list(result.heads) for result in results if isinstance(result, SeveralResult)] == [
        ["mood", "kinds", "size", "words"]
    ] * 4
    # What a tagger reads as several words is another sequence, in the same pass.
    assert model.tokenizer.encode("film--great").ids != model.tokenizer.encode("film great").ids
    model.predict([*given, "the\u200dfilm"])
    assert len(read) == 2


def test_what_was_cut_is_told_once(texts: Path) -> None:
    long = " ".join(["story"] * 40)
    results = load(texts).predict(["it ended", long], policy="head")
    assert (results.ledger.texts, results.ledger.texts_cut) == (2, 1)
    assert results.tokens_cut == [0, results.ledger.tokens_cut]
    assert results.ledger.tokens_cut == 40 - 22


# --- the folder -----------------------------------------------------------------------------------


def test_the_folder_is_a_bare_encoder_and_named_heads(texts: Path) -> None:
    config = json.loads((texts / "config.json").read_text())
    assert config["architectures"] == ["BertModel"]
    stored = json.loads((texts / "bothways.json").read_text())
    assert stored["head"]["kind"] == "several"
    assert {name: head["task"]["name"] for name, head in stored["heads"].items()} == {
        "mood": "classify",
        "kinds": "multi-label",
        "size": "regress",
        "words": "tag",
    }
    assert "task" not in stored
    theirs = transformers.AutoModel.from_pretrained(str(texts)).eval()
    model = load(texts)
    ids = torch.tensor([model.tokenizer.encode("the great film").ids])
    ours = model.encoder.padded(ids).last_hidden
    with torch.no_grad():
        assert torch.allclose(ours, theirs(ids).last_hidden_state, atol=ATOL)


def test_saved_again_it_says_the_same(texts: Path, tmp_path: Path) -> None:
    model = load(texts)
    model.save(tmp_path / "again")
    given = ["the great film", "a dull story"]
    assert load(tmp_path / "again").predict(given) == model.predict(given)


def test_one_head_saved_alone_is_an_ordinary_model(texts: Path, tmp_path: Path) -> None:
    words = load(texts).heads["words"]
    words.save(tmp_path / "words")
    alone = load(tmp_path / "words")
    assert alone.heads == {}
    assert alone.predict(["a dull story"]) == words.predict(["a dull story"])
    assert not (tmp_path / "words" / "head.safetensors").exists()
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(str(tmp_path / "words"))
    assert tuple(theirs.config.id2label.values()) == words.parts.labels


def test_heads_that_are_not_there_or_not_meant_are_named(texts: Path, files: Path) -> None:
    model = load(texts)
    with pytest.raises(TaskError, match="several heads: mood, kinds, size, words; name one"):
        model.predict_zero_shot(["a text"], ["one", "two"])
    with pytest.raises(BothwaysError, match="several heads"):
        evaluate(model, files / "classify.csv")


def test_another_task_takes_the_place_of_the_heads(
    bothways: Command, texts: Path, files: Path, tmp_path: Path
) -> None:
    words = ("--task", "tag", "--train", files / "tag.conll", "--epochs", 1)
    bothways("finetune", "--model", texts, *words, "--output", tmp_path / "words")
    model = load(tmp_path / "words")
    assert (model.heads, model.task is not None and model.task.name) == ({}, "tag")
    assert "heads" not in json.loads((tmp_path / "words" / "bothways.json").read_text())
    rows = (files / "regress.csv").read_text().splitlines()[1:]
    pairs = [f"{row.split(',')[0]},the film,{row.split(',')[1]}" for row in rows]
    (tmp_path / "pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *pairs]))
    told = ("--task", "embed", "--data", tmp_path / "pairs.csv", "--label", "score", "--json")
    assert bothways("evaluate", "--model", texts, *told).json["count"] == COUNT


# --- the command line -----------------------------------------------------------------------------


def test_a_recipe_trains_and_commands_use_it(
    bothways: Command, tiny: Path, files: Path, tmp_path: Path
) -> None:
    recipe, folder = tmp_path / "recipe.toml", tmp_path / "model"
    heads = tuple(head for head in tables(files) if head.name in ("mood", "chain"))
    recipe.write_text(settings_of(tiny, tmp_path / "other", heads).recipe(), encoding="utf-8")
    done = bothways("finetune", "--config", recipe, "--output", folder, "--epochs", 2, "--json")
    assert done.json["task"] == "several"
    assert {"mean", "mood.accuracy", "chain.f1_strict"} < set(done.json["metrics"])
    assert len(done.json["runs"]) == 1
    told = bothways("inspect", folder).out
    assert "predict (mood: classify, chain: tag)" in told
    assert "labels of mood" in told
    assert "encoder only (BertModel), because of the head (several)" in told

    data = files / "classify.csv"
    lines = bothways("predict", "--model", folder, "--input", data).lines
    assert [line["line"] for line in lines] == list(range(2, COUNT + 2))
    model, texts = load(folder), [row.cells["text"] for row in FileOptions().rows(data)]
    assert [line["heads"] for line in lines] == [
        json.loads(json.dumps(as_dict(result)["heads"])) for result in model.predict(texts)
    ]
    one = bothways("predict", "--model", folder, "--input", data, "--head", "mood").lines
    for whole, alone in zip(lines, one, strict=True):
        assert alike(alone, {"line": whole["line"], **whole["heads"]["mood"]})

    judged = bothways("evaluate", "--model", folder, "--data", data, "--head", "mood", "--json")
    metrics, ours = judged.json["metrics"], done.json["metrics"]
    assert metrics["accuracy"]["value"] == pytest.approx(ours["mood.accuracy"]["value"])
    assert set(judged.json["ledger"]) == LEDGER_KEYS
    tagged = files / "tag.conll"
    judged = bothways("evaluate", "--model", folder, "--data", tagged, "--head", "chain", "--json")
    assert judged.json["task"] == "tag"
    ask = ("evaluate", "--model", folder, "--data", data)
    bothways.fails(*ask, parts=["several heads: mood, chain; name one (--head"])
    bothways.fails(*ask, "--head", "moood", parts=["did you mean 'mood'?"], code=2)
    # A file that one of the heads cannot read says which.
    bothways.fails(
        *("predict", "--model", folder, "--input", tagged), parts=["the head 'mood' (classify)"]
    )


def test_columns_are_those_that_the_file_has(
    bothways: Command, tiny: Path, files: Path, tmp_path: Path
) -> None:
    """Heads may have learned from columns of other names; flags name others for all."""
    renamed = (files / "regress.csv").read_text().replace("text,score", "words,size", 1)
    (tmp_path / "renamed.csv").write_text(renamed)
    mood = table(files, "mood", "classify.csv", "classify")
    size = table(tmp_path, "size", "renamed.csv", "regress")
    named = dataclasses.replace(size.data, text="words", label="size")
    heads = (mood, dataclasses.replace(size, data=named))
    folder = finetune(settings_of(tiny, tmp_path / "model", heads)).folder
    ask = ("predict", "--model", folder, "--input")
    by_text = bothways(*ask, files / "classify.csv").lines
    by_flag = bothways(*ask, tmp_path / "renamed.csv", "--text", "words").lines
    assert [line["heads"] for line in by_text] == [line["heads"] for line in by_flag]
