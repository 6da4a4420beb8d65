"""Proof that a tokenizer gives the ids its model was trained on.

Two proofs: a *passport*, the ids of sample strings kept beside a saved model, and *golden ids* of
well-known vocabularies, recognised by a hash. Library releases have changed ids silently more than
once; a changed tokenizer is refused here instead of giving wrong numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bothways.errors import TokenizerError
from bothways.tokenization.samples import GOLDEN, GOLDEN_STRINGS, SAMPLES

if TYPE_CHECKING:
    from bothways.tokenization.tokenizer import Tokenizer

NUM_SHOWN = 3  # differences shown in an error


def make_passport(tokenizer: Tokenizer) -> dict[str, Any]:
    """The object "passport" of bothways.json: sample strings and their ids, template included."""
    return {"strings": list(SAMPLES), "ids": tokenizer.plain_ids(SAMPLES)}


def check_passport(tokenizer: Tokenizer, passport: Mapping[str, Any]) -> None:
    """Compare the ids of a passport's strings with what the tokenizer gives now.

    Raises:
        TokenizerError: when any differs, or the passport is not one.
    """
    strings, expected = passport.get("strings"), passport.get("ids")
    if not (
        isinstance(strings, list)
        and isinstance(expected, list)
        and len(strings) == len(expected)
        and all(isinstance(string, str) for string in strings)
        and all(isinstance(ids, list) for ids in expected)
    ):
        raise TokenizerError(
            f"{tokenizer.name}: the passport must hold lists 'strings' and 'ids' of one length, "
            "texts and lists of ids; take bothways.json from the original model, or delete its "
            "passport"
        )
    _compare(tokenizer, strings, tokenizer.plain_ids(strings), expected, "its model was saved with")


def check_golden(tokenizer: Tokenizer) -> None:
    """Compare with the ids that a well-known vocabulary must give; others pass.

    Raises:
        TokenizerError: when the vocabulary is known and any id differs.
    """
    for golden in GOLDEN:
        if golden.size == tokenizer.vocab_size and golden.sha256 == vocabulary_hash(tokenizer):
            ids = tokenizer.plain_ids(GOLDEN_STRINGS)
            owner = f"the vocabulary of {golden.name} gives"
            _compare(tokenizer, GOLDEN_STRINGS, ids, golden.ids, owner)


def vocabulary_hash(tokenizer: Tokenizer) -> str:
    """SHA-256 of the pieces in the order of their ids."""
    pieces = tokenizer.tokens(range(tokenizer.largest_id + 1))
    return hashlib.sha256(json.dumps(pieces).encode()).hexdigest()


def fingerprint(tokenizer: Tokenizer) -> str:
    """A hash that changes when the vocabulary, the template or the ids of any sample change.

    It says what the tokenizer does, not how a file describes it, so it is the same for every
    release of the engine that gives the same ids.
    """
    ids = make_passport(tokenizer)["ids"]
    pair, kinds, _ = tokenizer.encode_ids(["one"], ["two"], policy=None)
    content = json.dumps([vocabulary_hash(tokenizer), ids, pair, kinds])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _compare(
    tokenizer: Tokenizer,
    strings: Sequence[str],
    ids: Sequence[Sequence[int]],
    expected: Sequence[Sequence[int]],
    owner: str,
) -> None:
    wrong = [
        f"{string!r} -> {list(got)}, expected {list(want)}"
        for string, got, want in zip(strings, ids, expected, strict=True)
        if list(got) != list(want)
    ]
    if wrong:
        shown = "; ".join(wrong[:NUM_SHOWN])
        raise TokenizerError(
            f"{tokenizer.name}: {len(wrong)} of {len(strings)} sample strings do not get the ids "
            f"that {owner}: {shown}. The model would read other words than it was trained on; "
            "take the tokenizer files from the original checkpoint"
        )
