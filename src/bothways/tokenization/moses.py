"""FlauBERT's tokenizer: Moses' words, then pairs of characters merged within each word.

Published as vocab.json and merges.txt, whose pieces end in "</w>" where a word ends (Sennrich et
al. 2016; Koehn et al. 2007 for Moses). The words come from sacremoses; the rules by which Moses
rewrites punctuation are applied here one by one, so that every piece keeps its place in the
caller's text. The engine only looks pieces up: what it reads are pieces that are already cut.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import WordLevel

from bothways.errors import MissingExtraError, TokenizerError
from bothways.tokenization.aligned import Aligned, compose, lower, plain_quotes
from bothways.tokenization.vocabularies import Built, add_listed, token_content

if TYPE_CHECKING:
    from types import ModuleType

LANGUAGE = "fr"
WORD_END = "</w>"
# Between the pieces of a word; a character that Moses' rules remove from every text.
JOINT = "\u2060"
# Of the lines of merges.txt, one in so many at least makes the end of a word in such a vocabulary.
LINES_PER_WORD_END = 20
SPECIALS = {
    "bos": "<s>",
    "cls": "</s>",
    "sep": "</s>",
    "pad": "<pad>",
    "unk": "<unk>",
    "mask": "<special1>",
}


def ends_words(folder: Path) -> bool:
    """Whether merges.txt is of a vocabulary that marks the ends of words."""
    content = (folder / "merges.txt").read_bytes()
    return content.count(WORD_END.encode()) * LINES_PER_WORD_END > content.count(b"\n")


def moses_pieces(folder: Path, settings: Mapping[str, Any]) -> Built:
    """FlauBERT's tokenizer; it lower-cases where the settings say `do_lowercase`.

    The mask is <special1> unless tokenizer_config.json names another, whatever config.json says
    of `mask_token_id`.

    Raises:
        TokenizerError: when a file cannot be read or special pieces are missing.
        MissingExtraError: when sacremoses is not installed.
    """
    _sacremoses()
    try:
        vocabulary: dict[str, int] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    except ValueError as error:
        raise TokenizerError(
            f"{folder}: vocab.json or merges.txt cannot be read: {error}; fetch them again"
        ) from error
    named = {role: token_content(settings.get(f"{role}_token")) for role in SPECIALS}
    roles = {role: named[role] or usual for role, usual in SPECIALS.items()}
    missing = sorted({name for name in roles.values() if name not in vocabulary})
    if missing:
        raise TokenizerError(
            f"{folder}/vocab.json: {len(vocabulary)} pieces, but not {', '.join(missing)}; is this "
            "the vocabulary of an encoder? name its special tokens in tokenizer_config.json"
        )
    engine = Tokenizer(WordLevel(vocabulary, roles["unk"]))
    engine.pre_tokenizer = pre_tokenizers.Split(Regex(f"[ {JOINT}]"), "removed")
    engine.decoder = decoders.BPEDecoder(suffix=WORD_END)
    first, last = roles["bos"], roles["sep"]
    engine.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B {last}",
        special_tokens=[(name, vocabulary[name]) for name in (first, last)],
    )
    numbered = [name for name in vocabulary if re.fullmatch(r"<special\d+>", name)]
    specials = sorted({*roles.values(), *numbered}, key=vocabulary.__getitem__)
    engine.add_special_tokens([AddedToken(name, normalized=False) for name in specials])
    add_listed(engine, folder)
    # The third column, where there is one, says how often a pair was seen.
    merges = [(pair[0], pair[1]) for line in lines if len(pair := line.split()) > 1]
    prepare = MosesText(merges, bool(settings.get("do_lowercase", False)))
    return Built(engine, prepare, roles, "FlaubertTokenizer")


@dataclass(frozen=True)
class MosesText:
    """A text as pieces, divided by spaces between words and by a joint within them.

    Attributes:
        merges: pairs of pieces, those to merge first before the others.
        lowers: whether capitals become small letters.
    """

    merges: Sequence[tuple[str, str]]
    lowers: bool

    def __reduce__(self) -> tuple[type[MosesText], tuple[Sequence[tuple[str, str]], bool]]:
        """Pickled without what it has found out."""
        return MosesText, (self.merges, self.lowers)

    def __call__(self, text: Aligned) -> Aligned:
        """Rewrite a text."""
        text = compose(plain_quotes(text))
        if self.lowers:
            text = lower(text)
        for pattern, new in self._rules:
            text = text.replace(pattern, new)
        text = text.strip()
        text = text.edit(
            (place, place + 1, "")
            for place, character in enumerate(text.text)
            if unicodedata.category(character)[0] == "C"
        )
        words = self._words.tokenize(text.text, return_str=False, escape=False)
        return _cut(text, words, map(self._pieces, words))

    @cached_property
    def _words(self) -> Any:
        return _sacremoses().MosesTokenizer(lang=LANGUAGE)

    @cached_property
    def _rules(self) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
        normalizer = _sacremoses().MosesPunctNormalizer(lang=LANGUAGE)
        rules = [*normalizer.REPLACE_UNICODE_PUNCTUATION, *normalizer.substitutions]
        return [(re.compile(pattern), _replacing(new)) for pattern, new in rules]

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(self.merges)}

    @cached_property
    def _known(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _pieces(self, word: str) -> tuple[str, ...]:
        """The pieces of a word, remembered."""
        if word not in self._known:
            self._known[word] = merge_pairs([*word[:-1], word[-1] + WORD_END], self._ranks)
        return self._known[word]


def merge_pairs(pieces: Sequence[str], ranks: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    """Merge neighbours, at each step the pair of lowest rank wherever it stands.

    Example:
        >>> merge_pairs(["l", "e", "s</w>"], {("e", "s</w>"): 0})
        ('l', 'es</w>')
    """
    while len(pieces) > 1:
        best = min(pairwise(pieces), key=lambda pair: ranks.get(pair, len(ranks)))
        if best not in ranks:
            break
        merged: list[str] = []
        index = 0
        while index < len(pieces):
            together = tuple(pieces[index : index + 2]) == best
            merged.append("".join(best) if together else pieces[index])
            index += 2 if together else 1
        pieces = merged
    return tuple(pieces)


def _replacing(template: str) -> Callable[[re.Match[str]], str]:
    """A replacement as `re.sub` takes it, with or without groups."""
    return methodcaller("expand", template) if "\\" in template else lambda _: template


def _cut(text: Aligned, words: Sequence[str], pieces: Iterable[tuple[str, ...]]) -> Aligned:
    """The pieces of words that were found in a text."""
    letters = Aligned.join(
        text.part(match.start(), match.end()) for match in re.finditer(r"\S+", text.text)
    )
    found = "".join(words)
    if letters.text != found:
        # Moses takes letters of its own marks ("DOTMULTI") for dots.
        matcher = SequenceMatcher(None, letters.text, found, autojunk=False)
        letters = letters.edit(
            (start, stop, found[first:last])
            for _, start, stop, first, last in matcher.get_opcodes()
        )
    text_pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []

    def mark(characters: str, place: int) -> None:
        """Characters that stand for none."""
        text_pieces.append(characters)
        starts.extend([place] * len(characters))
        ends.extend([place] * len(characters))

    place = 0
    for parted in pieces:
        for index, piece in enumerate(parted):
            if place:
                mark(JOINT if index else " ", letters.starts[place])
            stop = place + len(piece) - len(WORD_END) * (index == len(parted) - 1)
            text_pieces.append(found[place:stop])
            starts += letters.starts[place:stop]
            ends += letters.ends[place:stop]
            place = stop
        mark(WORD_END, ends[-1])
    return Aligned("".join(text_pieces), starts, ends)


def _sacremoses() -> ModuleType:
    try:
        import sacremoses
    except ImportError as error:
        raise MissingExtraError("sacremoses", "flaubert") from error
    module: ModuleType = sacremoses
    return module
