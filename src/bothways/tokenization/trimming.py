"""A smaller vocabulary that reads some texts as before: the pieces they use, and few others.

Kept besides are special and added pieces, what a kept piece is merged from, and every letter of the
kept pieces by itself, so that other words of the same letters can still be spelled. Ids close up in
their order. What becomes of a model's tables is in `training/student.py`.
"""

from __future__ import annotations

import json
import re
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Engine

from bothways.files import Staged
from bothways.tokenization.aligned import LowerFirst
from bothways.tokenization.alignment import PREFIX_MARKER
from bothways.tokenization.files import TokenizerFiles, read_folder, stage_tokenizer
from bothways.tokenization.moses import WORD_END
from bothways.tokenization.sentence_pieces import BYTE_PAIRS, NORMAL
from bothways.tokenization.tokenizer import Tokenizer

CONTINUED = "##"
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def trimmed(tokenizer: Tokenizer, used: Iterable[int]) -> tuple[Tokenizer, list[int]]:
    """A tokenizer over fewer pieces.

    Args:
        tokenizer: stays as it is.
        used: ids that shall stay.

    Returns:
        The new tokenizer, and for each of its ids the old one.

    Example:
        >>> small, rows = trimmed(tokenizer, set(tokenizer.encode("a film").ids))  # doctest: +SKIP
        >>> [rows[index] for index in small.encode("a film").ids]  # doctest: +SKIP
        [101, 1037, 2143, 102]
    """
    _, (files,) = tokenizer.__reduce__()
    content = json.loads(files.engine.to_str())
    vocabulary = tokenizer.vocabulary()
    keep = set(tokenizer.tokens(used)) | {token["content"] for token in content["added_tokens"]}
    keep |= _letters(vocabulary, keep, all_of_them="ByteLevel" in json.dumps(content))
    if files.prepare is None:
        engine = Engine.from_str(json.dumps(_trimmed_engine(content, keep)))
        made = replace(files, engine=engine, kept={})
    else:
        made = _trimmed_files(files, keep, vocabulary)
    small = Tokenizer(made)
    pieces = sorted(small.vocabulary().items(), key=lambda item: item[1])
    return small, [vocabulary[piece] for piece, _ in pieces]


def _letters(pieces: Iterable[str], keep: Iterable[str], *, all_of_them: bool) -> set[str]:
    """Pieces of one letter that kept pieces have, and of one byte."""
    seen = set("".join(keep))
    bare = {
        piece: piece.removeprefix(CONTINUED).removeprefix(PREFIX_MARKER).removesuffix(WORD_END)
        for piece in pieces
    }
    return {
        piece
        for piece, letter in bare.items()
        if (len(letter) <= 1 and (all_of_them or seen.issuperset(letter))) or _BYTE.fullmatch(piece)
    }


def _trimmed_engine(content: dict[str, Any], keep: set[str]) -> dict[str, Any]:
    """The content of a tokenizer.json over the kept pieces."""
    model = content["model"]
    rows = model["vocab"]
    if isinstance(rows, list):  # pieces with scores
        lowest = min(score for _, score in rows)  # decides what an unknown letter costs
        unknown = rows[model["unk_id"]][0]
        model["vocab"] = [row for row in rows if row[0] in keep or row[1] == lowest]
        numbers = {piece: number for number, (piece, _) in enumerate(model["vocab"])}
        model["unk_id"] = numbers[unknown]
    else:
        prefix = model.get("continuing_subword_prefix") or ""
        if "merges" in model:
            model["merges"] = _needed_merges(model["merges"], keep, prefix)
        kept = [piece for piece in sorted(rows, key=rows.__getitem__) if piece in keep]
        model["vocab"] = numbers = {piece: number for number, piece in enumerate(kept)}
    for token in sorted(content["added_tokens"], key=lambda token: token["id"]):
        token["id"] = numbers.setdefault(token["content"], len(numbers))
    content["post_processor"] = _renumbered(content["post_processor"], numbers)
    return content


