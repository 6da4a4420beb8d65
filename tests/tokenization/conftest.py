"""Vocabularies of every kind, each loaded once, and a small one made in each test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from tests.golden.vocabularies import FAMILIES, write_folder

TINY_PIECES = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "x", "##s",
    "un", "##aff", "##able", "a", "b", "c", "d", "e", ",", ".", "caf", "##e",
)  # fmt: skip


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a tokenizer folder: vocab.txt with these pieces, and JSON files."""

    def make(pieces: tuple[str, ...] = TINY_PIECES, **files: dict[str, Any]) -> Path:
        folder = tmp_path / f"model-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        return folder

    return make


@pytest.fixture
def tiny(make_folder: Callable[..., Path]) -> Tokenizer:
    return load_tokenizer(make_folder())


@pytest.fixture(scope="session")
def uncased(minilm: Path) -> Tokenizer:
    return load_tokenizer(minilm)


@pytest.fixture(scope="session")
def cased(real_data: Path) -> Tokenizer:
    return load_tokenizer(real_data / "tokenizers" / "bert_cased")


@pytest.fixture(scope="session")
def roberta(real_data: Path) -> Tokenizer:
    return load_tokenizer(real_data / "tokenizers" / "roberta")


@pytest.fixture(scope="session")
def xlm_roberta(real_data: Path) -> Tokenizer:
    return load_tokenizer(real_data / "tokenizers" / "xlm_roberta")


REAL = ("uncased", "cased", "roberta", "xlm_roberta")


@pytest.fixture(params=REAL)
def real_tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each of the four real ones in turn."""
    tokenizer: Tokenizer = request.getfixturevalue(request.param)
    return tokenizer


@pytest.fixture(scope="session")
def made_here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    """Families whose real vocabularies are not at hand, with small ones of the same kind."""
    place = tmp_path_factory.mktemp("made-here")
    return {
        name: load_tokenizer(write_folder(family, place / name))
        for name, family in FAMILIES.items()
    }


@pytest.fixture(params=[*REAL, *FAMILIES])
def any_tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each kind of tokenizer in turn: the real ones, and those with small vocabularies."""
    if request.param in REAL:
        real: Tokenizer = request.getfixturevalue(request.param)
        return real
    made: dict[str, Tokenizer] = request.getfixturevalue("made_here")
    return made[request.param]


@pytest.fixture(scope="session")
def uncased_engine(minilm: Path) -> tokenizers.Tokenizer:
    """The engine alone, as an oracle, with the file's own truncation and padding off."""
    engine = tokenizers.Tokenizer.from_file(str(minilm / "tokenizer.json"))
    engine.no_truncation()
    engine.no_padding()
    return engine
