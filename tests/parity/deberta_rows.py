"""Configurations of DeBERTa that are compared with transformers: model_type, name, keys.

Each row puts other axes at other values: terms, distances shorter than the texts, buckets, shared
projections, the norm over distances, convolutions, positions and types in the input, and both
layouts of the masked-LM head.
"""

from __future__ import annotations

from typing import Any

_FIRST: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 18,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
}
# What version 3 and mDeBERTa are published with; fewer buckets than there are distances.
_THIRD: dict[str, Any] = {
    **_FIRST,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 6,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "max_position_embeddings": 38,
}

DEBERTA_ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("deberta", "usual", _FIRST),
    (
        "deberta",
        "input-positions",
        {
            **_FIRST,
            "position_biased_input": True,
            "type_vocab_size": 3,
            "hidden_act": "gelu_new",
            "pooler_hidden_act": "relu",
            "max_relative_positions": 5,
            "legacy": False,
            "cls_dropout": 0.3,
        },
    ),
    (
        "deberta",
        "c2p",
        {**_FIRST, "pos_att_type": "c2p", "num_attention_heads": 4, "layer_norm_eps": 1e-3},
    ),
    (
        "deberta",
        "p2c",
        {**_FIRST, "pos_att_type": ["p2c"], "num_hidden_layers": 1, "pad_token_id": 4},
    ),
    ("deberta-v2", "usual", _THIRD),
    (
        "deberta-v2",
        "convolution",
        {
            **_THIRD,
            "conv_kernel_size": 3,
            "conv_act": "gelu",
            "attention_head_size": 8,
            "legacy": False,
            "pooler_hidden_act": "tanh",
            "pooler_dropout": 0.2,
        },
    ),
    (
        "deberta-v2",
        "convolution-in-groups",
        {
            **_THIRD,
            "conv_kernel_size": 5,
            "conv_groups": 4,
            "num_hidden_layers": 1,
            "norm_rel_ebd": "none",
            "hidden_act": "silu",
        },
    ),
    (
        "deberta-v2",
        "own-projections",
        {
            **_THIRD,
            "share_att_key": False,
            "position_biased_input": True,
            "type_vocab_size": 2,
            "hidden_size": 40,
            "num_attention_heads": 4,
            "max_relative_positions": 20,
            "layer_norm_eps": 1e-2,
        },
    ),
    ("deberta-v2", "distances", {**_THIRD, "position_buckets": -1, "max_relative_positions": 7}),
    ("deberta-v2", "c2p", {**_THIRD, "pos_att_type": "c2p", "pad_token_id": 5}),
    ("deberta-v2", "p2c", {**_THIRD, "pos_att_type": "p2c", "share_att_key": False}),
]
