"""Smaller models cut out of larger ones: some of the layers, some of the vocabulary.

Nothing is trained here; a student that starts so learns from its teacher in `distill.py`. What
becomes of a tokenizer is in `tokenization/trimming.py`.

Source: Sanh et al. 2019 (layers of the teacher as the start); Sajjad et al. 2023 (dropping layers);
Abdaoui et al. 2020 (fewer words).
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

from bothways.checkpoints.empty import without_memory
from bothways.checkpoints.parts import Parts
from bothways.errors import ConfigError, TokenizerError, UsageError
from bothways.model.encoder import Encoder
from bothways.tokenization.tokenizer import Tokenizer
from bothways.tokenization.trimming import trimmed
from bothways.training.networks import with_tables

# Reads texts with a tokenizer: the ids of one after another, as the model will be given them.
ReadIds = Callable[[Tokenizer], Iterator[Sequence[int]]]
_LAYER = re.compile(r"layers\.(\d+)\.(.+)")
# What keys of config.json that hold an id end in.
_ID_KEY = re.compile(r"_(token_id|index)$")


def evenly_spaced(num_layers: int, count: int) -> tuple[int, ...]:
    """So many layers at even distances, the first among them.

    Raises:
        UsageError: when there are not so many.

    Example:
        >>> evenly_spaced(6, 2)
        (0, 3)
    """
    if not 1 <= count <= num_layers:
        raise UsageError(f"--student-layers is {count}; the teacher has {num_layers} layers")
    return tuple(index * num_layers // count for index in range(count))


def with_layers(parts: Parts, layers: Sequence[int]) -> Parts:
    """The same model with some of its layers only, in memory of its own.

    Embeddings, norms, pooler and head stay. Where layers share weights, a text passes through them
    as often as layers are kept.

    Args:
        parts: a model.
        layers: numbers of those that stay, from 0, increasing.

    Raises:
        UsageError: for layers that there are not, or that the encoder cannot do without.
    """
    config, kinds = parts.config, parts.config.attention.layer_kinds
    order, wanted = config.block_order, list(layers)
    if not wanted or sorted(set(wanted) & set(range(config.num_layers))) != wanted:
        raise UsageError(
            f"--keep-layers is {_listed(wanted)}; expected increasing numbers from 0 to "
            f"{config.num_layers - 1}"
        )
    if config.norm.skip_first and wanted[0] != 0:
        raise UsageError(
            f"--keep-layers is {_listed(wanted)}; layer 0 of this encoder is made to be the first, "
            "so it must be among them"
        )
    blocks = list(dict.fromkeys(block for layer in wanted for block in order[layer]))
    attention = dataclasses.replace(
        config.attention, layer_kinds=tuple(kinds[layer] for layer in wanted) if kinds else ()
    )
    groups = len(blocks) // config.layers_per_group if config.num_layer_groups else 0
    try:
        smaller = dataclasses.replace(
            config, num_layers=len(wanted), num_layer_groups=groups, attention=attention
        )
    except ConfigError:
        smaller = config
    if [[blocks.index(block) for block in order[layer]] for layer in wanted] != [
        list(inner) for inner in smaller.block_order
    ]:
        raise UsageError(
            f"--keep-layers is {_listed(wanted)}; layers of this encoder share their weights in "
            f"{config.num_layer_groups} groups, and equally many of each group must stay"
        )
    whole, head = copy.deepcopy((parts.encoder, parts.head))
    state = dict(whole.state_dict(keep_vars=True))
    for name in list(state):
        found = _LAYER.fullmatch(name)
        if found:
            value, old = state.pop(name), int(found[1])
            if old in blocks:
                state[f"layers.{blocks.index(old)}.{found[2]}"] = value
    with without_memory():
        encoder = Encoder(smaller)
    encoder.load_state_dict(state, assign=True)
    return dataclasses.replace(parts, encoder=encoder.eval(), head=head)


def with_fewer_words(parts: Parts, read: ReadIds) -> Parts:
    """The same model over the pieces of some texts, which it reads as before.

    Args:
        parts: with a tokenizer.
        read: the texts.

    Raises:
        TokenizerError: when the texts would not be read as before.
    """
    tokenizer = parts.tokenizer
    assert tokenizer is not None
    used = {piece for ids in read(tokenizer) for piece in ids}
    small, rows = trimmed(tokenizer, used)
    for number, (before, after) in enumerate(zip(read(tokenizer), read(small), strict=True)):
        if [rows[piece] for piece in after] != list(before):
            raise TokenizerError(
                f"text {number + 1} of --keep-words-from would be read otherwise over fewer pieces "
                f"({' '.join(small.tokens(after)[:20])} and not "
                f"{' '.join(tokenizer.tokens(before)[:20])}), so the vocabulary is left as it is; "
                "leave that text out"
            )
    number_of = {old: new for new, old in enumerate(rows)}
    embeddings = parts.config.embeddings
    pad_id = None if embeddings.pad_id is None else number_of.get(embeddings.pad_id)
    if embeddings.position_start and pad_id != embeddings.pad_id:
        raise TokenizerError(
            f"positions of this model are counted from the padding id {embeddings.pad_id}, and "
            f"over fewer pieces it would be {pad_id}; this vocabulary cannot be made smaller"
        )
    config = dataclasses.replace(
        parts.config,
        embeddings=dataclasses.replace(embeddings, vocab_size=len(rows), pad_id=pad_id),
    )
    raw = {
        key: number_of.get(value) if _ID_KEY.search(key) and isinstance(value, int) else value
        for key, value in parts.raw.items()
    }
    made = with_tables(parts, small, config, lambda table: table[rows].clone())
    return dataclasses.replace(made, raw=raw)


def _listed(layers: Sequence[int]) -> str:
    return ",".join(map(str, layers)) or "empty"
