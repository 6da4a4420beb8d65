"""What callers of a tokenizer see: ids, template, cutting, the ledger, odd input."""

from __future__ import annotations

import logging
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import tokenizers
import torch

from bothways.errors import DataError, TokenizerError, UsageError
from bothways.tokenization.encoding import End, Ledger, Policy
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

LONG = " ".join(["mat"] * 30)
CAT = "the cat sat on the mat."


def test_one_text(tiny: Tokenizer) -> None:
    encoding = tiny.encode("The unaffable dogs")
    pieces = ["[CLS]", "the", "un", "##aff", "##able", "[UNK]", "[SEP]"]
    assert tiny.tokens(encoding.ids) == pieces  # lower-cased, since no piece holds a capital
    assert encoding.type_ids == [0] * 7
    assert encoding.words == [None, 0, 1, 1, 1, 2, None]
    assert encoding.special == [True, False, False, False, False, False, True]
    assert encoding.offsets[1:-1] == [(0, 3), (4, 6), (6, 9), (9, 13), (14, 18)]
    assert (encoding.tokens, encoding.tokens_cut, encoding.end) == (5, 0, "none")
    assert len(encoding) == 7


def test_a_pair_has_two_segments_and_offsets_into_each_member(tiny: Tokenizer) -> None:
    encoding = tiny.encode("the cat", "a mat")
    assert tiny.tokens(encoding.ids) == ["[CLS]", "the", "cat", "[SEP]", "a", "mat", "[SEP]"]
    assert encoding.type_ids == [0, 0, 0, 0, 1, 1, 1]
    assert encoding.offsets == [(0, 0), (0, 3), (4, 7), (0, 0), (0, 1), (2, 5), (0, 0)]
    assert encoding.words == [None, 0, 1, None, 0, 1, None]


def test_each_vocabulary_has_its_own_template(real_tokenizer: Tokenizer) -> None:
    engine = real_tokenizer._reader.parsing
    for members in (["Hello world"], ["Hello world", "one more"]):
        expected = engine.encode(members[0], members[1] if len(members) > 1 else None)
        encoding = real_tokenizer.encode(*members)
        assert encoding.ids == expected.ids
        assert encoding.type_ids == expected.type_ids
        assert encoding.special == [flag == 1 for flag in expected.special_tokens_mask]


def test_roberta_puts_two_separators_between_a_pair(roberta: Tokenizer) -> None:
    pieces = roberta.tokens(roberta.encode("a", "b").ids)
    assert pieces == ["<s>", "a", "</s>", "</s>", "b", "</s>"]


@pytest.mark.parametrize("pair", [None, "Hello again, world"])
def test_ids_and_encodings_agree(any_tokenizer: Tokenizer, pair: str | None) -> None:
    texts = ["Hello world", "", "one\x00 two \u4e2d\u6587", "[SEP] <s> x", LONG * 3]
    pairs = None if pair is None else [pair] * len(texts)
    for policy in (None, CutPolicy(9), CutPolicy(9, "tail"), CutPolicy(10, "head+tail")):
        ids, types, ledger = any_tokenizer.encode_ids(texts, pairs, policy=policy)
        encodings, other = any_tokenizer.encode_many(texts, pairs, policy=policy)
        assert [encoding.ids for [encoding] in encodings] == ids
        expected = [encoding.type_ids for [encoding] in encodings]
        assert (types if types is not None else [[0] * len(row) for row in ids]) == expected
        assert ledger == other
        assert policy is None or max(map(len, ids)) <= policy.max_length


def test_alone_is_as_in_a_batch(any_tokenizer: Tokenizer) -> None:
    texts = ["Hello world", "x", LONG, "\u4e2d\u6587", ""]
    together, _, _ = any_tokenizer.encode_ids(texts, policy=CutPolicy(8))
    alone = [any_tokenizer.encode_ids([text], policy=CutPolicy(8))[0][0] for text in texts]
    assert together == alone


def test_no_texts_are_fine(tiny: Tokenizer) -> None:
    assert tiny.encode_ids([], policy=CutPolicy(8)) == ([], None, Ledger())
    assert tiny.encode_many([], [], policy=None) == ([], Ledger())


