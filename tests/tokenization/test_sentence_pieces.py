"""Model files give the ids that SentencePiece itself gives, whatever rules they carry."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers
from hypothesis import example, given, settings

from bothways.errors import MissingExtraError, TokenizerError
from bothways.tokenization.aligned import Aligned
from bothways.tokenization.charsmap import CharacterMap
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from tests.golden.texts import SENTENCES, TEXTS
from tests.golden.vocabularies import FAMILIES, model_format, rules, train_model
from tests.tokenization.test_alignment import texts

CORPUS = [*SENTENCES, *TEXTS] * 4
BRACKETED = dict(FAMILIES["deberta-v2"].training) | {
    "byte_fallback": False,
    "character_coverage": 1.0,
}
# Each with other rules for characters, spaces, symbols or pieces.
MODELS: dict[str, dict[str, Any]] = {
    "bytes": {"byte_fallback": True, "character_coverage": 0.98},
    "unknown": {"character_coverage": 0.98},
    "nfkc": {"normalization_rule_name": "nfkc"},
    "lower-cased": {"normalization_rule_name": "nmt_nfkc_cf"},
    "as-it-is": {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "no-prefix": {"add_dummy_prefix": False},
    "symbols": {"user_defined_symbols": ["@@", "read", "\u4e66\u653e", "caf\u00e9"]},
    "over-spaces": {"split_by_whitespace": False},
    "pairs": {"model_type": "bpe"},
    "pairs-bytes": {"model_type": "bpe", "byte_fallback": True, "character_coverage": 0.98},
    "pairs-symbols": {"model_type": "bpe", "user_defined_symbols": ["@@", "read"]},
}


def write(folder: Path, name: str, content: bytes, **files: Any) -> Path:
    """A folder with a model file and JSON files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    for stem, value in files.items():
        (folder / f"{stem}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


Model = tuple[Tokenizer, Any]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    """A function: name of a model, to our tokenizer and SentencePiece's own."""
    made: dict[str, Model] = {}

    def get(name: str) -> Model:
        if name not in made:
            content = train_model(CORPUS, **{**BRACKETED, **MODELS[name]})
            folder = write(tmp_path_factory.mktemp("models") / name, "spm.model", content)
            processor = sentencepiece.SentencePieceProcessor(model_proto=content)
            made[name] = load_tokenizer(folder), processor
        return made[name]

    return get


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.tokens(tokenizer.encode(text).ids)[1:-1]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=40)
@given(text=texts)
@example(text="e\u0302\u0301 a\u0302\u0323 q\u0307\u0323 \ufb01\u0301 \u212b")  # marks in any order
@example(text="\u1112\u1161\u11ab \ud55c \uff76\uff9e \uff21\u030a")
@example(text="  \u3000 x \u2581\u2581 y \u2581")
@example(text="\x00a\x01b\x1fc\u200bd\ufeffe\r\nf\u2028")
@example(text="@@read caf\u00e9\u4e66\u653e\u5728 cafe\u0301 reader")
@example(text=" ".join(TEXTS))
def test_ids_are_sentence_pieces(trained: Callable[[str], Model], name: str, text: str) -> None:
    """transformers#14712, PR#15529, #42583: accents and unknown bytes were read otherwise."""
    tokenizer, processor = trained(name)
    assert tokenizer.encode_ids([text], policy=None)[0][0][1:-1] == processor.encode(text)


@pytest.mark.parametrize("name", ["bytes", "nfkc", "as-it-is", "symbols", "pairs"])
def test_ranges_are_sentence_pieces(trained: Callable[[str], Model], name: str) -> None:
    """Its own account of places, without the spaces before a piece, says the same."""
    tokenizer, processor = trained(name)
    for text in (*TEXTS, *SENTENCES):
        encoding = tokenizer.encode(text)
        own = processor.encode(text, return_type="proto").pieces
        for piece, ours in zip(own, encoding.offsets[1:-1], strict=True):
            theirs = text.encode()[piece.begin : piece.end].decode().strip()
            if piece.piece == "\u2581" or piece.piece.startswith("<0x") or not theirs:
                continue  # the first letter of two that were one has nothing in their account
            assert text[slice(*ours)] in theirs, (text, piece.piece)


