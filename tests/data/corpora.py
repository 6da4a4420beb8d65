"""Small corpora and the tokenizers that read them, for the tests of pretraining data."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

from bothways.data.manifest import Manifest
from bothways.data.prepare import PrepareSettings, prepare
from bothways.families.registry import FAMILIES
from bothways.tokenization.tokenizer import Tokenizer
from bothways.tokenization.train import Algorithm, train_tokenizer

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("a", "ea", "i", "on", "us", "er")]


@cache
def documents(count: int = 300, seed: int = 3) -> tuple[str, ...]:
    """Texts of 1 to about 200 words in sentences of made-up words; every tenth is one word."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 3))) for _ in range(500)]

    def sentence() -> str:
        return " ".join(chance.choices(words, k=chance.randint(2, 12))).capitalize() + ". "

    texts = []
    for number in range(count):
        sentences = [sentence() for _ in range(chance.choice((1, 2, 3, 5, 25)))]
        texts.append(words[number % 100] if number % 10 == 9 else "".join(sentences).strip())
    return tuple(texts)


@cache
def tokenizer(algorithm: Algorithm = "wordpiece", family: str = "bert") -> Tokenizer:
    """A tokenizer of 400 pieces for these texts, the same in each test."""
    recipe = FAMILIES[family].tokenizer
    assert recipe is not None
    return train_tokenizer(documents(), algorithm=algorithm, vocab_size=400, recipe=recipe)


def write_corpus(path: Path, texts: tuple[str, ...]) -> str:
    """A text file with blank lines between documents."""
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return str(path)


def make_shards(folder: Path, texts: tuple[str, ...] | None = None, **options: Any) -> Manifest:
    """Shards of texts, in a folder beside the file that is read; one process."""
    folder.mkdir(parents=True, exist_ok=True)
    path = write_corpus(folder / "corpus.txt", documents() if texts is None else texts)
    reads = options.pop("tokenizer", None) or tokenizer()
    settings = PrepareSettings((path,), folder / "shards", **{"workers": 1, **options})
    return prepare(settings, reads)