@pytest.mark.parametrize(
    ("policy", "kept", "end"),
    [
        ("head", ["the", "cat", "sat", "on"], "tail"),
        ("tail", ["on", "the", "mat", "."], "head"),
        ("head+tail", ["the", "cat", "mat", "."], "middle"),
    ],
)
def test_policies_leave_room_for_the_template(
    tiny: Tokenizer, policy: Policy, kept: list[str], end: End
) -> None:
    """transformers#1666: is the tail dropped, and can I keep head and tail?"""
    encoding = tiny.encode(CAT, max_length=6, policy=policy)
    assert tiny.tokens(encoding.ids) == ["[CLS]", *kept, "[SEP]"]
    assert (encoding.tokens, encoding.tokens_cut, encoding.end) == (7, 3, end)
    for piece, (start, stop) in zip(kept, encoding.offsets[1:-1], strict=True):
        assert CAT[start:stop] == piece


def test_the_ledger_counts_what_was_cut(tiny: Tokenizer) -> None:
    """sentence-transformers#4060, #181, #285: texts were cut and no caller could tell."""
    texts = [CAT, "the cat", "", LONG]
    _, _, ledger = tiny.encode_ids(texts, policy=CutPolicy(6))
    assert ledger == Ledger(texts=4, texts_cut=2, tokens=39, tokens_cut=29, end="tail")
    assert tiny.encode_ids(texts[1:3], policy=CutPolicy(6))[2] == Ledger(texts=2, tokens=2)


def test_a_person_reads_where_texts_were_cut() -> None:
    ends: tuple[End, ...] = ("head", "tail", "middle")
    head, tail, middle = (
        Ledger(texts=1, texts_cut=1, tokens=40, tokens_cut=10, end=end) for end in ends
    )
    assert middle.sentence() == "1 of 1 text was cut (10 of 40 tokens, 25.0 %, in the middle)"
    assert (head + tail).sentence().endswith("(20 of 80 tokens, 25.0 %, in different places)")


def test_a_pair_is_one_text_in_the_ledger(tiny: Tokenizer) -> None:
    _, types, ledger = tiny.encode_ids([LONG], ["the cat"], policy=CutPolicy(10))
    assert ledger == Ledger(texts=1, texts_cut=1, tokens=32, tokens_cut=25, end="tail")
    assert types == [[0] * 7 + [1] * 3]  # the longer member is cut, the shorter stays whole


def test_windows_lose_nothing(tiny: Tokenizer) -> None:
    """transformers#15177, #33579: words beyond the limit were lost to taggers."""
    [windows, short], ledger = tiny.encode_many([CAT, "cat"], policy=CutPolicy(6, "windows", 2))
    assert [tiny.tokens(window.ids) for window in windows] == [
        ["[CLS]", "the", "cat", "sat", "on", "[SEP]"],
        ["[CLS]", "sat", "on", "the", "mat", "[SEP]"],
        ["[CLS]", "the", "mat", ".", "[SEP]"],
    ]
    assert len(short) == 1
    assert ledger == Ledger(texts=2, tokens=8, windows=3)
    assert all(window.special[0] and window.special[-1] for window in windows)
    assert [CAT[slice(*windows[2].offsets[1])], windows[2].words[1]] == ["the", 4]


def test_windows_of_words_keep_the_callers_index(tiny: Tokenizer) -> None:
    """transformers#10682: labels were wrong on overflowing windows."""
    words = ["the", "unaffable", "cat", "sat"]
    [windows], ledger = tiny.encode_words([words], policy=CutPolicy(5, "windows", 1))
    assert [window.words[1:-1] for window in windows] == [[0, 1, 1], [1, 1, 2], [2, 3]]
    assert ledger.windows == 3


def test_windows_are_asked_of_encode_many_only(tiny: Tokenizer) -> None:
    with pytest.raises(UsageError, match="encode_many"):
        tiny.encode(CAT, policy="windows")
    with pytest.raises(UsageError, match="encode_many"):
        tiny.encode_ids([CAT], policy=CutPolicy(6, "windows"))


@pytest.mark.parametrize("length", [1, 2])
def test_a_limit_without_room_for_text_is_an_error(tiny: Tokenizer, length: int) -> None:
    with pytest.raises(UsageError, match=f"max_length is {length}, but 2 .* at least 3"):
        tiny.encode(CAT, max_length=length)


