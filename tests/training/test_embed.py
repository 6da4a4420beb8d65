"""Fine-tuning embedders: whole runs on a tiny encoder."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bothways
from bothways.checkpoints.save import save_parts
from bothways.errors import UsageError
from bothways.model.sentence import Pool, SentenceVector
from bothways.training.finetune import finetune
from bothways.training.settings import FinetuneSettings
from bothways.training.task_tables import EmbedSettings
from tests.training.test_processes import CURVE_TOLERANCE, curve, python
from tests.training.tiny import BAD, GOOD, PLAIN, save_tiny_model, settings_for

OFF = {"pooling": "auto", "hidden_dropout": 0.0, "attention_dropout": 0.0}

RANKS = """
import sys
from pathlib import Path
from bothways.training.finetune import finetune
from tests.training.test_embed import undropped

finetune(undropped(Path(sys.argv[1]), "two"))
finetune(undropped(Path(sys.argv[1]), "pieces", piece_tokens=30))
"""


def write_pairs(path: Path, count: int, *, seed: int = 0, scored: bool = False) -> Path:
    """Sentences that share their plain words; scored: by whether they share good and bad too."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            words = draw.sample(PLAIN, k=3 + number % 3)
            kinds = [draw.choice([GOOD, BAD]) for _ in range(2)]
            row: dict[str, Any] = {
                "anchor": " ".join([*words, draw.choice(kinds[0])]),
                "positive": " ".join([draw.choice(kinds[1]), *words]),
            }
            if scored:
                row["score"] = 5 if kinds[0] is kinds[1] else 1
            file.write(json.dumps(row) + "\n")
    return path


def embedding(folder: Path, output: Path, **rest: Any) -> FinetuneSettings:
    data = {"train": folder / "train.jsonl", "dev": None, **rest.pop("data", {})}
    network = {"pooling": "auto", **rest.pop("network", {})}
    embed = EmbedSettings(**rest.pop("embed", {}))
    model = rest.pop("model", folder / "model")
    made = settings_for(model, folder, output, data=data, network=network, **rest)
    return dataclasses.replace(made, task="embed", embed=embed)


