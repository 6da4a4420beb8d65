"""Names in sentences: from a CoNLL file to a tagger that transformers reads too, and back."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import bothways as library
from bothways.cli.main import main
from bothways.tasks.tag_examples import tag_results
from tests.cli.command import Command, undisturbed
from tests.training.tiny import BAD, GOOD, PLAIN

# Logits of the same weights by other code, in float32.
PARITY = 1e-5


def sentence(draw: random.Random) -> list[tuple[str, str]]:
    """Plain words around a person or a place, whose first word and later words are told apart."""
    words = [(word, "O") for word in draw.choices(PLAIN, k=draw.randint(2, 5))]
    kind, names = draw.choice((("PER", GOOD), ("LOC", BAD)))
    words.append((draw.choice(names[:2]), f"B-{kind}"))
    words += [(name, f"I-{kind}") for name in draw.choices(names[2:], k=draw.randint(0, 2))]
    return [*words, *((word, "O") for word in draw.choices(PLAIN, k=draw.randint(1, 4)))]


def write_sentences(path: Path, count: int, seed: int) -> Path:
    draw = random.Random(seed)
    blocks = ("\n".join("\t".join(pair) for pair in sentence(draw)) for _ in range(count))
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    write_sentences(folder / "train.conll", 96, 0)
    write_sentences(folder / "test.conll", 32, 1)
    return folder


def trained(tiny: Path, files: Path, folder: Path, *more: str) -> Path:
    words = ["finetune", "--task", "tag", "--model", str(tiny), "--output", str(folder)]
    words += ["--train", str(files / "train.conll"), "--test", str(files / "test.conll")]
    words += ["--epochs", "6", "--batch-size", "8", "--learning-rate", "2e-2"]
    words += ["--hidden-dropout", "0", "--attention-dropout", "0", *more]
    with undisturbed():
        assert main(words) == 0
    return folder


@pytest.fixture(scope="module")
def tagger(tiny: Path, files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tiny, files, tmp_path_factory.mktemp("tagger") / "model")


@pytest.fixture(scope="module")
def chained(tiny: Path, files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    more = ("--crf", "--label-pieces", "all")
    return trained(tiny, files, tmp_path_factory.mktemp("chained") / "model", *more)


@pytest.mark.parametrize("name", ["tagger", "chained"])
def test_it_learns_and_is_judged(
    bothways: Command, request: pytest.FixtureRequest, files: Path, name: str
) -> None:
    model = request.getfixturevalue(name)
    data, train = files / "test.conll", files / "train.conll"
    found = bothways("evaluate", "--model", model, "--data", data, "--train", train, "--json").json
    assert found["metrics"]["f1_strict"]["value"] > 0.8
    stored = json.loads((model / "report.json").read_text(encoding="utf-8"))
    assert stored["metrics"]["f1_strict"]["value"] == found["metrics"]["f1_strict"]["value"]
    assert {"types", "outcomes"} <= {table["name"] for table in stored["tables"]}


def test_transformers_reads_the_tagger_with_equal_logits_and_names(tagger: Path) -> None:
    """transformers#13298, #28589: label names travel with the weights."""
    theirs: Any = transformers.AutoModelForTokenClassification.from_pretrained(tagger).eval()
    assert type(theirs).__name__ == "BertForTokenClassification"
    model = library.load(tagger)
    assert list(theirs.config.id2label.values()) == list(model.parts.labels)
    words = ["the", "great", "fine", "film", "was", "awful"]
    (result,) = tag_results(model.predict([words]))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tagger)
    given = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**given).logits[0, 1:-1]
    sure, best = logits.softmax(-1).max(-1)
    assert [theirs.config.id2label[index] for index in best.tolist()] == list(result.tags)
    assert result.probabilities == pytest.approx(sure.tolist(), abs=PARITY)


def test_a_published_tagger_predicts_without_our_file(tagger: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    transformers.AutoModelForTokenClassification.from_pretrained(tagger).save_pretrained(plain)
    transformers.AutoTokenizer.from_pretrained(tagger).save_pretrained(plain)
    assert not (plain / "bothways.json").exists()
    texts = ["the great film", "it was awful"]
    ours, published = (
        [result.tags for result in tag_results(library.load(folder).predict(texts))]
        for folder in (tagger, plain)
    )
    assert published == ours


def test_the_chain_is_kept_beside_the_encoder(chained: Path, bothways: Command) -> None:
    assert (chained / "head.safetensors").is_file()
    config = json.loads((chained / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["BertModel"]
    assert "encoder only" in bothways("inspect", chained).out
    again = chained.parent / "again"
    library.load(chained).save(again)
    texts = ["the great fine film", "it was awful and dull", ""]
    first, second = (library.load(folder).predict(texts) for folder in (chained, again))
    assert list(first) == list(second)


def test_predictions_are_of_words_with_offsets_into_the_text(
    tagger: Path, bothways: Command, tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"text": "the great  fine film."}\n{"text": ""}\n', encoding="utf-8")
    found, empty = bothways("predict", "--model", tagger, "--input", file).lines
    assert found["words"] == ["the", "great", "fine", "film", "."]
    assert found["spans"][0]["text"] == "great  fine"
    assert (found["spans"][0]["start"], found["spans"][0]["end"]) == (4, 15)
    assert (empty["words"], empty["spans"]) == ([], [])


def test_a_long_text_is_read_in_windows_and_nothing_is_lost(tagger: Path) -> None:
    """transformers#15177, #33579: beyond the positions of the model; the limit here is 24."""
    words = ["the", "film", "was", "great", "fine", "bright", "and", "long"] * 10
    model = library.load(tagger)
    results = model.predict([words])
    (result,) = tag_results(results)
    assert results.ledger.windows > 2
    assert (results.ledger.tokens_cut, result.unread) == (0, ())
    assert [span.text for span in result.spans] == ["great fine bright"] * 10
    cut = model.predict([words], policy="head", max_length=8)
    (short,) = tag_results(cut)
    assert cut.ledger.tokens_cut == len(words) - 6 == len(short.unread)
    assert set(short.tags[6:]) == {"O"}


def test_wrong_files_are_one_error_each(
    tiny: Path, tagger: Path, bothways: Command, tmp_path: Path, files: Path
) -> None:
    bad = tmp_path / "bad.conll"
    bad.write_text((files / "train.conll").read_text() + "\nAnn\tX-PER\n", encoding="utf-8")
    learn = ("finetune", "--task", "tag", "--model", tiny, "--output", tmp_path / "out")
    line = bad.read_text().count("\n")
    place = f"bad.conll, line {line}: 'X-PER'"
    bothways.fails(*learn, "--train", bad, parts=["not valid in BIO: 1", place])
    train = ("--train", files / "train.conll")
    bothways.fails(*learn, *train, "--column", "9", parts=["no column '9'", "It has: 1, 2"])
    bothways.fails(
        *learn, *train, "--scheme", "none", "--dev", files / "test.conll", "--metric", "f1_strict",
        code=2, parts=["accuracy_tokens"],
    )  # fmt: skip
    plain = tmp_path / "in.csv"
    plain.write_text("text,label\nfine,yes\n", encoding="utf-8")
    bothways.fails("evaluate", "--model", tagger, "--data", plain, parts=["jsonl with spans"])