def test_the_declared_length_is_the_default(uncased: Tokenizer, tiny: Tokenizer) -> None:
    text = "mat " * 300
    assert uncased.declared_max_length == 256
    assert len(uncased.encode(text)) == 256
    assert len(uncased.encode(text, max_length=20)) == 20
    assert tiny.declared_max_length is None
    assert len(tiny.encode(text)) == 302


def test_a_very_long_text_is_cut_and_counted(uncased: Tokenizer) -> None:
    """curated-transformers#359: four thousand tokens raised an IndexError in the model."""
    ids, _, ledger = uncased.encode_ids(["mat " * 50_000], policy=CutPolicy(512))
    assert len(ids[0]) == 512
    assert ledger.tokens_cut == 50_000 - 510


# --- special tokens typed by a user


def test_typed_special_tokens_are_plain_text(any_tokenizer: Tokenizer) -> None:
    """Typed characters reach no special piece, in SentencePiece vocabularies either."""
    template_ids = any_tokenizer.special_ids - {any_tokenizer.unk_id}
    names = [name for role, name in any_tokenizer.special_tokens.items() if role != "unk"]
    names.append("\uff1cs\uff1e")  # the normaliser of XLM-R makes "<s>" of these wide characters
    for name in names:
        encoding = any_tokenizer.encode(f"a {name} b")
        inside = [
            piece for piece, special in zip(encoding.ids, encoding.special, strict=True)
            if not special
        ]  # fmt: skip
        assert template_ids.isdisjoint(inside), name
        assert any_tokenizer.encode_ids([f"a {name} b"], policy=None)[0] == [encoding.ids]


def test_the_engine_alone_would_read_typed_characters_as_special(xlm_roberta: Tokenizer) -> None:
    """The case above exists: the engine, told to take special tokens as text, does not."""
    engine = xlm_roberta._reader.engine
    assert engine.encode_special_tokens
    assert xlm_roberta.cls_id in engine.encode("\uff1cs\uff1e", add_special_tokens=False).ids


def test_typed_special_tokens_are_counted(any_tokenizer: Tokenizer) -> None:
    name = any_tokenizer.special_tokens["sep"]
    texts = [f"a {name} b {name}", "none", f"{name}{name}"]
    assert any_tokenizer.encode_ids(texts, policy=None)[2].special_in_text == 4
    assert any_tokenizer.encode_many(texts, texts, policy=None)[1].special_in_text == 8


def test_typed_special_tokens_can_be_parsed(real_tokenizer: Tokenizer) -> None:
    mask = real_tokenizer.special_tokens["mask"]
    text = f"Hello {mask} world"
    ids, _, ledger = real_tokenizer.encode_ids([text], policy=None, special_tokens_in_text="parse")
    assert ids[0].count(real_tokenizer.mask_id or -1) == 1
    assert ids[0] == real_tokenizer._reader.parsing.encode(text).ids
    assert ledger.special_in_text == 0
    encoding = real_tokenizer.encode(text, special_tokens_in_text="parse")
    place = encoding.ids.index(real_tokenizer.mask_id or -1)
    assert text[slice(*encoding.offsets[place])] == mask
    assert not encoding.special[place]  # the template did not add it


def test_typed_special_tokens_can_be_refused(tiny: Tokenizer) -> None:
    texts = ["cat", "a [SEP] b", "[MASK]"]
    with pytest.raises(TokenizerError, match=r"2 texts.*row 1: 'a \[SEP\] b'; row 2"):
        tiny.encode_ids(texts, policy=None, special_tokens_in_text="refuse")
    with pytest.raises(TokenizerError, match=r"row 0 \(second text\): '\[PAD\]'"):
        tiny.encode_many(["a"], ["[PAD]"], policy=None, special_tokens_in_text="refuse")
    tiny.encode_ids(["cat"], policy=None, special_tokens_in_text="refuse")


# --- input that cannot be read


