"""`Reader`: texts through the engine, as plain characters or with special tokens parsed.

Here: which copy of the engine reads a text, what a special token typed by a user becomes, and the
rows that cannot be read at all. Not here: the special pieces of the template, which are added by
`tokenizer.py`; the engine reads without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tokenizers

from bothways.errors import DataError, TokenizerError, UsageError
from bothways.tokenization.aligned import Aligned, Prepare, prepare_around
from bothways.tokenization.alignment import DroppedCharacters, Offset, words_by_space
from bothways.tokenization.encoding import SpecialInText

NUM_SHOWN = 10  # rows named in an error
SHOWN_CHARACTERS = 60  # of a text in an error
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Reading:
    """Texts as pieces, uncut and without special pieces.

    Attributes:
        ids: of each text.
        offsets: the engine's ranges of the pieces of each text; empty unless asked for.
        words: the engine's words of the pieces of each text; empty unless asked for.
        special_in_text: special tokens that were read as plain characters.
        dropped_characters: characters that left no trace.
    """

    ids: list[list[int]]
    offsets: list[list[Offset]]
    words: list[list[int | None]]
    special_in_text: int
    dropped_characters: int


class Reader:
    """Reads texts with an engine, which it takes over and changes.

    Args:
        engine: complete, with the checkpoint's post-processor.
        specials: special tokens and their ids.
        unk_id: what the engine gives for unknown characters, or None.
        prepare: how texts are rewritten before the engine reads them; None for not at all.
    """

    def __init__(
        self,
        engine: tokenizers.Tokenizer,
        specials: Mapping[str, int],
        unk_id: int | None,
        prepare: Prepare | None = None,
    ) -> None:
        self._processor = engine.post_processor
        # Some post-processors move offsets; the template is put around the pieces by ourselves.
        engine.post_processor = None
        engine.encode_special_tokens = True
        self.engine = engine
        self._prepare = prepare
        self._specials = {name: number for name, number in specials.items() if name}
        names = sorted(self._specials, key=len, reverse=True)
        self._first_characters = frozenset(name[0] for name in names)
        self._pattern = re.compile("|".join(re.escape(name) for name in names))
        self._template_ids = frozenset(self._specials.values()) - {unk_id}
        # Vocabularies from SentencePiece hold "<s>" as a piece, which typed characters can reach.
        self._leaks = any(map(self._reached, self._ids(names)))

    @cached_property
    def parsing(self) -> tokenizers.Tokenizer:
        """The engine as the checkpoint has it: special tokens in a text are parsed."""
        engine = tokenizers.Tokenizer.from_buffer(self.engine.to_str().encode())
        if self._processor is not None:
            engine.post_processor = self._processor
        return engine

    @cached_property
    def _literal(self) -> tokenizers.Tokenizer:
        """A copy that has other names for special pieces, so that no text can reach them."""
        content: dict[str, Any] = json.loads(self.engine.to_str())
        model = content["model"]
        vocabulary = model["vocab"]
        hidden = {name: f"\ue000{number}\ue001" for name, number in self._specials.items()}
        if isinstance(vocabulary, dict):
            own = vocabulary.keys() & hidden.keys()
            model["vocab"] = {hidden.get(name, name): index for name, index in vocabulary.items()}
        else:
            own = {name for name, _ in vocabulary} & hidden.keys()
            model["vocab"] = [[hidden.get(name, name), score] for name, score in vocabulary]
        if model.get("unk_token") in own:
            model["unk_token"] = hidden[model["unk_token"]]
        content["added_tokens"] = [
            token for token in content["added_tokens"] if token["content"] not in own
        ]
        engine = tokenizers.Tokenizer.from_buffer(json.dumps(content).encode())
        engine.encode_special_tokens = True
        return engine

    @cached_property
    def _dropped(self) -> DroppedCharacters:
        return DroppedCharacters(self._ids, self.engine if self._prepare is None else None)

    @cached_property
    def _apart(self) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
        """Added tokens, which divide a text: those that are not special, and all of them."""
        added = [t for t in self.engine.get_added_tokens_decoder().values() if not t.normalized]
        return _any_of(t.content for t in added if not t.special), _any_of(t.content for t in added)

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts whose special tokens are plain characters."""
        rewritten = self._rewrite([texts], texts, parse=False)
        given = texts if rewritten is None else [text.text for text in rewritten]
        return [each.ids for each in _encode(self.engine, [given], given, offsets=False)]

    def _rewrite(
        self, columns: Sequence[Sequence[str]], texts: Sequence[str], *, parse: bool
    ) -> list[Aligned] | None:
        """Texts as the engine reads them; None where it reads them as they are."""
        prepare = self._prepare
        if prepare is None:
            return None
        if any(map(SURROGATE.search, texts)):
            _check_rows(columns)
        return [prepare_around(text, prepare, self._apart[parse]) for text in texts]

    def read(
        self,
        columns: Sequence[Sequence[str]],
        *,
        special_tokens_in_text: SpecialInText = "text",
        offsets: bool = False,
        count_dropped: bool = True,
    ) -> Reading:
        """Pieces of texts, and after them those of their second members where there are pairs.

        Args:
            columns: the texts, and the second texts of pairs; equally many of each.
            special_tokens_in_text: what "[SEP]" typed in a text means.
            offsets: whether the engine keeps track of characters, which takes a fifth more time.
            count_dropped: whether to count characters without a trace, each of which is tried once.

        Raises:
            DataError: when a row is no text or holds a lone surrogate.
            TokenizerError: when a row holds a special token and these are refused.
            UsageError: when there are not as many second texts as texts.
        """
        if any(isinstance(column, str) for column in columns):
            raise UsageError("expected a list of texts and got one text; write [text]")
        if len({len(column) for column in columns}) > 1:
            raise UsageError(
                f"{len(columns[0])} texts with {len(columns[1])} second texts; "
                "expected as many of each"
            )
        texts = [text for column in columns for text in column]
        if set(map(type, texts)) - {str}:
            _check_rows(columns)
        parse = special_tokens_in_text == "parse"
        typed = {} if parse else dict(self._find_specials(texts))
        if typed and special_tokens_in_text == "refuse":
            raise TokenizerError(_refusal(columns, typed))
        engine = self.parsing if parse else self.engine
        rewritten = self._rewrite(columns, texts, parse=parse)
        given = texts if rewritten is None else [text.text for text in rewritten]
        encodings = _encode(engine, columns, given, offsets)
        ids = [encoding.ids for encoding in encodings]
        engines: dict[int, tokenizers.Tokenizer] = {}
        if self._leaks and not parse:
            for row in [
                row for row in range(len(texts)) if row in typed or self._reached(ids[row])
            ]:
                engines[row] = self._literal
                [encodings[row]] = _encode(self._literal, columns, [given[row]], offsets)
                ids[row] = encodings[row].ids
        num_dropped = sum(map(self._dropped.count, texts)) if count_dropped or offsets else 0
        ranges: list[list[Offset]] = []
        words: list[list[int | None]] = []
        if offsets and rewritten is not None:
            pairs = list(zip(rewritten, encodings, strict=True))
            words = [words_by_space(text.text, encoding.offsets) for text, encoding in pairs]
            ranges = [text.ranges(encoding.offsets) for text, encoding in pairs]
        elif offsets:
            words = [encoding.word_ids for encoding in encodings]
            ranges = [
                self._dropped.offsets(text, encoding, engines.get(row, engine))
                for row, (text, encoding) in enumerate(zip(texts, encodings, strict=True))
            ]
        return Reading(ids, ranges, words, sum(typed.values()), num_dropped)

    def _reached(self, ids: list[int]) -> bool:
        """Whether characters became a special piece."""
        return not self._template_ids.isdisjoint(ids)

    def _find_specials(self, texts: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Rows that hold special tokens as characters, with how many."""
        if not self._specials:
            return
        for row, text in enumerate(texts):
            if any(character in text for character in self._first_characters):
                count = sum(1 for _ in self._pattern.finditer(text))
                if count:
                    yield row, count


def _encode(
    engine: tokenizers.Tokenizer,
    columns: Sequence[Sequence[str]],
    texts: Sequence[str],
    offsets: bool,
) -> list[tokenizers.Encoding]:
    encode = engine.encode_batch if offsets else engine.encode_batch_fast
    try:
        return encode(texts, add_special_tokens=False)
    except (TypeError, UnicodeEncodeError):
        _check_rows(columns)  # the engine does not say which row it could not read
        raise


def _any_of(names: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _check_rows(columns: Sequence[Sequence[str]]) -> None:
    """Refuse rows that are no text or hold half a character, all of one kind at once.

    Raises:
        DataError: with row and position.
    """
    rows: list[tuple[str, object]] = [
        (f"row {row}" + " (second text)" * member, text)
        for member, column in enumerate(columns)
        for row, text in enumerate(column)
    ]
    wrong = [
        f"{place} is {type(text).__name__}" for place, text in rows if not isinstance(text, str)
    ]
    if wrong:
        raise DataError(
            f"{len(wrong)} of {len(rows)} rows are no text: {_some(wrong)}; expected str; "
            "leave empty rows out, or make them ''"
        )
    halves = [
        f"{place}, character {found.start()} (U+{ord(found.group()):04X})"
        for place, text in rows
        if (found := SURROGATE.search(str(text)))
    ]
    if halves:
        raise DataError(
            f"{len(halves)} of {len(rows)} rows hold a lone surrogate, half of a character: "
            f"{_some(halves)}; repair them with "
            "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
        )


def _refusal(columns: Sequence[Sequence[str]], typed: Mapping[int, int]) -> str:
    size = len(columns[0])
    texts = [text for column in columns for text in column]
    rows = [
        f"row {row % size}{' (second text)' if row >= size else ''}: "
        f"{texts[row][:SHOWN_CHARACTERS]!r}"
        for row in typed
    ]
    return (
        f"{len(rows)} texts hold special tokens of the tokenizer: {_some(rows)}; remove them, or "
        "read them as plain characters with special_tokens_in_text='text'"
    )


def _some(items: Sequence[str]) -> str:
    return "; ".join(items[:NUM_SHOWN]) + f"; and {len(items) - NUM_SHOWN} more" * (
        len(items) > NUM_SHOWN
    )
