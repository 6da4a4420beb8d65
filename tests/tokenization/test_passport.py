"""A tokenizer that no longer gives the ids its model was trained on is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bothways.errors import TokenizerError
from bothways.tokenization.passport import check_passport, make_passport, vocabulary_hash
from bothways.tokenization.samples import GOLDEN, GOLDEN_STRINGS, SAMPLES
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer


def changed_copy(tokenizer: Tokenizer, folder: Path, **parts: object) -> Path:
    """A saved tokenizer with parts of its tokenizer.json replaced and nothing stated beside it."""
    tokenizer.save(folder)
    content = json.loads((folder / "tokenizer.json").read_bytes())
    (folder / "tokenizer.json").write_text(json.dumps(content | parts))
    for name in ("tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt"):
        (folder / name).unlink(missing_ok=True)
    return folder


def test_a_passport_survives_json_and_passes(any_tokenizer: Tokenizer) -> None:
    passport = json.loads(json.dumps(make_passport(any_tokenizer)))
    assert set(passport) == {"strings", "ids"}
    assert len(passport["strings"]) == len(passport["ids"]) == len(SAMPLES) == 50
    check_passport(any_tokenizer, passport)


def test_one_changed_id_is_seen(tiny: Tokenizer) -> None:
    """transformers#48967, #45701: ids of a published model changed with a release."""
    passport = make_passport(tiny)
    passport["ids"][7][1] += 1
    with pytest.raises(TokenizerError, match="1 of 50 sample strings.*'tab.*original checkpoint"):
        check_passport(tiny, passport)


def test_a_changed_pipeline_is_seen(make_folder: Callable[..., Path], tiny: Tokenizer) -> None:
    passport = make_passport(tiny)
    cased = load_tokenizer(make_folder(tokenizer_config={"do_lower_case": False}))
    with pytest.raises(TokenizerError, match="do not get the ids that its model was saved with"):
        check_passport(cased, passport)


def test_a_lost_template_is_seen(tmp_path: Path, tiny: Tokenizer) -> None:
    """GLiNER PR#373, #324: a setting stripped [CLS] and [SEP] without an error."""
    passport = make_passport(tiny)
    folder = changed_copy(tiny, tmp_path / "tiny", post_processor=None)
    with pytest.raises(TokenizerError, match="50 of 50 sample strings"):
        check_passport(load_tokenizer(folder), passport)


@pytest.mark.parametrize(
    "passport",
    [
        {},
        {"strings": ["a"], "ids": []},
        {"strings": 1, "ids": 2},
        {"strings": ["a"], "ids": [7]},
        {"strings": [7], "ids": [[7]]},
    ],
)
def test_what_is_no_passport_is_refused(tiny: Tokenizer, passport: dict[str, object]) -> None:
    with pytest.raises(TokenizerError, match="'strings' and 'ids' of one length"):
        check_passport(tiny, passport)


def test_samples_tell_pipelines_apart(uncased: Tokenizer, make_folder: Callable[..., Path]) -> None:
    """Each single change of BERT's normaliser changes the ids of some sample."""
    settings = [
        {"do_lower_case": False},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False},
    ]
    pieces = (*uncased.tokens(range(uncased.vocab_size)), "one-more")
    folders = [make_folder(pieces, tokenizer_config=setting) for setting in [{}, *settings]]
    prints = {load_tokenizer(folder).fingerprint for folder in folders}
    assert len(prints) == len(folders)


def test_fingerprints_follow_the_vocabulary(make_folder: Callable[..., Path]) -> None:
    first, same, other = (
        load_tokenizer(make_folder(("[PAD]", "[UNK]", "[CLS]", "[SEP]", piece)))
        for piece in ("rare", "rare", "raro")
    )
    assert first.fingerprint == same.fingerprint != other.fingerprint
    assert len(first.fingerprint) == 32


# --- well-known vocabularies


def test_real_vocabularies_are_recognised(real_tokenizer: Tokenizer) -> None:
    known = [golden for golden in GOLDEN if golden.sha256 == vocabulary_hash(real_tokenizer)]
    assert [golden.size for golden in known] == [real_tokenizer.vocab_size]
    assert len(known[0].ids) == len(GOLDEN_STRINGS)


@pytest.mark.parametrize("stated", [{}, {"do_lower_case": False}])
def test_the_real_uncased_vocabulary_read_as_cased_is_refused(
    minilm: Path, tmp_path: Path, stated: dict[str, bool]
) -> None:
    shutil.copy(minilm / "vocab.txt", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
    if not stated:
        load_tokenizer(tmp_path)  # unstated, it is read as uncased, which is right
        return
    with pytest.raises(TokenizerError, match="vocabulary of bert-base-uncased gives"):
        load_tokenizer(tmp_path)


def test_the_real_cased_vocabulary_lower_cased_is_refused(cased: Tokenizer, tmp_path: Path) -> None:
    lower = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    folder = changed_copy(cased, tmp_path / "cased", normalizer=lower)
    with pytest.raises(TokenizerError, match="vocabulary of bert-base-cased gives.*Hello world"):
        load_tokenizer(folder)


def test_roberta_without_its_pre_tokenizer_is_refused(roberta: Tokenizer, tmp_path: Path) -> None:
    """transformers#47706: loaded so, "Hello world" became 12 ids and Arabic none at all."""
    folder = changed_copy(roberta, tmp_path / "roberta", pre_tokenizer=None)
    with pytest.raises(TokenizerError, match="vocabulary of roberta-base gives"):
        load_tokenizer(folder)


def test_roberta_with_a_prefix_space_is_accepted(roberta: Tokenizer, tmp_path: Path) -> None:
    prefixed = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    }
    folder = changed_copy(roberta, tmp_path / "roberta", pre_tokenizer=prefixed)
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode("Hello").ids == roberta.encode(" Hello").ids