def undropped(folder: Path, name: str, **embed: Any) -> FinetuneSettings:
    return embedding(folder, folder / name, network=OFF, loop={"log_every": 1}, embed=embed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder, pairs, and scored pairs."""
    made = tmp_path_factory.mktemp("embed")
    save_tiny_model(made / "model")
    write_pairs(made / "train.jsonl", 33)
    write_pairs(made / "dev.jsonl", 20, seed=1)
    write_pairs(made / "scored.jsonl", 32, scored=True)
    return made


def test_pairs_are_learned_and_sentence_transformers_gives_the_same_vectors(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from sentence_transformers import SentenceTransformer

    with caplog.at_level(logging.INFO, logger="bothways"):
        result = finetune(
            embedding(
                folder,
                tmp_path / "out",
                data={"dev": folder / "dev.jsonl"},
                loop={"batch_size": 8, "epochs": 6},
                embed={"dimensions": (16, 8), "piece_tokens": 40},
            )
        )
    assert "1 of 5 batches would have fewer than 2 examples, too few to compare" in caplog.text
    assert result.best.metrics["ndcg_at_10"] > 0.8
    assert result.report.metrics["ndcg_at_10"].value == pytest.approx(result.best.value)
    texts = ["the film was great", "a story", "it ended"]
    model = bothways.load(tmp_path / "out")
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    np.testing.assert_allclose(model.embed(texts).vectors, theirs, atol=1e-5)
    (score,) = model.predict([(texts[0], texts[1])])
    assert getattr(score, "score", None) == pytest.approx(model.similarity(texts[:2])[0, 1])


@pytest.mark.parametrize("loss", ["cosent", "cosine"])
def test_scores_are_learned(loss: str, folder: Path, tmp_path: Path) -> None:
    scored = folder / "scored.jsonl"
    result = finetune(
        embedding(
            folder,
            tmp_path / "out",
            data={"train": scored, "dev": scored, "label": "score"},
            optim={"learning_rate": (5e-3,)},
            loop={"epochs": 20},
            embed={"loss_function": loss},
        )
    )
    assert result.best.metrics["spearman"] > 0.6


def test_training_goes_on_from_the_vectors_of_the_folder(folder: Path, tmp_path: Path) -> None:
    """Pooling and prompts of an embedder stay; without steps the weights are what they were."""
    first = bothways.load(folder / "model")
    steps = SentenceVector(Pool(["cls"]), prompts={"query": "the "}, default_prompt="query")
    parts = dataclasses.replace(first.parts, sentence=steps)
    save_parts(parts, tmp_path / "base")
    settings = embedding(folder, tmp_path / "out", model=tmp_path / "base", loop={"epochs": 1})
    finetune(settings)
    made = bothways.load(tmp_path / "out").sentence
    assert (made.pool.modes, made.prompts, len(made.steps)) == (("cls",), {"query": "the "}, 0)
    finetune(
        dataclasses.replace(
            settings,
            overwrite=True,
            network=settings_for(folder, folder, folder, network={"pooling": "mean"}).network,
        )
    )
    made = bothways.load(tmp_path / "out").sentence
    assert (made.pool.modes, made.prompts) == (("mean",), {"query": "the "})


def test_prompts_stand_before_the_texts_that_are_learned_and_are_stored(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from sentence_transformers import SentenceTransformer

    prompted = tmp_path / "prompted.jsonl"
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    lines = [
        {"anchor": "it was " + row["anchor"], "positive": "a film " + row["positive"]}
        for row in rows
    ]
    prompted.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    by_hand = embedding(folder, tmp_path / "hand", data={"train": prompted}, loop={"epochs": 1})
    finetune(by_hand)
    flags = {"query_prompt": "it was ", "document_prompt": "a film "}
    finetune(embedding(folder, tmp_path / "flags", loop={"epochs": 1}, embed=flags))
    made, same = (bothways.load(tmp_path / name) for name in ("flags", "hand"))
    pair = ("the story ended", "a great story")
    theirs = SentenceTransformer(str(tmp_path / "flags"), device="cpu")
    for side, encode, text in zip(
        ("query", "document"), (theirs.encode_query, theirs.encode_document), pair, strict=True
    ):
        vectors = made.embed([text], prompt=side).vectors
        np.testing.assert_array_equal(vectors, same.embed([flags[f"{side}_prompt"] + text]).vectors)
        np.testing.assert_allclose(vectors, encode([text]), atol=1e-5)
    (score,) = made.predict([pair])
    (expected,) = same.predict([("it was " + pair[0], "a film " + pair[1])])
    assert getattr(score, "score", None) == getattr(expected, "score", 0)
    # A model that has prompts is not trained without them in silence.
    again = embedding(folder, tmp_path / "again", model=tmp_path / "flags", loop={"epochs": 1})
    finetune(again)
    assert "the model has the prompts query ('it was '), document ('a film ')" in caplog.text


def test_what_cannot_be_compared_is_refused(folder: Path, tmp_path: Path) -> None:
    """sentence-transformers#2916, #3189: parts of a step are no larger batch."""
    for loop, parts in (
        ({"batch_size": 1}, "at least 2 examples"),
        ({"batch_size": 8, "accumulate": 8}, "at least 16 examples"),
    ):
        with pytest.raises(UsageError, match=parts):
            finetune(embedding(folder, tmp_path / "out", loop=loop))
    with pytest.raises(UsageError, match="nothing but the encoder learns"):
        finetune(embedding(folder, tmp_path / "out", network={"freeze": "encoder"}))
    with pytest.raises(UsageError, match="vectors have 16 numbers"):
        finetune(embedding(folder, tmp_path / "out", embed={"dimensions": (17,)}))


def test_accumulation_gives_no_more_negatives_and_that_is_said(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """sentence-transformers#2916, #3189."""
    with caplog.at_level(logging.INFO, logger="bothways"):
        finetune(embedding(folder, tmp_path / "out", loop={"accumulate": 2, "epochs": 1}))
    assert "--accumulate 2 gives no more negatives" in caplog.text


def test_two_ranks_compare_the_texts_of_both(project: Path, tmp_path: Path) -> None:
    """sentence-transformers PR#3453, #2831, #3149: negatives were those of one rank, or misplaced.

    Losses and weights of two ranks are those of one with the whole batch.
    """
    save_tiny_model(tmp_path / "model")
    write_pairs(tmp_path / "train.jsonl", 37)
    finetune(undropped(tmp_path, "one"))
    script = tmp_path / "ranks.py"
    script.write_text(RANKS, encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = python(project, *launcher, str(script), str(tmp_path))
    assert done.returncode == 0, done.stderr
    expected = curve(tmp_path / "one")
    for name in ("two", "pieces"):
        assert curve(tmp_path / name) == pytest.approx(expected, rel=CURVE_TOLERANCE)
    texts = ["the film was great", "it ended"]
    vectors = [bothways.load(tmp_path / name).embed(texts).vectors for name in ("one", "two")]
    torch.testing.assert_close(*map(torch.from_numpy, vectors), rtol=1e-3, atol=1e-4)
