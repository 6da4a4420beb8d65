"""DeBERTa, versions 2 and 3, and mDeBERTa (He et al. 2021, 2023).

Attention as in the first version, with distances in log buckets and the content projections
serving the distances too, and in the largest model a convolution beside the first layer. Version
3 has the same build and is pretrained to detect replaced tokens.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from bothways.families import deberta
from bothways.families.keys import NAME_OF_ACTIVATION, ConfigKeys
from bothways.families.names import NameTable
from bothways.families.spec import FamilySpec, HeadSpec, TokenizerRecipe
from bothways.model.config import ConvolutionConfig, EncoderConfig, RelativeConfig
from bothways.model.heads import ReplacedTokenHead


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes that a configuration of version 2 or 3 sets."""
    relative = RelativeConfig(
        deberta.max_distance(keys),
        buckets=max(keys.whole("position_buckets", -1, minimum=-1), 0),
        terms=deberta.terms(keys),
        shared_projections=keys.flag("share_att_key", False),
        normalised=keys.text("norm_rel_ebd", "none").lower() == "layer_norm",
    )
    kernel = keys.whole("conv_kernel_size", 0, minimum=0)
    convolution = None
    if kernel:
        convolution = ConvolutionConfig(
            kernel, keys.whole("conv_groups", 1), keys.activation("conv_act", "tanh")
        )
    return deberta.read_common(keys, relative, bias="all", convolution=convolution)


def write(config: EncoderConfig) -> dict[str, Any]:
    """The keys of a configuration of version 2 or 3."""
    relative = config.relative or RelativeConfig()
    keys = {
        **deberta.write(config),
        "position_buckets": relative.buckets or -1,
        "share_att_key": relative.shared_projections,
        "norm_rel_ebd": "layer_norm" if relative.normalised else "none",
        "conv_kernel_size": 0,
    }
    if config.convolution is not None:
        keys["conv_kernel_size"] = config.convolution.kernel
        keys["conv_groups"] = config.convolution.groups
        keys["conv_act"] = NAME_OF_ACTIVATION[config.convolution.activation]
    return keys


def _replaced_head(config: EncoderConfig, keys: ConfigKeys, num_outputs: int) -> nn.Module:
    del keys
    return ReplacedTokenHead(
        config.hidden_size,
        num_outputs,
        activation=config.feedforward.activation,
        eps=config.norm.eps,
    )


_SELF = "encoder.layer.{i}.attention.self"
_OURS = "layers.{i}.attention"
_SOMETIMES = {
    "encoder.LayerNorm": "relative.norm",
    "encoder.conv.conv": "convolution.convolution",
    "encoder.conv.LayerNorm": "convolution.norm",
    f"{_SELF}.pos_key_proj": f"{_OURS}.relative.key",
    f"{_SELF}.pos_query_proj": f"{_OURS}.relative.query",
}

DEBERTA_V2 = FamilySpec(
    model_type="deberta-v2",
    title="DeBERTa v2, v3 and mDeBERTa",
    prefix="deberta.",
    bare="DebertaV2Model",
    read=read,
    write=write,
    names=NameTable(
        {
            **deberta.COMMON_NAMES,
            f"{_SELF}.query_proj": f"{_OURS}.query",
            f"{_SELF}.key_proj": f"{_OURS}.key",
            f"{_SELF}.value_proj": f"{_OURS}.value",
            **_SOMETIMES,
        },
        optional=deberta.OPTIONAL_NAMES | _SOMETIMES.keys(),
        ignored=deberta.IGNORED_NAMES,
    ),
    heads={
        **deberta.head_specs("DebertaV2"),
        "DebertaV2ForMultipleChoice": HeadSpec(
            "choice", deberta.POOLED, deberta.pooled_head, 1, deberta.pooled_keys
        ),
        # The class of the authors' code; transformers has none.
        "ReplacedTokenDetectionModel": HeadSpec(
            "replaced",
            NameTable(
                {
                    "mask_predictions.LayerNorm": "norm",
                    "mask_predictions.dense": "dense",
                    "mask_predictions.classifier": "output",
                },
                aliases={r"^mask_predictions\.classifer\.": "mask_predictions.classifier."},
            ),
            _replaced_head,
            1,
            published=False,
        ),
    },
    tokenizer=TokenizerRecipe(
        kind="sentencepiece",
        cls="[CLS]",
        sep="[SEP]",
        pad="[PAD]",
        mask="[MASK]",
        unknown="[UNK]",
        single="[CLS] A [SEP]",
        pair="[CLS] A [SEP] B [SEP]",
        typed=True,
    ),
    description=(
        "The best classifier of its size: version 3 learns to tell replaced tokens from real ones "
        "and leads on most benchmarks of understanding, in English and, as mDeBERTa, in 100 "
        "languages. Slower than BERT for its attention, and a poor retriever unless tuned for it."
    ),
    changes=(
        "attention adds terms over relative distances in log buckets, projected by the weights "
        "for content; a SentencePiece vocabulary of 128,000 pieces (250,000 in mDeBERTa); the "
        "largest model has a convolution beside its first layer; no pooler"
    ),
)
