"""New vocabularies: the same on each run, read by transformers, refused where they cannot be."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import transformers

from bothways.errors import TokenizerError, UsageError
from bothways.families.registry import FAMILIES
from bothways.families.spec import TokenizerRecipe
from bothways.tokenization.fragmentation import fragmentation
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from bothways.tokenization.train import Algorithm, Alphabet, train_tokenizer

ALGORITHMS: tuple[Algorithm, ...] = ("wordpiece", "bpe", "unigram")
VOCABULARY = 600
SYLLABLES = [a + b for a in "bdfklmnprst" for b in ("a", "ea", "i", "on", "us")]
WORDS = "the cats and dogs unaffable walking talked likes happiness unhappy retrained, again."


def recipe(family: str) -> TokenizerRecipe:
    found = FAMILIES[family].tokenizer
    assert found is not None
    return found


@cache
def lines() -> tuple[str, ...]:
    """Text for which a vocabulary of 600 can be learned in a moment."""
    chance = random.Random(7)
    made = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(400)]
    words = WORDS.split() * 8 + made
    return tuple(
        " ".join(chance.choices(words, k=12)).capitalize() + " Café, 中文。" for _ in range(400)
    )


def trained(algorithm: Algorithm, family: str = "bert") -> Tokenizer:
    return train_tokenizer(
        lines(), algorithm=algorithm, vocab_size=VOCABULARY, recipe=recipe(family)
    )


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "modernbert", "flaubert"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_special_tokens_and_template_are_the_familys(algorithm: Algorithm, family: str) -> None:
    tokenizer, wanted = trained(algorithm, family), recipe(family)
    assert tokenizer.vocab_size == VOCABULARY == tokenizer.largest_id + 1
    named = (wanted.cls, wanted.sep, wanted.pad, wanted.mask, wanted.unknown)
    assert tuple(tokenizer.special_tokens.values()) == named
    # One may have two roles, or stand in the template without one.
    listed = [*(getattr(wanted, role) for role in wanted.order), *wanted.single.split()]
    special = tokenizer.tokens(sorted(tokenizer.special_ids))
    assert special == [token for token in dict.fromkeys(listed) if token != "A"]
    single = tokenizer.tokens(tokenizer.encode("the cats").ids)
    pair = tokenizer.encode("the", "cats")
    members = [tokenizer.encode(text).ids[1:-1] for text in ("the cats", "the", "cats")]
    texts = [" ".join(tokenizer.tokens(ids)) for ids in members]
    assert " ".join(single) == wanted.single.replace("A", texts[0])
    spelled = wanted.pair.replace(" A ", f" {texts[1]} ").replace(" B ", f" {texts[2]} ")
    assert " ".join(tokenizer.tokens(pair.ids)) == spelled
    assert any(pair.type_ids) == wanted.typed


def test_padding_of_roberta_has_the_id_its_positions_are_counted_from() -> None:
    assert (trained("bpe", "roberta").pad_id, trained("bpe", "bert").pad_id) == (1, 0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_saved_is_read_by_us_and_by_transformers(
    algorithm: Algorithm, tmp_path: Path
) -> None:
    tokenizer = trained(algorithm)
    tokenizer.save(tmp_path)
    again = load_tokenizer(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in (*lines()[:20], "Unseen zebras: ☃ 3.5", ""):
        ids = tokenizer.encode(text).ids
        assert again.encode(text).ids == ids
        assert theirs(text)["input_ids"] == ids
    assert again.fingerprint == tokenizer.fingerprint
    assert (theirs.mask_token_id, theirs.pad_token_id) == (tokenizer.mask_id, tokenizer.pad_id)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_mask_reads_as_a_word_does(algorithm: Algorithm) -> None:
    """transformers#16798: a new vocabulary's mask was another symbol than the one masked with."""
    tokenizer = trained(algorithm)
    assert tokenizer.mask_id in tokenizer.special_ids
    text = f"the {tokenizer.special_tokens['mask']} and dogs"
    parsed = tokenizer.encode(text, special_tokens_in_text="parse").ids
    with_word = tokenizer.encode("the cats and dogs").ids
    at = parsed.index(tokenizer.mask_id)
    after = tokenizer.encode("x and dogs").ids
    assert parsed[:at] == with_word[:at]
    assert parsed[at + 1 :] == after[len(after) - len(parsed) + at + 1 :]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_run_learns_the_same(algorithm: Algorithm, tmp_path: Path, project: Path) -> None:
    """The engine's hash tables have another order in every process."""
    (tmp_path / "lines.txt").write_text("\n".join(lines()), encoding="utf-8")
    script = (
        "import sys\n"
        "from bothways.cli.main import main\n"
        f"main(['tokenizer', 'train', '--type', {algorithm!r}, '--vocab-size', '{VOCABULARY}',\n"
        "      '--input', sys.argv[1], '--output', sys.argv[2]])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(project / "src")}
    files = set()
    for run in range(2):
        folder = tmp_path / str(run)
        command = [sys.executable, "-c", script, str(tmp_path / "lines.txt"), str(folder)]
        subprocess.run(command, check=True, env=environment, capture_output=True)
        files.add((folder / "tokenizer.json").read_bytes())
    here = trained(algorithm)
    here.save(tmp_path / "here")
    files.add((tmp_path / "here" / "tokenizer.json").read_bytes())
    assert len(files) == 1


def test_capitals_stay_unless_told_otherwise() -> None:
    small = train_tokenizer(
        lines(), algorithm="wordpiece", vocab_size=400, recipe=recipe("bert"), lowercase=True
    )
    assert small.encode("CAFÉ").ids == small.encode("café").ids != small.encode("cafe").ids
    large = trained("wordpiece")
    assert large.encode("THE").ids != large.encode("the").ids


def test_inner_characters_have_pieces_of_their_own_and_isolated_ones_do_not() -> None:
    vocabulary = trained("wordpiece").vocabulary()
    assert {"##a", "a", "中"} <= vocabulary.keys()
    assert "##中" not in vocabulary  # it stands alone, always
    assert "##," not in vocabulary


def test_punctuation_does_not_grow_into_words_of_unigram() -> None:
    assert not [
        p for p in trained("unigram").vocabulary() if len(p) > 1 and p.endswith((",", "。"))
    ]


def test_rare_characters_are_left_out() -> None:
    alphabet = Alphabet()
    alphabet.characters.update({"a": 398_995, "b": 1000, "☃": 3, "☂": 2})
    assert alphabet.covering() == ["a", "b", "☃"]  # 4 of 400,000 may go: ☂, and then not ☃ too


def test_more_pieces_than_the_text_supports_are_refused_with_what_it_does() -> None:
    for algorithm in ALGORITHMS:
        with pytest.raises(TokenizerError, match=r"supports a vocabulary of \d+ pieces") as caught:
            train_tokenizer(lines(), algorithm=algorithm, vocab_size=90_000, recipe=recipe("bert"))
        possible = int(str(caught.value).rpartition("--vocab-size ")[2].split(",")[0])
        tokenizer = train_tokenizer(
            lines(), algorithm=algorithm, vocab_size=possible, recipe=recipe("bert")
        )
        assert tokenizer.vocab_size == possible


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fewer_pieces_than_characters_are_refused(algorithm: Algorithm) -> None:
    with pytest.raises(TokenizerError, match=r"20 pieces is too small: 5 special tokens and"):
        train_tokenizer(lines(), algorithm=algorithm, vocab_size=20, recipe=recipe("bert"))


def test_no_text_is_refused() -> None:
    with pytest.raises(TokenizerError, match="no text"):
        train_tokenizer(["", " "], algorithm="bpe", vocab_size=300, recipe=recipe("bert"))


def test_an_iterator_is_refused_since_texts_are_read_twice() -> None:
    texts: Iterator[str] = iter(lines())
    with pytest.raises(UsageError, match="read twice"):
        train_tokenizer(texts, algorithm="bpe", vocab_size=300, recipe=recipe("bert"))


def test_a_vocabulary_of_real_text_breaks_few_words(real_data: Path) -> None:
    text = (real_data / "rawtext" / "us_speeches_pd.txt").read_text().split("\n")
    tokenizer = train_tokenizer(
        text[:4000], algorithm="wordpiece", vocab_size=4000, recipe=recipe("bert")
    )
    seen = fragmentation(tokenizer, text[4000:5000])
    assert seen.words > 10_000
    assert seen.unknown_rate < 0.001
    assert seen.pieces_per_word < 1.35
