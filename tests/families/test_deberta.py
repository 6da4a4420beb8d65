"""DeBERTa: what its configurations say, what they may not say, and what its files hold besides.

That the numbers are those of transformers is in `tests/parity`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts, adapt, new_head
from bothways.checkpoints.save import save_parts
from bothways.errors import CheckpointError, ConfigError, UnsupportedModelError
from bothways.families.deberta import DEBERTA
from bothways.families.deberta_v2 import DEBERTA_V2
from bothways.families.keys import ConfigKeys
from bothways.families.registry import family_of
from bothways.families.spec import FamilySpec
from bothways.model.config import (
    AttentionConfig,
    ConvolutionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
    RelativeConfig,
)
from bothways.model.disentangled import bucket
from bothways.model.heads import ReplacedTokenHead, TokenHead, describe_head
from bothways.model.layout import Batch, Layout, pack
from tests.checkpoints.models import edit_json, read_tensors, write_tensors
from tests.parity.families import Row, make_pair

# float32, sums of a few dozen terms of size 1.
ATOL = 1e-5

# As published, without what says nothing of the encoder.
FIRST_BASE: dict[str, Any] = {
    "model_type": "deberta",
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "layer_norm_eps": 1e-7,
    "padding_idx": 0,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 0,
    "vocab_size": 50265,
}
THIRD_SMALL: dict[str, Any] = {
    **FIRST_BASE,
    "model_type": "deberta-v2",
    "num_hidden_layers": 6,
    "vocab_size": 128_100,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
}
SECOND_XLARGE: dict[str, Any] = {
    **THIRD_SMALL,
    "hidden_size": 1536,
    "num_attention_heads": 24,
    "attention_head_size": 64,
    "num_hidden_layers": 24,
    "intermediate_size": 6144,
    "conv_kernel_size": 3,
    "conv_act": "gelu",
}
# Each key at a value that is no default, so that none is right by luck.
ODD: dict[str, Any] = {
    "vocab_size": 41,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 50,
    "hidden_act": "gelu_new",
    "max_position_embeddings": 33,
    "type_vocab_size": 3,
    "pad_token_id": 5,
    "layer_norm_eps": 1e-6,
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "cls_dropout": 0.4,
    "initializer_range": 0.05,
    "relative_attention": True,
    "pos_att_type": ["c2p"],
    "max_relative_positions": 9,
    "position_biased_input": True,
    "position_buckets": 6,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "conv_kernel_size": 5,
    "conv_groups": 3,
    "conv_act": "relu",
}
SMALL: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 18,
    "relative_attention": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
}
both = pytest.mark.parametrize("spec", [DEBERTA, DEBERTA_V2], ids=lambda spec: spec.model_type)


def texts() -> Batch:
    """Ragged random ids."""
    generator = torch.Generator().manual_seed(3)
    lengths = [7, 1, 12, 4]
    ids = torch.randint(1, 61, (sum(lengths),), generator=generator)
    return Batch(ids, Layout.packed(lengths))


def rectangle(batch: Batch) -> dict[str, Tensor]:
    """The same for transformers."""
    rows = batch.layout.split(batch.ids)
    return {
        "input_ids": nn.utils.rnn.pad_sequence(rows, batch_first=True),
        "attention_mask": nn.utils.rnn.pad_sequence(
            [torch.ones_like(row) for row in rows], batch_first=True
        ),
    }


@torch.no_grad()
def logits(parts: Parts) -> Tensor:
    assert parts.head is not None
    given: Tensor = parts.head(parts.encoder(texts()), texts())
    return given


def test_each_key_of_the_first_version_sets_its_axis() -> None:
    assert DEBERTA.read_config(ODD) == EncoderConfig(
        hidden_size=24,
        num_layers=3,
        embeddings=EmbeddingsConfig(41, 24, max_positions=33, num_types=3, pad_id=5),
        attention=AttentionConfig(4, 6, kind="disentangled", bias="no_key"),
        feedforward=FeedForwardConfig(50, activation="gelu_tanh"),
        norm=NormConfig(eps=1e-6),
        dropout=DropoutConfig(0.2, 0.3, 0.4),
        relative=RelativeConfig(9, terms=("c2p",), key_bias=False),
        initializer_range=0.05,
    )


def test_each_key_of_the_second_version_sets_its_axis() -> None:
    first = DEBERTA.read_config(ODD)
    assert DEBERTA_V2.read_config(ODD) == dataclasses.replace(
        first,
        attention=AttentionConfig(4, 6, kind="disentangled", bias="all"),
        relative=RelativeConfig(
            9, buckets=6, terms=("c2p",), shared_projections=True, normalised=True
        ),
        convolution=ConvolutionConfig(5, 3, "relu"),
    )


def test_published_configurations_are_read() -> None:
    first, third = DEBERTA.read_config(FIRST_BASE), DEBERTA_V2.read_config(THIRD_SMALL)
    assert first.relative == RelativeConfig(512, key_bias=False)
    assert first.embeddings == EmbeddingsConfig(50_265, 768, positions="none", num_types=0)
    assert first.norm.eps == third.norm.eps == 1e-7
    assert third.relative == RelativeConfig(
        512, buckets=256, shared_projections=True, normalised=True
    )
    assert third.convolution is None
    largest = DEBERTA_V2.read_config(SECOND_XLARGE)
    assert largest.convolution == ConvolutionConfig(3, 1, "gelu")
    assert largest.attention.head_size == 64


@both
def test_absent_keys_mean_what_transformers_takes(spec: FamilySpec) -> None:
    given = {"relative_attention": True, "pos_att_type": "c2p|p2c", "vocab_size": 9}
    shape = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 9,
    }
    theirs = transformers.AutoConfig.for_model(spec.model_type, **given, **shape).to_dict()
    assert spec.read_config({**given, **shape}) == spec.read_config(theirs)


@both
@pytest.mark.parametrize("keys", [FIRST_BASE, THIRD_SMALL, SECOND_XLARGE, ODD], ids=len)
def test_what_is_written_is_read_again_here_and_by_transformers(
    spec: FamilySpec, keys: dict[str, Any]
) -> None:
    config = spec.read_config({**keys, "model_type": spec.model_type})
    written = spec.write_config(config, {})
    assert spec.read_config(written) == config
    theirs = transformers.AutoConfig.for_model(**written).to_dict()
    assert spec.read_config(theirs) == config
    assert family_of(config) is spec


def test_the_two_versions_are_told_apart_by_their_axes() -> None:
    first = DEBERTA.read_config(FIRST_BASE)
    assert not DEBERTA_V2.expresses(first)
    assert not DEBERTA.expresses(DEBERTA_V2.read_config(THIRD_SMALL))
    plain = dataclasses.replace(first, relative=None, attention=AttentionConfig(12, 64))
    assert not DEBERTA.expresses(plain)
    assert not DEBERTA_V2.expresses(plain)


@both
@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"relative_attention": False}, "relative_attention is false"),
        ({"pos_att_type": None}, r"pos_att_type is \[\]"),
        ({"pos_att_type": "c2p|p2p"}, r"pos_att_type is \['c2p', 'p2p'\].*'c2p' and 'p2c'"),
        ({"talking_head": True}, "heads are not mixed here"),
        ({"norm_rel_ebd": "layer_norm|scale"}, r"norm_rel_ebd is 'layer_norm\|scale'"),
        ({"embedding_size": 128}, "embedding_size is 128.*only 768"),
        ({"pooler_hidden_size": 64}, "pooler_hidden_size is 64.*only 768"),
        ({"attention_head_size": 32}, "attention_head_size is 32.*only 64"),
    ],
)
def test_what_no_published_checkpoint_has_is_refused(
    spec: FamilySpec, keys: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=f"no published checkpoint(.|\n)*{reason}"):
        spec.read_config({**THIRD_SMALL, **keys})


def test_all_that_is_refused_stands_in_one_error() -> None:
    keys = {**FIRST_BASE, "talking_head": True, "relative_attention": False}
    with pytest.raises(UnsupportedModelError, match=r"my/config\.json(.|\n)*false(.|\n)*talking"):
        DEBERTA.read_config(keys, "my/config.json")


def test_impossible_values_are_errors() -> None:
    with pytest.raises(ConfigError, match="'buckets': 1"):
        DEBERTA_V2.read_config({**THIRD_SMALL, "position_buckets": 1})
    with pytest.raises(ConfigError, match="convolution.kernel is 4"):
        DEBERTA_V2.read_config({**THIRD_SMALL, "conv_kernel_size": 4})
    with pytest.raises(ConfigError, match="not divisible"):
        DEBERTA.read_config({**FIRST_BASE, "num_attention_heads": 7})


def test_buckets_are_the_published_ones_for_any_number_and_reach() -> None:
    """Borders lie on the last bit of a float32 logarithm: both must be taken in float32."""
    for buckets in [*range(2, 40), 64, 128, 256, 320]:
        for reach in [buckets // 2 + 2, *range(buckets // 2 + 9, 700, 53), 512, 1024]:
            distance = torch.arange(1 - reach, reach)
            expected = make_log_bucket_position(distance, buckets, reach).long()
            assert torch.equal(bucket(distance, buckets, reach), expected), (buckets, reach)


@pytest.mark.parametrize(
    ("model_type", "name"), [("deberta", "Deberta"), ("deberta-v2", "DebertaV2")]
)
def test_the_masked_lm_head_of_the_first_releases_is_read_where_transformers_draws_one(
    model_type: str, name: str, tmp_path: Path
) -> None:
    """transformers#15216, #18659: released with lm_predictions and no word of it in config.json.

    transformers then leaves these weights out and predicts with random ones.
    """
    row = Row(model_type, "test", {**SMALL, "legacy": False})
    pair = make_pair(row, f"{name}ForMaskedLM", tmp_path / "theirs")
    assert {"lm_predictions.lm_head.bias", "lm_predictions.lm_head.dense.weight"} <= read_tensors(
        tmp_path / "theirs"
    ).keys()
    expected = pair.theirs(**rectangle(texts())).logits[rectangle(texts())["attention_mask"] == 1]
    torch.testing.assert_close(logits(pair.ours), expected, rtol=0, atol=ATOL)

    edit_json(tmp_path / "theirs" / "config.json", legacy=None)
    released = load_parts(tmp_path / "theirs")
    assert "lm_predictions.lm_head.bias" in released.report.aliases
    torch.testing.assert_close(logits(released), expected, rtol=0, atol=ATOL)

    # What we save has the names that an unsaid `legacy` means, so transformers finds them.
    for parts, folder in ((pair.ours, "kept"), (released, "renamed")):
        save_parts(parts, tmp_path / folder)
        again, info = getattr(transformers, f"{name}ForMaskedLM").from_pretrained(
            tmp_path / folder, output_loading_info=True
        )
        assert not any(info.values()), (folder, info)
        given = again.eval()(**rectangle(texts())).logits
        kept = rectangle(texts())["attention_mask"] == 1
        torch.testing.assert_close(given[kept], expected, rtol=0, atol=ATOL)
    assert "lm_predictions.lm_head.bias" in read_tensors(tmp_path / "kept")
    assert "cls.predictions.bias" in read_tensors(tmp_path / "renamed")


def release(folder: Path, **extra: Tensor) -> Parts:
    """A bare encoder of version 3, saved with tensors that its class does not have."""
    row = Row("deberta-v2", "test", {**SMALL, "position_buckets": 6, "share_att_key": True})
    make_pair(row, "DebertaV2Model", folder)
    tensors = {f"deberta.{name}": value for name, value in read_tensors(folder).items()}
    write_tensors(folder, {**tensors, **extra})
    edit_json(folder / "config.json", architectures=None)
    return load_parts(folder)


def test_what_releases_hold_beside_the_encoder_is_accounted_for(tmp_path: Path) -> None:
    extra = {
        "deberta.embeddings.position_embeddings.weight": torch.randn(18, 24),
        "lm_predictions.lm_head.dense.weight": torch.randn(24, 24),
        "mask_predictions.classifier.bias": torch.randn(1),
    }
    report = release(tmp_path, **extra).report
    assert set(report.ignored) == set(extra)
    assert "position_biased_input is false" in report.ignored[next(iter(extra))]
    assert not any((report.unexpected, report.missing, report.mismatched))
    assert len(report.loaded) + len(extra) == len(read_tensors(tmp_path))


def test_a_position_table_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    release(tmp_path)
    edit_json(tmp_path / "config.json", position_biased_input=True)
    with pytest.raises(CheckpointError, match=r"deberta\.embeddings\.position_embeddings\.weight"):
        load_parts(tmp_path)


def replaced_tensors(classifier: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(8)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * 0.3

    return {
        "mask_predictions.LayerNorm.weight": 1 + drawn(24),
        "mask_predictions.LayerNorm.bias": drawn(24),
        "mask_predictions.dense.weight": drawn(24, 24),
        "mask_predictions.dense.bias": drawn(24),
        f"mask_predictions.{classifier}.weight": drawn(1, 24),
        f"mask_predictions.{classifier}.bias": drawn(1),
    }


@pytest.mark.parametrize("classifier", ["classifier", "classifer"])
def test_the_replaced_token_head_of_version_3(classifier: str, tmp_path: Path) -> None:
    """The oracle is the equation of the authors' code, since transformers has no class for it.

    It is not ELECTRA's head: each state is summed with the text's first and normed before the
    dense layer. The authors' code misspells its last layer; released files do not.
    """
    tensors = replaced_tensors(classifier)
    release(tmp_path / "theirs", **tensors)
    edit_json(tmp_path / "theirs" / "config.json", architectures=["ReplacedTokenDetectionModel"])
    parts = load_parts(tmp_path / "theirs")
    assert parts.report.ignored == {}
    states = parts.encoder.padded(**rectangle(texts())).last_hidden
    norm, dense = (
        (tensors[f"mask_predictions.{part}.weight"], tensors[f"mask_predictions.{part}.bias"])
        for part in ("LayerNorm", "dense")
    )
    summed = nn.functional.layer_norm(states + states[:, :1], (24,), *norm, eps=1e-7)
    inner = nn.functional.gelu(nn.functional.linear(summed, *dense))
    weight, bias = list(tensors.values())[4:]
    expected = nn.functional.linear(inner, weight, bias)[rectangle(texts())["attention_mask"] == 1]
    torch.testing.assert_close(logits(parts), expected, rtol=0, atol=ATOL)

    # No class of transformers: the encoder is saved bare, the head beside it.
    save_parts(parts, tmp_path / "ours")
    assert "encoder only (DebertaV2Model)" in parts.in_transformers()
    again = load_parts(tmp_path / "ours")
    assert torch.equal(logits(again), logits(parts))
    _, info = transformers.AutoModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values())


def test_electras_head_on_a_deberta_body_is_electras(tmp_path: Path) -> None:
    """The other common form of the head; the oracle is the class of transformers' ELECTRA."""
    from transformers.models.electra.modeling_electra import ElectraDiscriminatorPredictions

    parts = release(tmp_path / "theirs")
    made_by: Any = ElectraDiscriminatorPredictions
    oracle = made_by(transformers.ElectraConfig(hidden_size=24))
    head = TokenHead(24, 1, dropout=0.0, dense="gelu")
    head.load_state_dict(
        {
            name.replace("dense_prediction", "output"): value
            for name, value in oracle.state_dict().items()
        }
    )
    parts = adapt(parts, head, kind="replaced", trained=True)
    expected = oracle(parts.encoder(texts()).last_hidden)
    torch.testing.assert_close(logits(parts)[:, 0], expected, rtol=0, atol=ATOL)
    save_parts(parts, tmp_path / "ours")
    assert torch.equal(logits(load_parts(tmp_path / "ours")), logits(parts))


