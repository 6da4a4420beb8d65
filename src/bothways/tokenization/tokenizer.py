"""`Tokenizer`: texts to `Encoding`s and back, and the account of what was cut.

Here: what callers use. The engine is in `reading.py`, offsets and words in `alignment.py`, cutting
and the template in `assembly.py`, files in `files.py`, proofs of identity in `passport.py`, and
whether a tokenizer fits a model in `fitting.py`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bothways.errors import TokenizerError, UsageError
from bothways.files import Staged
from bothways.tokenization import passport
from bothways.tokenization.alignment import PREFIX_MARKER, GivenWords, surfaces, words_by_space
from bothways.tokenization.assembly import Assembler, Pieces
from bothways.tokenization.encoding import Encoding, Ledger, Policy, SpecialInText
from bothways.tokenization.files import (
    TokenizerFiles,
    complete_special_tokens,
    read_folder,
    special_contents,
    stage_tokenizer,
)
from bothways.tokenization.forks import guard_forks
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.reading import Reader, Reading
from bothways.tokenization.template import Template, read_templates

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

Value = TypeVar("Value")


def load_tokenizer(source: str | Path) -> Tokenizer:
    """The tokenizer of a model folder, with well-known vocabularies verified.

    Args:
        source: a folder with tokenizer.json, or with vocabulary files.

    Raises:
        TokenizerError: when there is none, or it gives other ids than its vocabulary should.

    Example:
        >>> tokenizer = load_tokenizer("my-model")  # doctest: +SKIP
        >>> tokenizer.tokens(tokenizer.encode("Hello world").ids)  # doctest: +SKIP
        ['[CLS]', 'hello', 'world', '[SEP]']
    """
    if not str(source).strip():
        raise TokenizerError("the name of the folder is empty; give one that holds a tokenizer")
    tokenizer = Tokenizer(read_folder(Path(source)))
    passport.check_golden(tokenizer)
    return tokenizer


class Tokenizer:
    """Reads texts for an encoder.

    Args:
        files: an engine and what is known about it. The engine is taken over and changed.

    Attributes:
        name: where it was read, for messages.
        declared_max_length: pieces a text may have by the checkpoint's files; None when not said.
        special_tokens: content of the special tokens by role: cls, sep, pad, mask, unk, bos, eos.
        cls_id, sep_id, pad_id, mask_id, unk_id: their ids; None where there is no such token.
        special_ids: ids of all special tokens, of those without a role too.
        template, pair_template: what is put around a text and around a pair.
        vocab_size: pieces, added ones included.
    """

    def __init__(self, files: TokenizerFiles) -> None:
        guard_forks()
        engine = files.engine
        self.template, self.pair_template = read_templates(engine)
        around = tuple(piece for group in self.template.specials for piece in group)
        self.special_tokens: Mapping[str, str] = complete_special_tokens(
            engine, files.special_tokens, around
        )
        self.name = files.name
        self.declared_max_length = files.declared_max_length
        self.vocab_size: int = engine.get_vocab_size()
        self._files = files
        specials = special_contents(engine)
        self.special_ids = frozenset(specials.values())
        roles = {role: engine.token_to_id(name) for role, name in self.special_tokens.items()}
        self.cls_id: int | None = roles.get("cls")
        self.sep_id: int | None = roles.get("sep")
        self.pad_id: int | None = roles.get("pad")
        self.mask_id: int | None = roles.get("mask")
        self.unk_id: int | None = roles.get("unk")
        self._marker_id = engine.token_to_id(PREFIX_MARKER)
        self._knows_words = engine.pre_tokenizer is not None
        self._reader = Reader(engine, specials, self.unk_id, files.prepare)

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[TokenizerFiles]]:
        """Pickled as its files; a copy finds out the rest again."""
        return Tokenizer, (self._complete_files(),)

    @cached_property
    def largest_id(self) -> int:
        """The largest id; beyond `vocab_size` - 1 where ids have gaps."""
        engine = self._reader.engine
        if all(engine.id_to_token(index) is not None for index in range(self.vocab_size)):
            return self.vocab_size - 1
        return max(engine.get_vocab().values())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the vocabulary, the template and what the pipeline makes of samples."""
        return passport.fingerprint(self)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The pieces with these ids, as the vocabulary spells them; "" where there is none."""
        id_to_token = self._reader.engine.id_to_token
        return [id_to_token(index) or "" for index in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Ids as running text, special pieces left out."""
        text: str = self._reader.engine.decode(list(ids))
        return text

    def vocabulary(self) -> dict[str, int]:
        """All pieces with their ids, added ones included."""
        vocabulary: dict[str, int] = self._reader.engine.get_vocab()
        return vocabulary

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        max_length: int | None = None,
        policy: Policy = "head",
        special_tokens_in_text: SpecialInText = "text",
    ) -> Encoding:
        """One text, or one pair, as pieces.

        Args:
            text: any length.
            pair: the second member of a pair.
            max_length: pieces, special ones included; default what the checkpoint declares, and
                uncut where it declares nothing.
            policy: what is kept of a longer text; for windows take `encode_many`.
            special_tokens_in_text: what "[SEP]" typed in a text means.

        Raises:
            UsageError: for windows, or when max_length leaves no room for a text.
        """
        if policy == "windows":
            raise UsageError("encode returns one encoding; windows come from encode_many")
        encodings, _ = self.encode_many(
            [text],
            None if pair is None else [pair],
            policy=self._policy(max_length, policy),
            special_tokens_in_text=special_tokens_in_text,
        )
        return encodings[0][0]

    def encode_many(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        policy: CutPolicy | None,
        special_tokens_in_text: SpecialInText = "text",
    ) -> tuple[list[list[Encoding]], Ledger]:
        """Texts or pairs as pieces with offsets and words, and what was cut.

        Args:
            texts: rows.
            pairs: their second members.
            policy: how long an encoding may be and what is kept; None cuts nothing.
            special_tokens_in_text: what "[SEP]" typed in a text means.

        Returns:
            For each row its encodings (several are windows), and the ledger.

        Raises:
            DataError: when a row is no text or holds a lone surrogate.
            TokenizerError: when a row holds a special token and these are refused.
            UsageError: when the policy leaves no room for a text.
        """
        columns = [texts] if pairs is None else [texts, pairs]
        assembler = Assembler(self._template(len(columns)), policy)
        reading = self._reader.read(
            columns, special_tokens_in_text=special_tokens_in_text, offsets=True
        )
        flat = [text for column in columns for text in column]
        pieces = [self._pieces(row, text, reading) for row, text in enumerate(flat)]
        encodings = [assembler.encodings(members) for members in _rows(pieces, len(columns))]
        return encodings, assembler.ledger(reading)

    def encode_words(
        self,
        words: Sequence[Sequence[str]],
        *,
        policy: CutPolicy | None,
        special_tokens_in_text: SpecialInText = "text",
    ) -> tuple[list[list[Encoding]], Ledger]:
        """Texts that the caller has already split into words.

        As `encode_many`, but `words` of an encoding are indices of the caller's words and
        `offsets` count in that word. A word that leaves no trace has no piece.

        Args:
            words: of each text.
            policy, special_tokens_in_text: as in `encode_many`.
        """
        given = [GivenWords(text, row) for row, text in enumerate(words)]
        reading = self._reader.read(
            [[text.text for text in given]],
            special_tokens_in_text=special_tokens_in_text,
            offsets=True,
        )
        assembler = Assembler(self.template, policy)
        encodings = []
        for row, text in enumerate(given):
            pieces = self._pieces(row, text.text, reading)
            indices, offsets = text.locate(pieces.offsets)
            encodings.append(assembler.encodings([Pieces(pieces.ids, offsets, indices)]))
        return encodings, assembler.ledger(reading)

    def encode_ids(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        policy: CutPolicy | None,
        special_tokens_in_text: SpecialInText = "text",
    ) -> tuple[list[list[int]], list[list[int]] | None, Ledger]:
        """Ids only, one list a row: as fast as the engine; arguments as in `encode_many`.

        Returns:
            Ids, segments (None when all are zero) and the ledger.

        Raises:
            UsageError: also for windows, of which a row has several.
        """
        if policy is not None and policy.keep == "windows":
            raise UsageError("encode_ids returns one list a row; windows come from encode_many")
        columns = [texts] if pairs is None else [texts, pairs]
        assembler = Assembler(self._template(len(columns)), policy)
        reading = self._reader.read(columns, special_tokens_in_text=special_tokens_in_text)
        ids: list[list[int]] = []
        types: list[list[int]] = []
        for members in _rows(reading.ids, len(columns)):
            pieces, kinds = assembler.ids(members)
            ids.append(pieces)
            if kinds is not None:
                types.append(kinds)
        return ids, types or None, assembler.ledger(reading)

    def read(self, texts: Sequence[str]) -> Reading:
        """Pieces of texts as they come: uncut, nothing around them, words by the engine.

        For corpora: `documents.py` makes arrays of it. Ranges are the engine's, so that one may
        begin with the space before a word.

        Raises:
            DataError: when a row is no text or holds a lone surrogate.
        """
        reading = self._reader.read([texts], offsets=True)
        if self._knows_words:
            return reading
        pairs = zip(texts, reading.offsets, strict=True)
        return replace(reading, words=[words_by_space(text, offsets) for text, offsets in pairs])

    def plain_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of whole texts in the template, without an account: to compare tokenizers by."""
        reading = self._reader.read([texts], count_dropped=False)
        return [self.template.wrap([ids]) for ids in reading.ids]

    def padded(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        policy: Policy = "head",
    ) -> dict[str, Tensor]:
        """Padded tensors for `encoder.padded`: input_ids, attention_mask, token_type_ids.

        Texts that are cut are counted in a warning.

        Args:
            texts, pairs: rows.
            max_length: pieces; default what the checkpoint declares.
            policy: what is kept of longer texts.

        Raises:
            TokenizerError: when there is no padding token.

        Example:
            >>> batch = tokenizer.padded(["a text", "another one"])  # doctest: +SKIP
            >>> encoder.padded(**batch).last_hidden[:, 0]  # doctest: +SKIP
        """
        import torch

        if self.pad_id is None:
            raise TokenizerError(f"{self.name}: no padding token; encode_ids pads nothing")
        ids, types, ledger = self.encode_ids(texts, pairs, policy=self._policy(max_length, policy))
        if ledger.lost:
            logger.warning("%s", ledger.sentence())
        longest = max(map(len, ids), default=0)
        input_ids = torch.full((len(ids), longest), self.pad_id)
        mask, type_ids = torch.zeros_like(input_ids), torch.zeros_like(input_ids)
        for row, pieces in enumerate(ids):
            input_ids[row, : len(pieces)] = torch.tensor(pieces)
            mask[row, : len(pieces)] = 1
            if types is not None:
                type_ids[row, : len(pieces)] = torch.tensor(types[row])
        return {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": type_ids}

    def save(self, folder: str | Path) -> None:
        """Write the tokenizer's files, which transformers reads too, in one step."""
        with Staged(folder) as files:
            self.stage(files)

    def stage(self, files: Staged) -> None:
        """Put the tokenizer's files among others that are written in one step."""
        stage_tokenizer(files, self._complete_files())

    def with_max_length(self, max_length: int) -> Tokenizer:
        """The same tokenizer, which declares another longest text."""
        files = copy.deepcopy(self._complete_files())  # an engine belongs to one tokenizer
        return Tokenizer(replace(files, declared_max_length=max_length))

    def _complete_files(self) -> TokenizerFiles:
        return replace(self._files, engine=self._reader.parsing, special_tokens=self.special_tokens)

    def _policy(self, max_length: int | None, keep: Policy) -> CutPolicy | None:
        length = self.declared_max_length if max_length is None else max_length
        return None if length is None else CutPolicy(length, keep)

    def _template(self, members: int) -> Template:
        return self.template if members == 1 else self.pair_template

    def _pieces(self, row: int, text: str, reading: Reading) -> Pieces:
        ids = reading.ids[row]
        offsets = surfaces(text, ids, reading.offsets[row], self._marker_id)
        words = reading.words[row] if self._knows_words else words_by_space(text, offsets)
        return Pieces(ids, offsets, words)


def _rows(flat: list[Value], members: int) -> Iterator[tuple[Value, ...]]:
    """What lies column after column, row by row."""
    size = len(flat) // members
    return zip(*(flat[size * index : size * (index + 1)] for index in range(members)), strict=True)
