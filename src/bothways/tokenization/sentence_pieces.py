"""Engines made from SentencePiece model files, and the rewriting of texts that belongs to them.

One function a kind of file, as in `vocabularies.py`: XLM-R's and CamemBERT's with the ids of
fairseq, ALBERT's with its letters, DeBERTa's with bytes for what is unknown. Texts are rewritten
by the file's own rules (`charsmap.py`); the engine, Unigram or BPE, reads the result. Pieces that
no text may reach (control pieces, bytes) have a score so low that none does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram

from bothways.errors import MissingExtraError, TokenizerError
from bothways.files import read_json_object
from bothways.tokenization.aligned import NOT_ASCII, Aligned, Prepare, lower, plain_quotes
from bothways.tokenization.alignment import PREFIX_MARKER
from bothways.tokenization.charsmap import CharacterMap
from bothways.tokenization.vocabularies import Built, add_listed, token_content

# Types of pieces in a model file.
NORMAL, UNKNOWN, USER_DEFINED = 1, 2, 4
UNIGRAM, BYTE_PAIRS = 1, 2
# Below the worst real piece: further than any sum of scores along a word.
HIDDEN = 1_000.0
SYMBOL = -0.1  # of what the user of the trainer defined: better than any other piece
SPACES = re.compile(" {2,}")
WHITE_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class SentencePieceText:
    """How a model file rewrites a text before it is cut into pieces.

    Attributes:
        table: its rules for characters.
        prefix: whether a text begins with a space.
        trims: whether spaces at both ends go, and runs of them become one.
        symbols: what the user of the trainer defined, which stays as it is.
        before: what the family does first.
    """

    table: CharacterMap
    prefix: bool
    trims: bool
    symbols: tuple[str, ...] = ()
    before: tuple[Prepare, ...] = ()

    def __call__(self, text: Aligned) -> Aligned:
        """Rewrite a text."""
        for step in self.before:
            text = step(text)
        if not text.text:
            return text
        text = self._rewritten(text)
        if self.trims:
            end = len(text.text.rstrip(f" {PREFIX_MARKER}"))
            if end < len(text.text) or text.text[:1] == " ":
                text = text.part(0, end).strip(" ")
            if "  " in text.text:
                text = text.replace(SPACES, lambda _: " ")
        return text.after_space() if self.prefix and text.text else text

    def _rewritten(self, text: Aligned) -> Aligned:
        if self._verbatim is None:
            return text.edit(self.table.edits(text.text))
        parts = []
        place = 0
        for match in self._verbatim.finditer(text.text):
            plain = text.part(place, match.start())
            parts += [plain.edit(self.table.edits(plain.text)), text.part(*match.span())]
            place = match.end()
        rest = text.part(place, len(text.text))
        return Aligned.join([*parts, rest.edit(self.table.edits(rest.text))])

    @cached_property
    def _verbatim(self) -> re.Pattern[str] | None:
        longest_first = sorted(self.symbols, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first))) if self.symbols else None


def fairseq_pieces(folder: Path, settings: Mapping[str, Any]) -> Built:
    """XLM-R's or CamemBERT's tokenizer: the file's pieces after those of fairseq's dictionary.

    Raises:
        TokenizerError: when the file does not begin with <unk>, <s> and </s>.
        MissingExtraError: when sentencepiece or protobuf is not installed.
    """
    path = folder / "sentencepiece.bpe.model"
    model = _Model(path)
    first = model.pieces[:3]
    if first != ["<unk>", "<s>", "</s>"]:
        raise TokenizerError(
            f"{path}: begins with the pieces {', '.join(first)}; expected <unk>, <s>, </s>, from "
            "which the ids of XLM-R and CamemBERT are counted"
        )
    camembert = _is_camembert(folder, settings)
    if camembert:
        own = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"]
        kept = 1
    else:
        own, kept = ["<s>", "<pad>", "</s>", "<unk>"], 3
    names = ("<s>", "</s>", "<pad>", "<unk>", "<mask>")
    engine = model.engine(own, kept, ["<mask>"])
    engine.post_processor = _template(engine, "<s>", "</s>", doubled=True)
    # The space before a mask belongs to the mask, as in the published code.
    _add_specials(engine, {*names, *own}, spaced="<mask>")
    add_listed(engine, folder)
    family = "Camembert" if camembert else "XLMRoberta"
    return Built(engine, model.rewriting(), tokenizer_class=f"{family}Tokenizer")


def albert_pieces(folder: Path, settings: Mapping[str, Any]) -> Built:
    """ALBERT's tokenizer: lower-cased and without accents unless the settings say otherwise.

    A piece that ends in a digit and a comma is never used, so that numbers and commas stay apart;
    so do tokenizer.json and, by another way, the code published with the models.

    Raises:
        MissingExtraError: when sentencepiece or protobuf is not installed.
    """
    model = _Model(folder / "spiece.model")
    steps: list[Prepare] = [_single_spaces] if settings.get("remove_space", True) else []
    steps.append(plain_quotes)
    if not settings.get("keep_accents", False):
        steps.append(_without_accents)
    if settings.get("do_lower_case", True):
        steps.append(lower)
    model.unused = {piece for piece in model.pieces if piece[-1:] == "," and piece[-2:-1].isdigit()}
    built = _bracketed(model, folder, settings, steps, spaced=True)
    return replace(built, tokenizer_class="AlbertTokenizer")


def deberta_pieces(folder: Path, settings: Mapping[str, Any]) -> Built:
    """The tokenizer of DeBERTa v2, v3 and mDeBERTa.

    Raises:
        TokenizerError: when words are to be divided at punctuation.
        MissingExtraError: when sentencepiece or protobuf is not installed.
    """
    if settings.get("split_by_punct", False):
        raise TokenizerError(
            f"{folder}: tokenizer_config.json says split_by_punct: true, which no published model "
            "does and is not built here; set it to false if the model was trained so"
        )
    model = _Model(folder / "spm.model")
    steps: list[Prepare] = [lower] if settings.get("do_lower_case", False) else []
    built = _bracketed(model, folder, settings, steps, spaced=False)
    return replace(built, tokenizer_class="DebertaV2Tokenizer")


def _bracketed(
    model: _Model,
    folder: Path,
    settings: Mapping[str, Any],
    steps: Sequence[Prepare],
    *,
    spaced: bool,
) -> Built:
    """The file's own ids, and after them the special pieces that it lacks."""

    def named(role: str, usual: str) -> str:
        return token_content(settings.get(f"{role}_token")) or usual

    cls, sep, mask = named("cls", "[CLS]"), named("sep", "[SEP]"), named("mask", "[MASK]")
    pad = named("pad", "<pad>" if "<pad>" in model.pieces else "[PAD]")
    # In the order in which the published code adds them.
    absent = [name for name in (cls, sep, pad, mask) if name not in model.pieces]
    engine = model.engine([], 0, absent)
    engine.post_processor = _template(engine, cls, sep, doubled=False)
    unknown = model.pieces[model.unknown]
    _add_specials(engine, {cls, sep, pad, mask, unknown}, spaced=mask if spaced else None)
    add_listed(engine, folder)
    return Built(engine, model.rewriting(steps))