def test_new_replaced_token_heads_are_those_of_version_3(tmp_path: Path) -> None:
    parts = release(tmp_path)
    head = new_head(parts, "replaced", 1)
    assert isinstance(head, ReplacedTokenHead)
    adapted = adapt(parts, head, kind="replaced")
    assert adapted.architecture == "DebertaV2Model"
    assert adapted.published_head() is None


def test_the_pooling_head_keeps_what_its_keys_say(tmp_path: Path) -> None:
    keys = {"pooler_hidden_act": "relu", "pooler_dropout": 0.2, "cls_dropout": 0.3}
    row = Row("deberta", "test", {**SMALL, **keys})
    pair = make_pair(row, "DebertaForSequenceClassification", tmp_path / "theirs")
    assert pair.ours.head is not None
    described = describe_head(pair.ours.head)
    assert (described["dense"], described["dense_dropout"]) == ("relu", 0.2)
    assert described["dropout"] == 0.3
    # A head of other values changes the keys, and stays one of this class.
    other = DEBERTA.heads["DebertaForSequenceClassification"].build(
        pair.ours.config, ConfigKeys({"pooler_hidden_act": "tanh", "pooler_dropout": 0.5}), 4
    )
    parts = adapt(pair.ours, other, labels=("a", "b", "c", "d"), trained=True)
    save_parts(parts, tmp_path / "ours")
    again = load_parts(tmp_path / "ours")
    assert again.architecture == "DebertaForSequenceClassification"
    assert again.head is not None
    assert describe_head(again.head) == describe_head(other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("row", [SMALL, {**SMALL, "position_buckets": 6, "share_att_key": True}])
def test_scores_near_the_end_of_half_precision_give_no_nan(
    row: dict[str, Any], dtype: torch.dtype, tmp_path: Path
) -> None:
    """microsoft/DeBERTa#77, #84: mDeBERTa in half precision gave NaN.

    Content scores near a thousand, and rectangles with rows that keep few tokens: nothing is
    infinite, so no row of scores can become NaN.
    """
    parts = load_parts(make_folder(Row("deberta-v2", "test", row), tmp_path), dtype=dtype)
    encoder = parts.encoder
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if "query.weight" in name or "key.weight" in name:
                parameter.mul_(30)
    arguments = rectangle(texts())
    packed = pack(arguments["input_ids"], arguments["attention_mask"])
    wide = Batch(arguments["input_ids"].flatten(), Layout.rectangular(arguments["attention_mask"]))
    for batch in (packed, wide):
        plain, weighed = encoder(batch), encoder(batch, attentions=True)
        assert weighed.attentions is not None
        for states in (plain.last_hidden, weighed.last_hidden):
            assert states.isfinite().all()
        assert all(w.isfinite().all() for layer in weighed.attentions for w in layer)
        torch.autograd.backward(plain.last_hidden.float().square().mean())
        assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


def make_folder(row: Row, folder: Path) -> Path:
    """A random model of transformers, saved."""
    make_pair(row, "DebertaV2Model", folder)
    return folder