def test_bytes_stand_for_their_own_character(trained: Callable[[str], Model]) -> None:
    tokenizer, _ = trained("bytes")
    text = "a \U0001d49c\U0001d7d9\u2208 b"
    encoding = tokenizer.encode(text)
    surfaces: dict[str, bytes] = {}
    for piece, (start, end) in zip(tokenizer.tokens(encoding.ids), encoding.offsets, strict=True):
        if piece.startswith("<0x"):
            surface = text[start:end]
            surfaces[surface] = surfaces.get(surface, b"") + bytes([int(piece[3:5], 16)])
    assert "\u2208" in surfaces
    # NFKC makes plain letters of the other two, which are known.
    assert all(surface.encode() == content for surface, content in surfaces.items())


def test_normalised_letters_lead_back_to_what_was_written(
    trained: Callable[[str], Model],
) -> None:
    tokenizer, _ = trained("nfkc")
    text = "\ufb01ne cafe\u0301 \uff28\uff49 \u00bd"
    encoding = tokenizer.encode(text)
    covered = {i for start, end in encoding.offsets for i in range(start, end)}
    assert {text[i] for i in range(len(text)) if i not in covered} == {" "}
    words = {text[start:end] for start, end in encoding.offsets}
    assert any("\ufb01" in word for word in words)


# --- families


def roberta_like(folder: Path, content: bytes | None = None, **files: Any) -> Path:
    content = train_model(CORPUS) if content is None else content
    return write(folder, "sentencepiece.bpe.model", content, **files)


def test_ids_of_xlm_roberta_and_camembert_are_counted_from_fairseq(tmp_path: Path) -> None:
    content = train_model(CORPUS)
    own = sentencepiece.SentencePieceProcessor(model_proto=content)
    size = own.get_piece_size()
    plain = load_tokenizer(roberta_like(tmp_path / "xlm", content))
    assert plain.tokens(range(4)) == ["<s>", "<pad>", "</s>", "<unk>"]
    assert plain.tokens([4, size, size + 1]) == [*own.id_to_piece([3, size - 1]), "<mask>"]
    assert (plain.cls_id, plain.pad_id, plain.sep_id, plain.unk_id) == (0, 1, 2, 3)
    assert (plain.mask_id, plain.vocab_size) == (size + 1, size + 2)
    pair = plain.tokens(plain.encode("a", "a").ids)
    assert pair == ["<s>", "\u2581a", "</s>", "</s>", "\u2581a", "</s>"]
    for told in ({"config": {"model_type": "camembert"}}, {"tokenizer_config": {"tokenizer_class": "CamembertTokenizer"}}):  # fmt: skip  # noqa: E501
        french = load_tokenizer(roberta_like(tmp_path / next(iter(told)), content, **told))
        assert french.tokens(range(7)) == [
            "<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>",
        ]  # fmt: skip
        assert (french.cls_id, french.pad_id, french.sep_id, french.unk_id) == (5, 1, 6, 3)
        assert (french.mask_id, french.vocab_size) == (size + 4, size + 5)
        assert french.special_ids == {0, 1, 2, 3, 4, 5, 6, size + 4}
        french.save(tmp_path / "saved")  # without config.json beside it
        assert load_tokenizer(tmp_path / "saved").fingerprint == french.fingerprint


def test_a_model_with_other_first_pieces_is_no_xlm_roberta(tmp_path: Path) -> None:
    folder = roberta_like(tmp_path, train_model(CORPUS, **BRACKETED))
    with pytest.raises(TokenizerError, match=r"begins with the pieces \[PAD\], \[CLS\], \[SEP\]"):
        load_tokenizer(folder)


def albert(folder: Path, **config: Any) -> Tokenizer:
    content = train_model(CORPUS, **FAMILIES["albert"].training)
    return load_tokenizer(write(folder, "spiece.model", content, tokenizer_config=config))


