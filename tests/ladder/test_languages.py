"""The language of texts and of vocabularies, and the encoders that the field recommends."""

from __future__ import annotations

from pathlib import Path

import pytest

from bothways.ladder.languages import language_of, language_of_vocabulary, mismatch
from bothways.ladder.published import OF_MANY_LANGUAGES, RECOMMENDED, in_cache, recommended
from bothways.tokenization.tokenizer import load_tokenizer

ENGLISH = ["The film was long, but I liked the story.", "He said that nobody had seen it."]
FRENCH = ["Le film était long, mais j'ai aimé l'histoire.", "Il a dit que personne ne l'avait vu."]


def test_texts_are_recognised() -> None:
    assert language_of(ENGLISH) == "en"
    assert language_of(FRENCH) == "fr"


def test_texts_that_do_not_agree_have_no_language() -> None:
    assert language_of([*ENGLISH, *FRENCH] * 5) is None
    assert language_of([""]) is None


def test_an_english_vocabulary_is_recognised(minilm: Path) -> None:
    assert language_of_vocabulary(load_tokenizer(minilm)) == "en"


def test_a_vocabulary_of_many_languages_has_none(real_data: Path) -> None:
    tokenizer = load_tokenizer(real_data / "tokenizers" / "xlm_roberta")
    assert language_of_vocabulary(tokenizer) is None


def test_only_two_known_and_different_languages_do_not_fit() -> None:
    told = mismatch("fr", "en")
    assert told is not None
    assert "French" in told
    assert "English" in told
    assert mismatch("fr", "fr") is None
    assert mismatch("fr", None) is None
    assert mismatch(None, "en") is None


@pytest.mark.parametrize("language", [*RECOMMENDED, "sw", None])
def test_each_language_has_candidates_and_none_is_in_an_empty_cache(
    language: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    found = recommended(language, "classify")
    assert [each.name for each in found] == list(RECOMMENDED.get(language or "", OF_MANY_LANGUAGES))
    assert not any(each.here for each in found)


def test_what_the_cache_has_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = RECOMMENDED["en"][1]
    folder = tmp_path / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    (snapshot / "config.json").write_text("{}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert not in_cache(name)
    (snapshot / "model.safetensors").write_bytes(b"")
    assert in_cache(name)
