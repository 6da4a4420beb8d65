"""The best-known checkpoint of each family: its name and what its config.json says.

Facts of the published files, as far as the reader of the family asks for them. They serve as
examples, in the documents and wherever a real shape is wanted without its weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Published:
    """A published checkpoint.

    Attributes:
        name: on the hub.
        config: keys of its config.json.
    """

    name: str
    config: Mapping[str, Any]


_BASE = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "pad_token_id": 0,
    "layer_norm_eps": 1e-12,
}
_ROBERTA = {
    **_BASE,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "layer_norm_eps": 1e-5,
}
_DEBERTA = {
    **_BASE,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "relative_attention": True,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "pooler_dropout": 0,
    "pooler_hidden_act": "gelu",
    "pooler_hidden_size": 768,
}

PUBLISHED: dict[str, Published] = {
    "bert": Published("google-bert/bert-base-uncased", {**_BASE, "vocab_size": 30_522}),
    "roberta": Published("FacebookAI/roberta-base", {**_ROBERTA, "vocab_size": 50_265}),
    "xlm-roberta": Published("FacebookAI/xlm-roberta-base", {**_ROBERTA, "vocab_size": 250_002}),
    "camembert": Published("almanach/camembert-base", {**_ROBERTA, "vocab_size": 32_005}),
    "distilbert": Published(
        "distilbert/distilbert-base-uncased",
        {
            "vocab_size": 30_522,
            "dim": 768,
            "n_layers": 6,
            "n_heads": 12,
            "hidden_dim": 3072,
            "activation": "gelu",
            "dropout": 0.1,
            "attention_dropout": 0.1,
            "qa_dropout": 0.1,
            "seq_classif_dropout": 0.2,
            "max_position_embeddings": 512,
            "sinusoidal_pos_embds": False,
            "pad_token_id": 0,
        },
    ),
    "albert": Published(
        "albert/albert-base-v2",
        {
            **_BASE,
            "vocab_size": 30_000,
            "embedding_size": 128,
            "hidden_act": "gelu_new",
            "hidden_dropout_prob": 0,
            "attention_probs_dropout_prob": 0,
            "num_hidden_groups": 1,
            "inner_group_num": 1,
        },
    ),
    "electra": Published(
        "google/electra-small-discriminator",
        {
            **_BASE,
            "vocab_size": 30_522,
            "embedding_size": 128,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
    ),
    "deberta": Published(
        "microsoft/deberta-base",
        {**_DEBERTA, "vocab_size": 50_265, "pos_att_type": ["c2p", "p2c"]},
    ),
    "deberta-v2": Published(
        "microsoft/deberta-v3-base",
        {
            **_DEBERTA,
            "vocab_size": 128_100,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
        },
    ),
    "flaubert": Published(
        "flaubert/flaubert_base_cased",
        {
            "vocab_size": 68_729,
            "n_words": 68_729,
            "emb_dim": 768,
            "n_layers": 12,
            "n_heads": 12,
            "dropout": 0.1,
            "attention_dropout": 0.1,
            "gelu_activation": True,
            "sinusoidal_embeddings": False,
            "max_position_embeddings": 512,
            "pre_norm": False,
            "layerdrop": 0.0,
            "layer_norm_eps": 1e-12,
            "n_langs": 1,
            "use_lang_emb": True,
            "pad_index": 2,
            "bos_index": 0,
            "eos_index": 1,
            "unk_index": 3,
            "mask_index": 5,
        },
    ),
    "modernbert": Published(
        "answerdotai/ModernBERT-base",
        {
            "vocab_size": 50_368,
            "hidden_size": 768,
            "num_hidden_layers": 22,
            "num_attention_heads": 12,
            "intermediate_size": 1152,
            "hidden_activation": "gelu",
            "max_position_embeddings": 8192,
            "global_attn_every_n_layers": 3,
            "local_attention": 128,
            "global_rope_theta": 160_000.0,
            "local_rope_theta": 10_000.0,
            "norm_eps": 1e-5,
            "norm_bias": False,
            "attention_bias": False,
            "mlp_bias": False,
            "attention_dropout": 0.0,
            "embedding_dropout": 0.0,
            "mlp_dropout": 0.0,
            "classifier_dropout": 0.0,
            "classifier_pooling": "mean",
            "pad_token_id": 50_283,
        },
    ),
}