def test_albert_lowers_and_drops_accents_unless_told_not_to(tmp_path: Path) -> None:
    usual = albert(tmp_path / "1")
    assert pieces(usual, "The CAF\u00c9 \u00cdslenska") == pieces(usual, "the cafe islenska")
    accents = albert(tmp_path / "2", keep_accents=True)
    assert (
        pieces(accents, "CAF\u00c9") == pieces(accents, "caf\u00e9") != pieces(usual, "caf\u00e9")
    )
    cased = albert(tmp_path / "3", do_lower_case=False)
    assert pieces(cased, "The") != pieces(cased, "the")
    assert pieces(usual, "``so''") == pieces(usual, '"so"')
    assert usual.tokens(usual.encode("a", "b").ids)[0] == "[CLS]"
    assert usual.encode("a", "b").type_ids[-1] == 1


def test_albert_keeps_numbers_and_commas_apart(tmp_path: Path) -> None:
    """As tokenizer.json does; the slow class cuts such pieces afterwards, to the same end."""
    model = model_format.ModelProto()
    model.ParseFromString(train_model(CORPUS, **FAMILIES["albert"].training))
    for piece in ("\u25811998,", "2000,"):
        model.pieces.add(piece=piece, score=-1.0)
    content = model.SerializeToString()
    text = "in 1998, and 12000,9 too"
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    assert {"\u25811998,", "2000,"} < set(processor.encode(text, out_type=str))
    cut = pieces(load_tokenizer(write(tmp_path, "spiece.model", content)), text)
    assert cut.count(",") == 2
    assert "".join(cut) == "\u2581in\u25811998,\u2581and\u258112000,9\u2581too"


def test_deberta_may_lower_and_divides_no_words_at_punctuation(tmp_path: Path) -> None:
    content = train_model(CORPUS, **BRACKETED)
    lowered = load_tokenizer(
        write(tmp_path / "1", "spm.model", content, tokenizer_config={"do_lower_case": True})
    )
    assert pieces(lowered, "The Library") == pieces(lowered, "the library")
    split = {"split_by_punct": True}
    with pytest.raises(TokenizerError, match="split_by_punct: true"):
        load_tokenizer(write(tmp_path / "2", "spm.model", content, tokenizer_config=split))


def test_special_pieces_that_the_file_lacks_follow_it(tmp_path: Path) -> None:
    content = train_model(CORPUS, **BRACKETED)
    size = sentencepiece.SentencePieceProcessor(model_proto=content).get_piece_size()
    tokenizer = load_tokenizer(
        write(tmp_path / "1", "spm.model", content, added_tokens={"[MASK]": size})
    )
    assert tokenizer.mask_id == size
    more = load_tokenizer(
        write(tmp_path / "2", "spm.model", content, added_tokens={"[MASK]": size, "<e1>": size + 1})
    )
    encoding = more.encode("one <e1> \ufb01ne<e1>")
    assert encoding.ids.count(size + 1) == 2
    text = "one <e1> \ufb01ne<e1>"
    places = [encoding.offsets[i] for i, piece in enumerate(encoding.ids) if piece == size + 1]
    assert [text[start:end] for start, end in places] == ["<e1>", "<e1>"]
    with pytest.raises(TokenizerError, match="has id"):
        load_tokenizer(
            write(tmp_path / "3", "spm.model", content, added_tokens={"[MASK]": size + 3})
        )


def test_a_mask_divides_the_text_around_it(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(roberta_like(tmp_path))
    ids, _, _ = tokenizer.encode_ids(
        ["the <mask> was", "the<mask>was"],
        policy=None,
        special_tokens_in_text="parse",
    )
    assert ids[0] == ids[1]
    assert tokenizer.tokens(ids[0])[1:-1] == [
        *pieces(tokenizer, "the"), "<mask>", *pieces(tokenizer, "was"),
    ]  # fmt: skip
    plain = tokenizer.encode_ids(["the <mask> was"], policy=None)[0][0]
    assert tokenizer.mask_id not in plain


def test_transformers_reads_normal_text_of_our_folders_alike(tmp_path: Path) -> None:
    """For odd ones transformers 5 differs: its DeBERTa class has none of the file's rules."""
    content = train_model(CORPUS, **BRACKETED)
    config = {"model_type": "deberta-v2"}
    load_tokenizer(write(tmp_path / "1", "spm.model", content)).save(tmp_path / "2")
    write(tmp_path / "2", "spm.model", content, config=config)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "2")
    ours = load_tokenizer(tmp_path / "2")
    english = [text for text in SENTENCES if text.isascii()]
    assert theirs(english)["input_ids"] == ours.encode_ids(english, policy=None)[0]
    odd = "\ufb01ne \uff28\uff49"
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    assert ours.encode(odd).ids[1:-1] == processor.encode(odd)
    assert theirs(odd)["input_ids"][1:-1] != processor.encode(odd)


