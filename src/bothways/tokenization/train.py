"""`train_tokenizer`: a new vocabulary from texts, by the engine's own trainers.

Here: the pipeline of each algorithm (normaliser, pre-tokenizer, trainer, decoder), the special
tokens and template of a family, and what makes the result the same on every run. The engine keeps
words in a hash table of random order: its WordPiece trainer numbers inner characters in that order,
which decides ties, and its Unigram trainer gives rare characters their scores in it. So inner
characters are found and numbered before, and those scores are made one afterwards.

Which texts is for the caller (`data/corpus.py`); which special tokens, for a family's recipe, which
is handed in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, Protocol

from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as Engine

from bothways.errors import TokenizerError, UsageError
from bothways.tokenization.alignment import PREFIX_MARKER
from bothways.tokenization.files import TokenizerFiles
from bothways.tokenization.tokenizer import Tokenizer

Algorithm = Literal["wordpiece", "bpe", "unigram"]

MIN_COUNT = 2  # how often a pair must be seen to become a piece
# Share of all characters that have a piece of their own in WordPiece. One without makes its whole
# word unknown, so it is higher than the 0.9995 of SentencePiece, which would drop question marks.
COVERAGE = 0.99999
INNER = "##"  # before a WordPiece that does not start a word
TEXTS_AT_A_TIME = 1000
# Unigram scores are logarithms of probabilities, and the last digits depend on the order of sums.
SCORE_DIGITS = 8
SCORE_STEP = 1e-4  # by which the trainer tells characters apart that it keeps though they are rare


class Recipe(Protocol):
    """Special tokens and templates of a family; `families/spec.py` has those of all."""

    @property
    def cls(self) -> str: ...  # noqa: D102 - special tokens, as in the class they describe
    @property
    def sep(self) -> str: ...  # noqa: D102
    @property
    def pad(self) -> str: ...  # noqa: D102
    @property
    def mask(self) -> str: ...  # noqa: D102
    @property
    def unknown(self) -> str: ...  # noqa: D102
    @property
    def single(self) -> str: ...  # noqa: D102
    @property
    def pair(self) -> str: ...  # noqa: D102
    @property
    def typed(self) -> bool: ...  # noqa: D102
    @property
    def order(self) -> tuple[str, ...]: ...  # noqa: D102


def train_tokenizer(
    texts: Iterable[str],
    *,
    algorithm: Algorithm,
    vocab_size: int,
    recipe: Recipe,
    lowercase: bool = False,
) -> Tokenizer:
    """A tokenizer whose vocabulary is learned from texts; the same texts give the same one.

    Args:
        texts: read twice, so no iterator; a few thousand are in memory at a time.
        algorithm: WordPiece (BERT), byte-level BPE (RoBERTa) or Unigram (ALBERT, XLM-R).
        vocab_size: pieces, special tokens included.
        recipe: special tokens and templates.
        lowercase: whether capitals become small letters; accents stay.

    Raises:
        UsageError: when the texts can be read only once.
        TokenizerError: when there is no text, or the vocabulary is smaller than the characters
            need or larger than the texts support; says what is possible.

    Example:
        >>> tokenizer = train_tokenizer(  # doctest: +SKIP
        ...     lines, algorithm="wordpiece", vocab_size=8000, recipe=BERT.tokenizer
        ... )
    """
    if iter(texts) is texts:
        raise UsageError("the texts are read twice, and an iterator can be read once; give a list")
    pipeline = _PIPELINES[algorithm]
    # A token may have two roles, or a place in the template and no role.
    placed = [word for word in f"{recipe.single} {recipe.pair}".split() if word not in ("A", "B")]
    specials = list(dict.fromkeys([*(getattr(recipe, role) for role in recipe.order), *placed]))
    engine = pipeline.engine(recipe.unknown)
    if lowercase:
        before = [] if engine.normalizer is None else [engine.normalizer]
        engine.normalizer = normalizers.Sequence([*before, normalizers.Lowercase()])
    alphabet = _alphabet(engine, texts)
    if not alphabet.characters:
        raise TokenizerError("there is no text to train a tokenizer on; check the input files")
    basis = pipeline.basis(alphabet)
    needed = len(specials) + len(basis)
    if vocab_size < needed:
        others = "" if algorithm == "bpe" else ", or byte-level BPE (--type bpe)"
        raise TokenizerError(
            f"a vocabulary of {vocab_size} pieces is too small: {len(specials)} special tokens "
            f"and {len(basis)} pieces of one character need {needed}, and longer ones come on "
            f"top; expected a multiple of that{others}"
        )
    trained = pipeline.train(engine, _Job(texts, vocab_size, specials, recipe.unknown, basis))
    supported = trained.get_vocab_size()
    if supported < vocab_size:
        raise TokenizerError(
            f"the text supports a vocabulary of {supported} pieces, and {vocab_size} were asked "
            f"for; give at most --vocab-size {supported}, or more text"
        )
    _finish(trained, recipe, specials)
    roles = {role: getattr(recipe, role) for role in ("cls", "sep", "pad", "mask")}
    roles["unk"] = recipe.unknown
    return Tokenizer(TokenizerFiles(trained, roles, name=f"the {algorithm} tokenizer"))


@dataclass
class Alphabet:
    """The characters of texts after normalisation.

    Attributes:
        characters: how often each occurs, white space left out.
        inner: those that stand inside a word.
    """

    characters: Counter[str] = field(default_factory=Counter)
    inner: set[str] = field(default_factory=set)

    def covering(self) -> list[str]:
        """The most frequent characters that together make COVERAGE of the text, sorted."""
        left = round(sum(self.characters.values()) * (1 - COVERAGE))
        kept = set(self.characters)
        for character, count in sorted(
            self.characters.items(), key=lambda item: (item[1], item[0])
        ):
            if count > left:
                break
            left -= count
            kept.discard(character)
        return sorted(kept)


def _alphabet(engine: Engine, texts: Iterable[str]) -> Alphabet:
    found = Alphabet()
    normalizer, splitter = engine.normalizer, engine.pre_tokenizer
    for batch in _batches(texts):
        text = "\n".join(batch)
        if normalizer is not None:
            text = normalizer.normalize_str(text)
        found.characters.update(text)
        # Most words have no inner character that is new.
        for chunk in {chunk for chunk in set(text.split()) if not found.inner.issuperset(chunk)}:
            for word, _ in splitter.pre_tokenize_str(chunk):
                found.inner.update(word[1:])
    for character in [c for c in found.characters if c.isspace()]:
        del found.characters[character]
    return found


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(texts)
    while batch := list(islice(iterator, TEXTS_AT_A_TIME)):
        yield batch


def _finish(engine: Engine, recipe: Recipe, specials: list[str]) -> None:
    """Template and special tokens."""
    kinds = {"A": "$A:0", "B": "$B:1" if recipe.typed else "$B:0"}

    def parsed(template: str) -> list[str]:
        kind = 0
        parts = []
        for word in template.split():
            kind = 1 if word == "B" and recipe.typed else kind
            parts.append(kinds.get(word, f"{word}:{kind}"))
        return parts

    engine.post_processor = processors.TemplateProcessing(
        single=parsed(recipe.single),
        pair=parsed(recipe.pair),
        special_tokens=[(token, engine.token_to_id(token)) for token in specials],
    )
    # The space before a mask belongs to the mask, so that "a [MASK]" reads as "a word" does.
    engine.add_special_tokens(
        [AddedToken(token, lstrip=token == recipe.mask, normalized=False) for token in specials]
    )


# --- the algorithms ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    """What a trainer needs.

    Attributes:
        texts, vocab_size: as asked for.
        specials: in the order of their ids.
        unknown: one of them.
        basis: pieces of one character that the vocabulary must hold.
    """

    texts: Iterable[str]
    vocab_size: int
    specials: list[str]
    unknown: str
    basis: list[str]


def _word_piece_engine(unknown: str) -> Engine:
    engine = Engine(models.WordPiece({}, unk_token=unknown))
    engine.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix=INNER)
    return engine


def _word_piece_basis(alphabet: Alphabet) -> list[str]:
    characters = alphabet.covering()
    return [INNER + c for c in characters if c in alphabet.inner] + characters


def _train_word_pieces(engine: Engine, job: _Job) -> Engine:
    inner = [piece for piece in job.basis if len(piece) > 1]
    characters = job.basis[len(inner) :]
    trainer = trainers.WordPieceTrainer(
        vocab_size=job.vocab_size,
        min_frequency=MIN_COUNT,
        special_tokens=job.specials + inner,
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        continuing_subword_prefix=INNER,
        show_progress=False,
    )
    engine.train_from_iterator(_batches(job.texts), trainer)
    return _with_model(engine, models.WordPiece(engine.get_vocab(), unk_token=job.unknown))


def _byte_engine(unknown: str) -> Engine:
    del unknown  # every character is bytes, and every byte a piece
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    return engine


def _byte_basis(alphabet: Alphabet) -> list[str]:
    del alphabet
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def _train_bytes(engine: Engine, job: _Job) -> Engine:
    trainer = trainers.BpeTrainer(
        vocab_size=job.vocab_size,
        min_frequency=MIN_COUNT,
        special_tokens=job.specials,
        initial_alphabet=job.basis,
        show_progress=False,
    )
    engine.train_from_iterator(_batches(job.texts), trainer)
    return engine


def _unigram_engine(unknown: str) -> Engine:
    del unknown  # the model names it by id, once there is a vocabulary
    engine = Engine(models.Unigram())
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    engine.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), spaces])
    # Without punctuation apart, pieces such as "s," would be learned.
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation("isolated")]
    )
    engine.decoder = decoders.Metaspace()
    return engine


def _unigram_basis(alphabet: Alphabet) -> list[str]:
    return [PREFIX_MARKER, *sorted(alphabet.characters)]


def _train_unigram(engine: Engine, job: _Job) -> Engine:
    trainer = trainers.UnigramTrainer(
        vocab_size=job.vocab_size,
        special_tokens=job.specials,
        unk_token=job.unknown,
        show_progress=False,
    )
    engine.train_from_iterator(_batches(job.texts), trainer)
    learned: list[tuple[str, float]] = json.loads(engine.to_str())["model"]["vocab"]
    scores = {piece: score for piece, score in learned if piece not in job.specials}
    lowest = min((score for piece, score in scores.items() if len(piece) > 1), default=0.0)
    rare = lowest + SCORE_STEP * len(scores)
    rounded = {
        piece: round(lowest if len(piece) == 1 and score < rare else score, SCORE_DIGITS)
        for piece, score in scores.items()
    }
    vocabulary = [(token, 0.0) for token in job.specials]
    vocabulary += sorted(rounded.items(), key=lambda item: (-item[1], item[0]))
    return _with_model(engine, models.Unigram(vocabulary, job.specials.index(job.unknown), False))


def _with_model(engine: Engine, model: models.Model) -> Engine:
    """The same pipeline over another model, without what the trainer took for special."""
    fresh = Engine(model)
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        if (value := getattr(engine, part)) is not None:
            setattr(fresh, part, value)
    return fresh


@dataclass(frozen=True)
class _Pipeline:
    """An algorithm.

    Attributes:
        engine: normaliser, pre-tokenizer and decoder around an empty model.
        basis: the single characters that its vocabulary must hold.
        train: fills the model.
    """

    engine: Callable[[str], Engine]
    basis: Callable[[Alphabet], list[str]]
    train: Callable[[Engine, _Job], Engine]


_PIPELINES: dict[Algorithm, _Pipeline] = {
    "wordpiece": _Pipeline(_word_piece_engine, _word_piece_basis, _train_word_pieces),
    "bpe": _Pipeline(_byte_engine, _byte_basis, _train_bytes),
    "unigram": _Pipeline(_unigram_engine, _unigram_basis, _train_unigram),
}