def _needed_merges(
    merges: Sequence[Sequence[str]], keep: set[str], prefix: str = ""
) -> list[Sequence[str]]:
    """The merges that make kept pieces; what they are made of is kept too.

    A merge within a piece happens as it would if the piece stood alone, so no other is needed.
    """
    made = [(pair, pair[0] + pair[1].removeprefix(prefix)) for pair in merges]
    before = -1
    while before != len(keep):
        before = len(keep)
        for pair, piece in reversed(made):
            if piece in keep:
                keep.update(pair)
    return [pair for pair, piece in made if piece in keep]


def _renumbered(node: Any, numbers: Mapping[str, int]) -> Any:
    """A template with the new ids of the pieces that it names."""
    match node:
        case {"ids": _, "tokens": names}:
            return node | {"ids": [numbers[name] for name in names]}
        case dict():
            return {key: _renumbered(value, numbers) for key, value in node.items()}
        case [str(name), int()]:
            return [name, numbers[name]]
        case list():
            return [_renumbered(value, numbers) for value in node]
    return node


def _trimmed_files(
    files: TokenizerFiles, keep: set[str], vocabulary: Mapping[str, int]
) -> TokenizerFiles:
    """The same from vocabulary files, for what tokenizer.json has no words for."""
    kept = dict(files.kept)
    for name, content in files.kept.items():
        if name.endswith(".model"):
            kept[name] = _trimmed_model(content, keep)
        elif name == "merges.txt":
            lines = content.decode().split("\n")
            merges = [tuple(line.split()[:2]) for line in lines if len(line.split()) > 1]
            # Steps on the way to a piece need not be pieces themselves.
            needed = set(_needed_merges(merges, set(keep)))
            kept[name] = "\n".join(
                line for line in lines if tuple(line.split()[:2]) in needed
            ).encode()
    if "vocab.json" in kept:
        pieces = sorted(keep & vocabulary.keys(), key=vocabulary.__getitem__)
        kept["vocab.json"] = json.dumps({piece: id_ for id_, piece in enumerate(pieces)}).encode()
    if "added_tokens.json" in kept:
        listed: dict[str, int] = json.loads(kept["added_tokens.json"])
        old = sorted(vocabulary[piece] for piece in keep & vocabulary.keys())
        moved = {piece: bisect_left(old, number) for piece, number in listed.items()}
        kept["added_tokens.json"] = json.dumps(moved).encode()
    with tempfile.TemporaryDirectory() as place:
        with Staged(Path(place)) as staged:
            stage_tokenizer(staged, replace(files, kept=kept))
        made = read_folder(Path(place))
    prepare = made.prepare
    if isinstance(files.prepare, LowerFirst) and prepare is not None:
        prepare = LowerFirst(prepare)
    return replace(files, engine=made.engine, prepare=prepare, kept=kept)


def _trimmed_model(content: bytes, keep: set[str]) -> bytes:
    """A SentencePiece file over the kept pieces, which gain those that it cannot do without."""
    model: Any = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    model.ParseFromString(content)
    normal = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    lowest = min(normal.values(), default=0.0)  # decides what an unknown letter costs
    keep.update(piece for piece, score in normal.items() if score == lowest)
    if model.trainer_spec.model_type == BYTE_PAIRS:
        pairs = [
            (piece[:cut], piece[cut:])
            for piece in sorted(normal, key=len)
            for cut in range(1, len(piece))
            if piece[:cut] in normal and piece[cut:] in normal
        ]
        _needed_merges(pairs, keep)
    made = type(model)()
    made.CopyFrom(model)
    del made.pieces[:]
    made.pieces.extend(p for p in model.pieces if p.type != NORMAL or p.piece in keep)
    made.trainer_spec.vocab_size = len(made.pieces)
    serialised: bytes = made.SerializeToString()
    return serialised