# --- what cannot be read


def changed(content: bytes, **fields: Any) -> bytes:
    """A model file with some fields set: `normalizer_spec__name` is a field of a message."""
    model = model_format.ModelProto()
    model.ParseFromString(content)
    for path, value in fields.items():
        message, name = path.split("__")
        setattr(getattr(model, message), name, value)
    result: bytes = model.SerializeToString()
    return result


def test_other_kinds_of_models_are_refused_with_all_reasons(tmp_path: Path) -> None:
    content = changed(
        train_model(CORPUS, **BRACKETED),
        trainer_spec__model_type=3,
        trainer_spec__treat_whitespace_as_suffix=True,
        normalizer_spec__escape_whitespaces=False,
    )
    with pytest.raises(TokenizerError, match="words or characters.*end of words.*hold spaces"):
        load_tokenizer(write(tmp_path, "spm.model", content))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="is no SentencePiece model"):
        load_tokenizer(write(tmp_path, "spm.model", b"version https://git-lfs.github.com"))
    with pytest.raises(TokenizerError, match="no piece for what is unknown"):
        load_tokenizer(write(tmp_path, "spm.model", b""))
    short = changed(
        train_model(CORPUS, **BRACKETED), normalizer_spec__precompiled_charsmap=rules()[:1000]
    )
    with pytest.raises(TokenizerError, match="cut short"):
        load_tokenizer(write(tmp_path, "spm.model", short))


@pytest.mark.parametrize("absent", ["sentencepiece", "google.protobuf.message"])
def test_an_absent_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    folder = roberta_like(tmp_path)
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.delitem(sys.modules, "sentencepiece.sentencepiece_model_pb2", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'bothways\[sentencepiece\]'"):
        load_tokenizer(folder)


def test_a_table_of_ascii_rules_is_read() -> None:
    """Casefolding rules begin with letters that are in nearly every text."""
    folded = CharacterMap(rules_of("nmt_nfkc_cf"))
    assert list(folded.edits("aB")) == [(1, 2, "b")]
    assert list(CharacterMap(b"").edits("\ufb01")) == []
    assert list(CharacterMap(rules()).edits("e\u0302\u0301\ufb01x")) == [
        (0, 3, "\u1ebf"),
        (3, 4, "fi"),
    ]


def rules_of(name: str) -> bytes:
    model = model_format.ModelProto()
    model.ParseFromString(train_model(["a b c"] * 3, vocab_size=20, normalization_rule_name=name))
    table: bytes = model.normalizer_spec.precompiled_charsmap
    return table


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.file])
@settings(max_examples=60)
@given(text=texts)
@example(text=" ".join(TEXTS))
def test_a_piece_is_what_its_surface_becomes(
    made_here: dict[str, Tokenizer], name: str, text: str
) -> None:
    """Through NFKC, joined accents, lower case and dropped characters, for each family."""
    tokenizer = made_here[name]
    prepare = tokenizer._reader._prepare
    assert prepare is not None
    encoding = tokenizer.encode(text)
    unknown = tokenizer.special_tokens["unk"]
    for piece, (start, end) in zip(
        tokenizer.tokens(encoding.ids[1:-1]), encoding.offsets[1:-1], strict=True
    ):
        content = piece.replace("\u2581", "").replace("\u03c2", "\u03c3")  # a sigma at an end
        surface = prepare(Aligned.of(text[start:end])).text.replace("\u03c2", "\u03c3")
        if piece.startswith("<0x"):
            assert int(piece[3:5], 16) in surface.encode()
        elif piece != unknown:
            assert content in surface, (piece, text[start:end])
