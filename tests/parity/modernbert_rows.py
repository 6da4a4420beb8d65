"""Configurations of ModernBERT that are compared with transformers: model_type, name, keys.

Both dialects, each bias, every order of layer kinds, windows shorter and longer than the texts.
"""

from __future__ import annotations

from typing import Any

_HUB: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 38,
    "pad_token_id": 3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 500.0,
    "local_rope_theta": 20.0,
    "local_attention": 6,
}
_SPELLED = {key: value for key, value in _HUB.items() if "global_" not in key and "rope" not in key}

MODERNBERT_ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("modernbert", "usual", _HUB),
    (
        "modernbert",
        "spelled-out",
        {
            **_SPELLED,
            "layer_types": [
                "sliding_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
            ],
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 700.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
            },
            "classifier_pooling": "mean",
            "classifier_activation": "relu",
            "hidden_activation": "silu",
            "local_attention": 2,
            "norm_eps": 1e-2,
        },
    ),
    (
        "modernbert",
        "biases",
        {
            **_HUB,
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "classifier_bias": True,
            "num_attention_heads": 2,
            "num_hidden_layers": 3,
            "global_attn_every_n_layers": 2,
        },
    ),
    (
        "modernbert",
        "head-bias",
        {**_HUB, "classifier_bias": True, "num_hidden_layers": 1, "local_attention": 128},
    ),
    ("modernbert", "norm-bias", {**_HUB, "norm_bias": True, "global_attn_every_n_layers": 1}),
]