def test_lone_surrogates_are_refused_with_row_and_position(any_tokenizer: Tokenizer) -> None:
    texts = ["fine", "ab\ud800c", "also fine", "\udfff"]
    expected = r"2 of 4 rows.*row 1, character 2 \(U\+D800\); row 3, character 0 \(U\+DFFF\)"
    for encode in (any_tokenizer.encode_ids, any_tokenizer.encode_many):
        with pytest.raises(DataError, match=expected):
            encode(texts, policy=None)
    with pytest.raises(DataError, match=r"row 0 \(second text\), character 1"):
        any_tokenizer.encode("a", "b\udc00")
    with pytest.raises(DataError, match="row 0, character 3"):
        any_tokenizer.encode_words([["a", "b\ud800"]], policy=None)


@pytest.mark.parametrize("row", [None, 3.5, ["a", "b"], ("a", "b"), b"bytes"])
def test_rows_that_are_no_text_are_refused(tiny: Tokenizer, row: object) -> None:
    with pytest.raises(DataError, match=f"1 of 2 rows.*row 1 is {type(row).__name__}"):
        tiny.encode_ids(["cat", row], policy=None)  # type: ignore[list-item]


def test_one_string_instead_of_a_list_is_refused(tiny: Tokenizer) -> None:
    with pytest.raises(UsageError, match=r"write \[text\]"):
        tiny.encode_ids("cat", policy=None)


def test_columns_of_different_length_are_refused(tiny: Tokenizer) -> None:
    with pytest.raises(UsageError, match="2 texts with 1 second texts"):
        tiny.encode_many(["cat", "mat"], ["cat"], policy=None)


# --- properties, padding, copies


def test_special_tokens_have_ids(uncased: Tokenizer, roberta: Tokenizer) -> None:
    for tokenizer in (uncased, roberta):
        ids = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.mask_id)
        assert None not in ids
        assert {*ids, tokenizer.unk_id} == tokenizer.special_ids
    assert (roberta.cls_id, roberta.pad_id, roberta.sep_id, roberta.mask_id) == (0, 1, 2, 50264)
    assert (uncased.vocab_size, uncased.largest_id) == (30522, 30521)


def test_decode_gives_running_text(any_tokenizer: Tokenizer) -> None:
    text = "hello world, again"
    assert any_tokenizer.decode(any_tokenizer.encode(text).ids).replace(" ,", ",") == text
    assert any_tokenizer.tokens([any_tokenizer.vocab_size + 5]) == [""]
    assert len(any_tokenizer.vocabulary()) == any_tokenizer.vocab_size


def test_padded_tensors(tiny: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    batch = tiny.padded(["the cat", "cat"], ["a mat", "mat"])
    assert batch["input_ids"].tolist()[1] == [2, 6, 3, 9, 3, 0, 0]
    assert batch["attention_mask"].tolist() == [[1] * 7, [1] * 5 + [0] * 2]
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0]]
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())
    assert not caplog.records


def test_padded_tensors_say_what_was_cut(tiny: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert tiny.padded([CAT, "cat"], max_length=4)["input_ids"].shape == (2, 4)
    assert "1 of 2 texts was cut (5 of 8 tokens" in caplog.text


def test_a_pickled_copy_reads_the_same(uncased: Tokenizer, roberta: Tokenizer) -> None:
    for tokenizer in (uncased, roberta):
        copy: Tokenizer = pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 - made right here
        for text in ("Hello world", "a [SEP] b </s> c"):
            assert copy.encode(text) == tokenizer.encode(text)
        assert copy.special_tokens == tokenizer.special_tokens


def test_threads_share_a_tokenizer(uncased: Tokenizer) -> None:
    texts = [f"text number {index} \u4e2d\x00 [SEP]" for index in range(200)]
    expected = uncased.encode_ids(texts, policy=CutPolicy(16))
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda _: uncased.encode_ids(texts, policy=CutPolicy(16)), range(8))
        assert all(result == expected for result in results)


def test_truncation_and_padding_of_the_file_do_not_count(
    uncased: Tokenizer, uncased_engine: tokenizers.Tokenizer
) -> None:
    """The file of this real model cuts to 128 pieces and pads to as many."""
    text = "word " * 200
    assert uncased.encode("word").ids == uncased_engine.encode("word").ids
    assert uncased.encode(text, max_length=400).ids == uncased_engine.encode(text).ids
