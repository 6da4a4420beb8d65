"""Engines made from bare vocabulary files, for folders that have no tokenizer.json.

One function a kind of vocabulary, each `(folder, settings) -> Built` with the same pipeline as the
published code of that kind; `files.py` lists them by the files they need. `settings` is the content
of tokenizer_config.json, empty where there is none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, WordPiece

from bothways.errors import TokenizerError
from bothways.tokenization.aligned import Prepare

logger = logging.getLogger(__name__)

# A vocabulary is cased when at least one piece in this many holds a capital. The real cased BERT
# has one in four and the uncased one none; a few pieces added by hand do not make it cased.
PIECES_PER_CAPITAL = 200
MAX_CHARACTERS_PER_WORD = 100  # longer words are unknown, as in the published code
BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


@dataclass(frozen=True)
class Built:
    """What vocabulary files make.

    Attributes:
        engine: with template and special tokens.
        prepare: how texts are rewritten before the engine reads them; None for not at all.
        special_tokens: content by role, where it is not evident from the engine.
        tokenizer_class: of transformers, where the files do not say it; None for any.
    """

    engine: Tokenizer
    prepare: Prepare | None = None
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    tokenizer_class: str | None = None


def is_cased(pieces: Iterable[str], stated: bool | None, place: str) -> bool:
    """Whether a vocabulary tells capitals from small letters.

    Args:
        pieces: the vocabulary; bracketed ones ([CLS]) do not count.
        stated: `do_lower_case` of the settings, or None.
        place: where the vocabulary lies, for the warning.
    """
    words = [piece for piece in pieces if not (piece.startswith("[") and piece.endswith("]"))]
    capitals = sum(piece != piece.lower() for piece in words)
    holds_capitals = capitals * PIECES_PER_CAPITAL >= len(words) > 0
    if stated is None:
        return holds_capitals
    if stated and holds_capitals:
        logger.warning(
            "%s: do_lower_case is true, but %d of %d pieces hold capitals, which lower-cased "
            "text never reaches; reading it as cased",
            place,
            capitals,
            len(words),
        )
        return True
    return not stated


def token_content(token: object) -> str | None:
    """The text of a special token, which files give as a string or an object."""
    content = token.get("content") if isinstance(token, Mapping) else token
    return content if isinstance(content, str) else None


def word_pieces(folder: Path, settings: Mapping[str, Any]) -> Built:
    """BERT's tokenizer from vocab.txt (Devlin et al. 2019), cased where its pieces are.

    Raises:
        TokenizerError: when the file is not text or lacks [CLS] or [SEP].
    """
    path = folder / "vocab.txt"
    vocabulary = _lines(path)
    unknown = token_content(settings.get("unk_token")) or "[UNK]"
    cls = token_content(settings.get("cls_token")) or "[CLS]"
    sep = token_content(settings.get("sep_token")) or "[SEP]"
    _require(vocabulary, (cls, sep, unknown), path)
    engine = Tokenizer(
        WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=MAX_CHARACTERS_PER_WORD)
    )
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=not is_cased(vocabulary, settings.get("do_lower_case"), str(path)),
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    engine.decoder = decoders.WordPiece(prefix="##")
    add_listed(engine, folder)
    engine.add_special_tokens([piece for piece in BERT_SPECIALS if piece in vocabulary])
    return Built(engine)


def byte_level_pieces(folder: Path, settings: Mapping[str, Any]) -> Built:
    """Byte-level BPE from vocab.json and merges.txt: RoBERTa's, or DeBERTa's where it has [CLS].

    Raises:
        TokenizerError: when a file cannot be read or special pieces are missing.
    """
    path = folder / "vocab.json"
    try:
        vocabulary: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
        lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    except ValueError as error:
        raise TokenizerError(
            f"{folder}: vocab.json or merges.txt cannot be read: {error}; fetch them again"
        ) from error
    pairs = [line.split(" ", 1) for line in lines if line and not line.startswith("#version")]
    prefix_space = bool(settings.get("add_prefix_space", False))
    names = BERT_SPECIALS if "[CLS]" in vocabulary else ROBERTA_SPECIALS
    _require(vocabulary, [name for name in names if "pad" not in name.lower()], path)
    engine = Tokenizer(BPE(vocabulary, [(left, right) for left, right in pairs]))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    engine.decoder = decoders.ByteLevel()
    if names is BERT_SPECIALS:
        engine.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
        )
    else:
        engine.post_processor = processors.RobertaProcessing(
            ("</s>", vocabulary["</s>"]),
            ("<s>", vocabulary["<s>"]),
            add_prefix_space=prefix_space,
        )
    add_listed(engine, folder)
    # The space before a mask belongs to the mask, as in the published code.
    engine.add_special_tokens(
        [
            AddedToken(name, lstrip="mask" in name.lower(), normalized=False)
            for name in names
            if name in vocabulary
        ]
    )
    return Built(engine)


def _lines(path: Path) -> dict[str, int]:
    """A vocabulary of one piece a line, the first with id 0."""
    try:
        with path.open(encoding="utf-8") as file:
            return {line.rstrip("\n"): index for index, line in enumerate(file)}
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"{path}: not UTF-8 text ({error.reason} at byte {error.start}); "
            "take the file from the original checkpoint"
        ) from error


def _require(vocabulary: Mapping[str, int], names: Iterable[str], path: Path) -> None:
    missing = [name for name in names if name not in vocabulary]
    if missing:
        raise TokenizerError(
            f"{path}: {len(vocabulary)} pieces, but not {', '.join(missing)}; is this the "
            "vocabulary of an encoder? name its special tokens in tokenizer_config.json"
        )


def add_listed(engine: Tokenizer, folder: Path) -> None:
    """Add the pieces of added_tokens.json, whose ids must follow the vocabulary."""
    path = folder / "added_tokens.json"
    if not path.exists():
        return
    listed: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    for piece, number in sorted(listed.items(), key=lambda item: item[1]):
        engine.add_tokens([AddedToken(piece, normalized=False)])
        if engine.token_to_id(piece) != number:
            raise TokenizerError(
                f"{path}: {piece!r} has id {number}, but the vocabulary leaves "
                f"{engine.token_to_id(piece)} for it; ids must follow on without a gap"
            )