class _Model:
    """A model file.

    Args:
        path: of the file.

    Attributes:
        pieces: by their id in the file.
        unknown: id of the piece for what is unknown.
        unused: normal pieces that are not to be used.
    """

    def __init__(self, path: Path) -> None:
        try:
            messages: Any = import_module("google.protobuf.message")
            models: Any = import_module("sentencepiece.sentencepiece_model_pb2")
        except ImportError as error:
            library = "protobuf" if "google" in str(error) else "sentencepiece"
            raise MissingExtraError(library, "sentencepiece") from error
        self._path = path
        self._proto = models.ModelProto()
        try:
            self._proto.ParseFromString(path.read_bytes())
        except messages.DecodeError as error:
            raise TokenizerError(
                f"{path}: is no SentencePiece model ({error}); fetch the file again from the "
                "original checkpoint"
            ) from error
        self.pieces: list[str] = [piece.piece for piece in self._proto.pieces]
        self._types: list[int] = [piece.type for piece in self._proto.pieces]
        self.unused: set[str] = set()
        self._check()
        self.unknown = self._types.index(UNKNOWN)

    def _check(self) -> None:
        problems = []
        if UNKNOWN not in self._types:
            problems.append("it has no piece for what is unknown")
        if self._proto.trainer_spec.model_type not in (UNIGRAM, BYTE_PAIRS):
            problems.append("it cuts texts into words or characters; supported: unigram, bpe")
        if self._proto.trainer_spec.treat_whitespace_as_suffix:
            problems.append("it puts spaces at the end of words; supported: at their beginning")
        if not self._proto.normalizer_spec.escape_whitespaces:
            problems.append("its pieces hold spaces; supported: pieces with the mark of a space")
        if problems:
            raise TokenizerError(
                f"{self._path}: {'; '.join(problems)}. Take the tokenizer files from the original "
                "checkpoint"
            )

    def engine(self, before: Sequence[str], start: int, after: Sequence[str]) -> Tokenizer:
        """An engine over the pieces from `start`, with pieces of other files around them."""
        unknown = before.index("<unk>") if before else self.unknown - start
        middle = self._proto.pieces[start:]
        pieces = [*before, *(piece.piece for piece in middle), *after]
        fallback = self._proto.trainer_spec.byte_fallback
        if self._proto.trainer_spec.model_type == UNIGRAM:
            scores = self._scores()[start:]
            hidden = min(scores, default=0.0)
            around = [hidden] * len(before), [hidden] * len(after)
            rows = zip(pieces, [*around[0], *scores, *around[1]], strict=True)
            engine = Tokenizer(Unigram(list(rows), unknown, fallback))
        else:
            ids = {piece: index for index, piece in enumerate(pieces)}
            engine = Tokenizer(
                BPE(
                    ids,
                    self._merges(),
                    unk_token=pieces[unknown],
                    fuse_unk=True,
                    byte_fallback=fallback,
                )
            )
            # Read before all others and not rewritten; `normalized` says that they divide no text.
            engine.add_tokens([AddedToken(symbol, normalized=True) for symbol in self._symbols()])
        inner = any(PREFIX_MARKER in piece.lstrip(PREFIX_MARKER)[1:] for piece in self._normal())
        engine.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=not inner)
        steps = [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")]
        engine.decoder = decoders.Sequence(steps)
        return engine

    def rewriting(self, before: Iterable[Prepare] = ()) -> SentencePieceText:
        """How texts are rewritten first."""
        spec = self._proto.normalizer_spec
        return SentencePieceText(
            CharacterMap(spec.precompiled_charsmap),
            spec.add_dummy_prefix,
            spec.remove_extra_whitespaces,
            tuple(self._symbols()),
            tuple(before),
        )

    def _normal(self) -> list[str]:
        return [p for p, kind in zip(self.pieces, self._types, strict=True) if kind == NORMAL]

    def _symbols(self) -> list[str]:
        kinds = zip(self.pieces, self._types, strict=True)
        return [piece.replace(PREFIX_MARKER, " ") for piece, kind in kinds if kind == USER_DEFINED]

    def _scores(self) -> list[float]:
        """Scores as the file's own reader sees them."""
        normal = [p.score for p in self._proto.pieces if p.type == NORMAL]
        hidden = min(normal, default=0.0) - HIDDEN
        result = []
        for piece in self._proto.pieces:
            score = hidden
            if piece.type == USER_DEFINED:
                score = SYMBOL
            elif piece.type == NORMAL and piece.piece not in self.unused:
                score = piece.score
            result.append(score)
        return result

    def _merges(self) -> list[tuple[str, str]]:
        """Every way to make a piece of two others, the best piece first."""
        score = {p.piece: p.score for p in self._proto.pieces if p.type == NORMAL}
        merges = [
            (-score[piece], piece[:cut], piece[cut:])
            for piece in score
            for cut in range(1, len(piece))
            if piece[:cut] in score and piece[cut:] in score
        ]
        merges.sort(key=lambda merge: merge[0])
        return [(left, right) for _, left, right in merges]


def _is_camembert(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Which of the two families with the same files a folder is of."""
    named = settings.get("tokenizer_class")
    if not named and (folder / "config.json").is_file():
        named = read_json_object(folder / "config.json").get("model_type")
    return "camembert" in str(named or "").lower()


def _template(engine: Tokenizer, cls: str, sep: str, *, doubled: bool) -> Any:
    """One separator and segments between a pair, or two separators and no segments."""
    pair = f"{cls}:0 $A:0 {sep}:0 " + (f"{sep}:0 $B:0 {sep}:0" if doubled else f"$B:1 {sep}:1")
    return processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=pair,
        special_tokens=[(name, engine.token_to_id(name)) for name in (cls, sep)],
    )


def _add_specials(engine: Tokenizer, names: Iterable[str], *, spaced: str | None) -> None:
    engine.add_special_tokens(
        [AddedToken(name, lstrip=name == spaced, normalized=False) for name in sorted(names)]
    )


def _single_spaces(text: Aligned) -> Aligned:
    return text.strip().replace(WHITE_SPACE, lambda _: " ")


def _without_accents(text: Aligned) -> Aligned:
    """Letters taken apart (NFKD) and their marks left out."""
    return text.replace(NOT_ASCII, lambda match: _bare(match.group()))


def _bare(character: str) -> str:
    apart = unicodedata.normalize("NFKD", character)
    return "".join(part for part in apart if not unicodedata.combining(part))
