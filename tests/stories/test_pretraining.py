"""Raw text, a tokenizer, shards, an encoder from scratch, a classifier: a command each."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import bothways as library
from bothways.checkpoints.save import save_parts
from bothways.cli.main import main
from bothways.config import read_recipe
from bothways.data.readers import read_rows
from bothways.model.layout import Batch, Layout
from bothways.tasks.results import LabelResult
from bothways.tokenization.policy import CutPolicy
from bothways.training.networks import build_networks
from bothways.training.pretrain_settings import PretrainSettings
from bothways.training.runtime import seeded
from tests.cli.command import Command, undisturbed

GLOSSES, SENTENCES, STEPS = 12_000, 300, 220
SEEDS = (0, 1, 2)
# Nats below guessing by frequency; these runs were 0.57 to 0.71 below.
CLEARLY = 0.3
# Share of the words by which a probe must be better; these were better by 0.039 to 0.118.
BETTER = 0.02


@pytest.fixture(scope="module")
def folder(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the story takes place, with glosses of WordNet as its text."""
    made = tmp_path_factory.mktemp("story")
    with (real_data / "rawtext" / "wordnet_glosses.txt").open(encoding="utf-8") as lines:
        (made / "text.txt").write_text("".join(islice(lines, GLOSSES)), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def models(folder: Path) -> list[Path]:
    """The folders that the last of three commands leaves, one a seed."""
    text, reads, shards = folder / "text.txt", folder / "reads", folder / "shards"
    made = [folder / f"model-{seed}" for seed in SEEDS]
    steps = f"""--steps {STEPS} --batch-tokens 1024 --max-length 32 --held-out-tokens 2500
        --mask-share 0.3 --optimizer muon --learning-rate 3e-3 --schedule trapezoid --decay 0.4
        --evaluate-every {STEPS} --threads 1 --workers 0"""
    commands = [
        f"tokenizer train --vocab-size 1000 --lowercase --input {text} --output {reads}",
        f"prepare --input {text} --tokenizer {reads} --output {shards} --workers 1",
    ]
    commands += [
        f"pretrain --preset modern-tiny --data {shards} {steps} --seed {seed} --output {output}"
        for seed, output in zip(SEEDS, made, strict=True)
    ]
    with undisturbed():
        for command in commands:
            assert main(command.split()) == 0
    return made


@pytest.fixture(scope="module")
def model(models: list[Path]) -> Path:
    """The folder of one encoder."""
    return models[0]


def test_it_learns_more_than_how_frequent_pieces_are(models: list[Path]) -> None:
    for model in models:
        stored = json.loads((model / "bothways.json").read_text(encoding="utf-8"))
        told: dict[str, Any] = stored["provenance"]
        assert told["steps"] == STEPS
        after = told["held_out"]["after"]
        assert after["loss"] < told["unigram_loss"] - CLEARLY
        assert after["pseudo_perplexity"] < np.exp(told["unigram_loss"] - CLEARLY / 2)


def test_it_fills_masks(bothways: Command, model: Path) -> None:
    done = bothways("fill", "--model", model, "a person who [MASK] something", "--json")
    ((candidates,),) = (text["masks"] for text in done.json["texts"])
    shares = [candidate["probability"] for candidate in candidates]
    assert shares == sorted(shares, reverse=True)
    assert not any(candidate["token"].startswith("[") for candidate in candidates)


def test_it_is_fine_tuned(bothways: Command, model: Path, real_data: Path, tmp_path: Path) -> None:
    lines = (real_data / "mr" / "rt-polarity.all").read_bytes().splitlines(keepends=True)
    (tmp_path / "train.txt").write_bytes(b"".join(lines[::100]))
    words = ["--train", tmp_path / "train.txt", "--format", "label-text", "--encoding", "latin-1"]
    words += ["--epochs", 1, "--threads", 1, "--output", tmp_path / "reviews"]
    bothways("finetune", "--task", "classify", "--model", model, *words)
    (result,) = library.load(tmp_path / "reviews").predict(["a fine film"])
    assert isinstance(result, LabelResult)
    assert result.label in ("0", "1")


def test_it_beats_the_same_model_without_pretraining_on_a_probe(
    models: list[Path], folder: Path, real_data: Path
) -> None:
    """The part of speech of a hidden word, told from the state at its mask."""
    sentences = tagged(real_data / "ud_english_ewt" / "en_ewt-ud-train.rebuilt.conllu")
    for model in models:
        random = folder / f"untrained-{model.name}"
        save_untrained(model, random)
        assert probe(model, sentences) > probe(random, sentences) + BETTER


def tagged(path: Path) -> list[tuple[list[str], list[str]]]:
    """Words and their parts of speech, of the first sentences."""
    columns = [(row.cells["form"], row.cells["upos"]) for row in islice(read_rows(path), SENTENCES)]
    return [(words.split("\n"), kinds.split("\n")) for words, kinds in columns]


def save_untrained(model: Path, output: Path) -> None:
    """The same network as its pretraining began."""
    settings = read_recipe(PretrainSettings, model / "recipe.toml").filled()
    with seeded(settings.machine.seed, device=torch.device("cpu")):
        networks = build_networks(settings, library.load_tokenizer(model), None)
    save_parts(networks.trained().parts, output)


def probe(model: Path, sentences: list[tuple[list[str], list[str]]]) -> float:
    """Accuracy of a linear classifier on every other sentence, learned from the rest."""
    loaded = library.load(model)
    mask, states, tags, of = loaded.tokenizer.mask_id, list[Tensor](), list[str](), list[int]()
    for number, (words, kinds) in enumerate(sentences):
        ((encoding,),), _ = loaded.tokenizer.encode_words([words], policy=CutPolicy(64))
        copies, masks = list[list[int]](), list[int]()
        for word in range(number % 3, len(words), 3):  # of the first piece of every third word
            if word in encoding.words:
                masks.append(encoding.words.index(word) + len(copies) * len(encoding))
                copies.append(list(encoding.ids))
                copies[-1][encoding.words.index(word)] = mask or 0
                tags.append(kinds[word])
                of.append(number)
        if copies:
            layout = Layout.packed([len(encoding)] * len(copies))
            with torch.no_grad():
                output = loaded.encoder(Batch(torch.tensor(copies).flatten(), layout))
            states.append(output.last_hidden[masks])
    features = StandardScaler().fit_transform(torch.cat(states).numpy())
    learned = np.array(of) % 2 == 0
    classifier = LogisticRegression(C=0.01, max_iter=1000)
    classifier.fit(features[learned], np.array(tags)[learned])
    return float(classifier.score(features[~learned], np.array(tags)[~learned]))
