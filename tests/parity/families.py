"""The models of transformers that ours are compared with: one row a configuration.

A new family adds rows to `ROWS`; its heads come from its `FamilySpec`. Each row is another point
of the family's axes, and no size equals another, so that nothing is right by luck.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts
from bothways.families.names import NameTable, Slot
from bothways.families.registry import FAMILIES
from bothways.families.spec import HeadKind
from tests.parity.deberta_rows import DEBERTA_ROWS
from tests.parity.modernbert_rows import MODERNBERT_ROWS

# Spread of all weights, biases and norms: attention is far from uniform, activations bend.
SPREAD = 0.15
NUM_LABELS = 3


@dataclass(frozen=True)
class Row:
    """A configuration of a family.

    Attributes:
        model_type: the family's word in config.json.
        name: what is special about it.
        keys: its config.json, beyond the transformers defaults.
    """

    model_type: str
    name: str
    keys: Mapping[str, Any]


def _row(model_type: str, name: str, base: Mapping[str, Any], **keys: Any) -> Row:
    return Row(model_type, name, {**base, **keys})


_BERT: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 18,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}

_ROBERTA: dict[str, Any] = {
    **_BERT,
    "max_position_embeddings": 20,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
}
_DISTILBERT: dict[str, Any] = {
    "vocab_size": 61,
    "dim": 24,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 37,
    "max_position_embeddings": 18,
}
_ALBERT: dict[str, Any] = {
    **_BERT,
    "embedding_size": 10,
    "num_hidden_layers": 4,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
}
_ELECTRA: dict[str, Any] = {**_BERT, "embedding_size": 16}
_FLAUBERT: dict[str, Any] = {
    "vocab_size": 61,
    "emb_dim": 24,
    "n_layers": 2,
    "n_heads": 3,
    "max_position_embeddings": 18,
}

ROWS: list[Row] = [
    _row("bert", "usual", _BERT),
    _row("bert", "gelu_new", _BERT, hidden_act="gelu_new", num_hidden_layers=3),
    _row("bert", "relu", _BERT, hidden_act="relu", layer_norm_eps=1e-2),
    _row("bert", "silu", _BERT, hidden_act="silu", vocab_size=11, num_attention_heads=1),
    _row("bert", "one-type", _BERT, type_vocab_size=1, pad_token_id=7),
    _row("bert", "wide", _BERT, hidden_size=40, num_attention_heads=8, type_vocab_size=4),
    _row("roberta", "usual", _ROBERTA),
    _row("roberta", "other-padding", _ROBERTA, pad_token_id=3, hidden_act="relu"),
    _row(
        "roberta",
        "padding-0",
        _ROBERTA,
        pad_token_id=0,
        type_vocab_size=3,
        hidden_size=40,
        num_attention_heads=8,
        num_hidden_layers=1,
    ),
    _row("xlm-roberta", "usual", _ROBERTA, num_attention_heads=4),
    _row("camembert", "usual", _ROBERTA, layer_norm_eps=1e-3),
    _row("distilbert", "usual", _DISTILBERT),
    _row("distilbert", "sinusoidal", _DISTILBERT, sinusoidal_pos_embds=True, activation="relu"),
    _row(
        "distilbert",
        "gelu_new",
        _DISTILBERT,
        activation="gelu_new",
        n_layers=3,
        n_heads=4,
        vocab_size=13,
        pad_token_id=6,
    ),
    _row("albert", "one-group", _ALBERT),
    _row("albert", "gelu", _ALBERT, hidden_act="gelu", num_attention_heads=4),
    _row("albert", "groups", _ALBERT, num_hidden_groups=2, inner_group_num=2),
    _row(
        "albert",
        "square",
        _ALBERT,
        embedding_size=24,
        hidden_act="relu",
        type_vocab_size=1,
        layer_norm_eps=1e-2,
        pad_token_id=9,
    ),
    _row("electra", "usual", _ELECTRA),
    _row("electra", "relu", _ELECTRA, hidden_act="relu"),
    _row("electra", "not-projected", _ELECTRA, embedding_size=24, type_vocab_size=1),
    _row(
        "electra",
        "wider",
        _ELECTRA,
        embedding_size=40,
        type_vocab_size=3,
        layer_norm_eps=1e-2,
        summary_activation="tanh",
        summary_last_dropout=0.3,
        hidden_act="gelu_pytorch_tanh",
    ),
    # Norms before the sub-layers are compared in tests/families: the reference does not run.
    _row("flaubert", "usual", _FLAUBERT),
    _row("flaubert", "sinusoidal", _FLAUBERT, sinusoidal_embeddings=True, gelu_activation=False),
    _row(
        "flaubert",
        "other-padding",
        _FLAUBERT,
        pad_token_id=5,
        n_layers=3,
        n_heads=4,
        layer_norm_eps=1e-2,
        summary_first_dropout=0.3,
        layerdrop=0.2,
    ),
    *(Row(*row) for row in (*DEBERTA_ROWS, *MODERNBERT_ROWS)),
]


def classes(row: Row) -> list[str]:
    """The bare class of a family and all with heads, those that transformers has."""
    family = FAMILIES[row.model_type]
    return [family.bare, *(name for name, head in family.heads.items() if head.published)]


@dataclass(frozen=True)
class Pair:
    """One model in both libraries.

    Attributes:
        theirs: of transformers, in evaluation mode.
        ours: loaded from what transformers saved.
        kind: what the head's logits mean; None without a head.
    """

    theirs: nn.Module
    ours: Parts
    kind: HeadKind | None

    def parameters(self) -> Iterator[tuple[Slot, Tensor, dict[str, Tensor]]]:
        """Each tensor of the file: its slot, their parameter, and ours that it holds, by name."""
        named = dict(self.theirs.named_parameters(remove_duplicate=False))
        family = self.ours.family
        parts: list[tuple[nn.Module, NameTable]] = [(self.ours.encoder, family.names)]
        if self.ours.head is not None:
            spec = family.head(self.ours.architecture, self.ours.raw)
            assert spec is not None
            parts.append((self.ours.head, spec.names))
        for module, names in parts:
            mine = dict(module.named_parameters(remove_duplicate=False))
            for slot in names.bind(module, self.ours.config):
                known = [n for n in (family.prefix + slot.theirs, slot.theirs) if n in named]
                if not known:  # an output that is the token table and has no name of its own
                    assert slot.ours[0] in names.tied
                    continue
                yield slot, named[known[0]], {ours: mine[ours] for ours in slot.ours}


def make_pair(row: Row, class_name: str, folder: Path) -> Pair:
    """A random model of transformers, saved, and ours loaded from the folder."""
    head = FAMILIES[row.model_type].heads.get(class_name)
    kind = None if head is None else head.kind
    config = transformers.AutoConfig.for_model(row.model_type, **row.keys)
    config.num_labels = NUM_LABELS if kind in ("sequence", "token") else 2
    torch.manual_seed(5)
    theirs = getattr(transformers, class_name)._from_config(config, attn_implementation="eager")
    for name, parameter in theirs.named_parameters():
        if parameter.requires_grad:
            centre = float("norm" in name.lower() and name.endswith("weight"))
            nn.init.normal_(parameter, centre, SPREAD)
    theirs.tie_weights()
    theirs.eval().save_pretrained(folder)
    return Pair(theirs, load_parts(folder), kind)
