"""Tokenizer files of a model folder: reading any of the layouts, writing the common one.

`READERS` lists the layouts in order of preference; how an engine is made of bare vocabulary files
is in `vocabularies.py`. Names on the hub are resolved elsewhere (`checkpoints/`): here a source is
a folder. Written are tokenizer_config.json, special_tokens_map.json and tokenizer.json, and the
vocabulary files that were read are kept beside them. Where texts are rewritten before the engine
reads them (SentencePiece, Moses), tokenizer.json has no words for that and is not written: the
vocabulary files then say everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, normalizers

from bothways.errors import BothwaysError, TokenizerError
from bothways.files import Staged, read_json_object
from bothways.tokenization.aligned import LowerFirst, Prepare
from bothways.tokenization.moses import ends_words, moses_pieces
from bothways.tokenization.sentence_pieces import albert_pieces, deberta_pieces, fairseq_pieces
from bothways.tokenization.vocabularies import (
    Built,
    byte_level_pieces,
    is_cased,
    token_content,
    word_pieces,
)

logger = logging.getLogger(__name__)

ROLES = ("cls", "sep", "pad", "mask", "unk", "bos", "eos")
# Names by which special tokens are found where no file says which they are.
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "pad": ("[PAD]", "<pad>"),
    "mask": ("[MASK]", "<mask>"),
    "unk": ("[UNK]", "<unk>"),
}
NO_LIMIT = 1_000_000  # a larger model_max_length means "not set"
# Settings that are on or off. A text, such as "false", would count as on.
SWITCHES = (
    "do_lower_case",
    "do_lowercase",
    "strip_accents",
    "tokenize_chinese_chars",
    "add_prefix_space",
    "keep_accents",
    "remove_space",
    "split_by_punct",
)
# What a class of transformers that knows nothing of segments must be told to return.
INPUTS_WITH_TYPES = ("input_ids", "token_type_ids", "attention_mask")
_SWITCHED = (bool, type(None))
KEPT_FILES = (
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "added_tokens.json",
)


@dataclass(frozen=True)
class TokenizerFiles:
    """What the files of a folder say.

    Attributes:
        engine: without truncation and padding, whatever the file says.
        special_tokens: content by role (one of ROLES), as far as named.
        settings: the content of tokenizer_config.json.
        declared_max_length: pieces a text may have, special ones included; None when not said.
        kept: vocabulary files by name, to be written again.
        name: where they were read, for messages.
        prepare: how texts are rewritten before the engine reads them; None for not at all.
    """

    engine: Tokenizer
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    declared_max_length: int | None = None
    kept: Mapping[str, bytes] = field(default_factory=dict)
    name: str = "tokenizer"
    prepare: Prepare | None = None


def _tokenizer_json(folder: Path, settings: Mapping[str, Any]) -> Built:
    """The engine of tokenizer.json; its casing is checked against the settings."""
    path = folder / "tokenizer.json"
    try:
        engine = Tokenizer.from_buffer(path.read_bytes())
    except ValueError as error:
        raise TokenizerError(
            f"{path}: cannot be read ({error}); fetch the file again from the original checkpoint"
        ) from error
    stated = settings.get("do_lower_case")
    normalizer = engine.normalizer
    if isinstance(normalizer, normalizers.BertNormalizer) and stated is not None:
        lowercase = not is_cased(engine.get_vocab(with_added_tokens=False), stated, str(path))
        if lowercase != normalizer.lowercase:
            logger.warning(
                "%s: lower-cases: %s, but tokenizer_config.json says do_lower_case: %s; using %s",
                path,
                normalizer.lowercase,
                stated,
                lowercase,
            )
            normalizer.lowercase = lowercase
            engine.normalizer = normalizer
    return Built(engine)


def _merged_pieces(folder: Path, settings: Mapping[str, Any]) -> Built:
    """Two kinds of vocabulary have the same two files."""
    read = moses_pieces if ends_words(folder) else byte_level_pieces
    return read(folder, settings)


Reader = Callable[[Path, Mapping[str, Any]], Built]
READERS: tuple[tuple[tuple[str, ...], Reader], ...] = (
    (("tokenizer.json",), _tokenizer_json),
    (("vocab.txt",), word_pieces),
    (("vocab.json", "merges.txt"), _merged_pieces),
    (("sentencepiece.bpe.model",), fairseq_pieces),
    (("spiece.model",), albert_pieces),
    (("spm.model",), deberta_pieces),
)


def read_folder(folder: Path) -> TokenizerFiles:
    """Read the tokenizer of a model folder.

    Raises:
        TokenizerError: when there is none, or a file cannot be read.
    """
    settings = _object(folder / "tokenizer_config.json")
    for names, reader in READERS:
        if all((folder / name).is_file() for name in names):
            built = _read(reader, folder, names, settings)
            break
    else:
        raise TokenizerError(_nothing_found(folder))
    engine, prepare = built.engine, built.prepare
    if built.tokenizer_class:
        settings.setdefault("tokenizer_class", built.tokenizer_class)
    engine.no_truncation()
    engine.no_padding()
    sentence = _object(folder / "sentence_bert_config.json")
    if sentence.get("do_lower_case") is True:
        if prepare is not None:
            prepare = LowerFirst(prepare)
        else:
            before = [] if engine.normalizer is None else [engine.normalizer]
            engine.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
    named = {**built.special_tokens, **_special_tokens(_object(folder / "special_tokens_map.json"))}
    kept = {name: (folder / name).read_bytes() for name in KEPT_FILES if (folder / name).is_file()}
    return TokenizerFiles(
        engine,
        named | _special_tokens(settings),
        settings,
        _max_length(sentence, settings),
        kept,
        str(folder),
        prepare,
    )


def _read(reader: Reader, folder: Path, names: Sequence[str], settings: Mapping[str, Any]) -> Built:
    """What a reader makes of its files, with a reason where it can make nothing of them.

    Raises:
        TokenizerError: when a file is damaged in a way that no reader foresees.
    """
    wrong = {name: settings[name] for name in SWITCHES if type(settings.get(name)) not in _SWITCHED}
    if wrong:
        raise TokenizerError(
            f"{folder / 'tokenizer_config.json'}: expected true, false or null: {wrong}"
        )
    try:
        return reader(folder, settings)
    except BothwaysError:
        raise
    except Exception as error:  # the engine raises plain ones
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise TokenizerError(
            f"{folder}: {' or '.join(names)} is damaged ({reason}); "
            "fetch it again from the original checkpoint"
        ) from error


def complete_special_tokens(
    engine: Tokenizer, named: Mapping[str, str], template: tuple[int, ...]
) -> dict[str, str]:
    """Special tokens by role: those named that are in the vocabulary, and those that are evident.

    Unless named, cls and sep are the first and the last piece that the template adds, and the
    others have one of the usual names. What is named but not yet special becomes so in the engine.

    Args:
        engine: whose vocabulary counts.
        named: content by role.
        template: the special pieces around a single text, in order.
    """
    evident = dict(USUAL_NAMES)
    if template:
        evident["cls"] = (engine.id_to_token(template[0]) or "",)
        evident["sep"] = (engine.id_to_token(template[-1]) or "",)
    found = {}
    for role in ROLES:
        candidates = (named[role],) if role in named else evident.get(role, ())
        known = [name for name in candidates if engine.token_to_id(name) is not None]
        if known:
            found[role] = known[0]
    special = special_contents(engine)
    engine.add_special_tokens(
        [AddedToken(name, normalized=False) for name in found.values() if name not in special]
    )
    return found


def special_contents(engine: Tokenizer) -> dict[str, int]:
    """Special tokens of an engine with their ids."""
    decoder = engine.get_added_tokens_decoder()
    return {token.content: number for number, token in decoder.items() if token.special}


def stage_tokenizer(files: Staged, tokenizer: TokenizerFiles) -> None:
    """Write a tokenizer so that it, and transformers, can read it again.

    Args:
        files: the folder.
        tokenizer: the engine with its template, the special tokens and the settings to keep.
    """
    settings = dict(tokenizer.settings)
    normalizer = tokenizer.engine.normalizer
    if isinstance(normalizer, normalizers.BertNormalizer):
        settings |= {
            "do_lower_case": normalizer.lowercase,
            "strip_accents": normalizer.strip_accents,
            "tokenize_chinese_chars": normalizer.handle_chinese_chars,
        }
    if tokenizer.prepare is None:
        # The class of transformers that takes tokenizer.json as it stands.
        plain = settings.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
        if plain == "PreTrainedTokenizerFast" and _has_types(tokenizer.engine):
            settings.setdefault("model_input_names", list(INPUTS_WITH_TYPES))
        files.text("tokenizer.json", tokenizer.engine.to_str())
    else:
        files.remove("tokenizer.json")
    if tokenizer.declared_max_length is not None:
        settings["model_max_length"] = tokenizer.declared_max_length
    roles = {f"{role}_token": name for role, name in tokenizer.special_tokens.items()}
    for name, content in tokenizer.kept.items():
        files.bytes(name, content)
    files.json("tokenizer_config.json", settings | roles)
    files.json("special_tokens_map.json", roles)


def _has_types(engine: Tokenizer) -> bool:
    """Whether any piece of a pair is of another segment than the first."""
    return any(engine.encode("a", "a").type_ids)


def _object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty when there is no file."""
    return read_json_object(path) if path.is_file() else {}


def _nothing_found(folder: Path) -> str:
    layouts = ", or ".join(" with ".join(names) for names, _ in READERS)
    if not folder.is_dir():
        return f"{folder}: no such folder; expected a model folder with {layouts}"
    found = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
    return f"{folder}: no tokenizer; expected {layouts}; found {found}"


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """Special tokens by role, from `cls_token` and so on."""
    contents = {role: token_content(settings.get(f"{role}_token")) for role in ROLES}
    return {role: content for role, content in contents.items() if content is not None}


def _max_length(sentence: Mapping[str, Any], settings: Mapping[str, Any]) -> int | None:
    for value in (sentence.get("max_seq_length"), settings.get("model_max_length")):
        if isinstance(value, (int, float)) and 0 < value <= NO_LIMIT:
            return int(value)
    return None
