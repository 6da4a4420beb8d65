"""FlauBERT: its keys, norms before the sub-layers, a summary for a classifier, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import adapt, new_head
from bothways.checkpoints.save import save_parts
from bothways.errors import UnsupportedModelError
from bothways.families.flaubert import FLAUBERT
from bothways.families.registry import family_of
from bothways.model.config import (
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
    NormConfig,
)
from bothways.model.encoder import Encoder
from bothways.model.heads import describe_head
from tests.golden.vocabularies import FAMILIES, write_folder
from tests.parity.families import Pair, Row, make_pair
from tests.parity.test_parity import Texts, close

# Each key at a value that is no default, so that none is right by luck.
KEYS: dict[str, Any] = {
    "vocab_size": 41,
    "emb_dim": 24,
    "n_layers": 3,
    "n_heads": 4,
    "max_position_embeddings": 18,
    "gelu_activation": False,
    "sinusoidal_embeddings": True,
    "pre_norm": True,
    "pad_token_id": 5,
    "layer_norm_eps": 1e-6,
    "dropout": 0.2,
    "attention_dropout": 0.3,
    "summary_first_dropout": 0.4,
    "layerdrop": 0.25,
    "init_std": 0.05,
}
# As published with flaubert_base_cased, numbers made small: XLM's training settings and all.
PUBLISHED: dict[str, Any] = {
    "amp": 1, "architectures": ["FlaubertWithLMHeadModel"], "asm": False, "attention_dropout": 0.1,
    "bos_index": 0, "bos_token_id": 0, "bptt": 512, "causal": False, "clip_grad_norm": 5,
    "dropout": 0.1, "emb_dim": 24, "embed_init_std": 0.02209708691207961, "encoder_only": True,
    "end_n_top": 5, "eos_index": 1, "fp16": True, "gelu_activation": True, "group_by_size": True,
    "id2lang": {"0": "fr"}, "init_std": 0.02, "is_encoder": True, "lang2id": {"fr": 0},
    "lang_id": 0, "langs": ["fr"], "layer_norm_eps": 1e-12, "layerdrop": 0.0,
    "lg_sampling_factor": -1, "lgs": "fr", "mask_index": 5, "mask_token_id": 0,
    "max_batch_size": 0, "max_position_embeddings": 18, "max_vocab": -1,
    "mlm_steps": [["fr", None]], "model_type": "flaubert", "n_heads": 3, "n_langs": 1,
    "n_layers": 2, "pad_index": 2, "pad_token_id": 2, "pre_norm": False, "sample_alpha": 0,
    "share_inout_emb": True, "sinusoidal_embeddings": False, "start_n_top": 5,
    "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
    "summary_type": "first", "summary_use_proj": True, "tokens_per_batch": -1, "unk_index": 3,
    "use_lang_emb": True, "vocab_size": 61, "word_blank": 0, "word_dropout": 0, "word_keep": 0.1,
    "word_mask": 0.8, "word_mask_keep_rand": "0.8,0.1,0.1", "word_pred": 0.15, "word_rand": 0.1,
    "word_shuffle": 0,
}  # fmt: skip
NAMED = {key: value for key, value in PUBLISHED.items() if key != "model_type"}
SEQUENCE, CHOICE = "FlaubertForSequenceClassification", "FlaubertForMultipleChoice"


def row(**keys: Any) -> Row:
    return Row("flaubert", "test", {**KEYS, **keys})


def test_every_key_is_read() -> None:
    config = EncoderConfig(
        hidden_size=24,
        num_layers=3,
        embeddings=EmbeddingsConfig(
            41, 24, positions="sinusoidal", max_positions=18, num_types=0, pad_id=5
        ),
        attention=AttentionConfig(4, 6),
        feedforward=FeedForwardConfig(96, activation="relu"),
        norm=NormConfig(placement="pre", eps=1e-6),
        dropout=DropoutConfig(0.2, 0.3, 0.4, layer=0.25),
        initializer_range=0.05,
    )
    assert FLAUBERT.read_config(KEYS) == config
    assert FLAUBERT.expresses(config)
    assert family_of(config) is FLAUBERT


def test_the_names_of_other_families_are_read_too() -> None:
    """What transformers takes under both names, old files and hand-written ones have."""
    both = {"emb_dim": "hidden_size", "n_heads": "num_attention_heads", "pad_token_id": "pad_index", "n_layers": "num_hidden_layers", "vocab_size": "n_words"}  # fmt: skip  # noqa: E501
    renamed = {both.get(name, name): value for name, value in KEYS.items()}
    assert FLAUBERT.read_config(renamed) == FLAUBERT.read_config(KEYS)


def test_a_published_configuration_is_kept_as_it_is(tmp_path: Path) -> None:
    pair = make_pair(Row("flaubert", "old", NAMED), "FlaubertWithLMHeadModel", tmp_path / "1")
    (tmp_path / "1" / "config.json").write_text(json.dumps(PUBLISHED))
    parts = load_parts(tmp_path / "1")
    save_parts(parts, tmp_path / "2")
    saved = json.loads((tmp_path / "2" / "config.json").read_text())
    assert saved == {**PUBLISHED, "tie_word_embeddings": True}
    assert pair.ours.config == parts.config


# --- norms before the sub-layers


class EmptyCache:
    """What lets the published path for such norms run.

    transformers 5.24 asks `cache[i]` of an object that has no items, so that every call of such a
    model fails; and it never asks its attention for weights. With this in its place the path is
    the one of release 4, where the models came from.
    """

    def get_seq_length(self) -> int:
        """Nothing is remembered."""
        return 0

    def __getitem__(self, index: int) -> None:
        """Neither by any layer."""


@contextmanager
def weights_of(model: nn.Module) -> Iterator[list[Tensor]]:
    """The attention weights of every layer that runs meanwhile."""
    found: list[Tensor] = []
    hooks = []
    for module in model.modules():
        if type(module).__name__ == "MultiHeadAttention":
            hooks.append(
                module.register_forward_pre_hook(
                    lambda _, args, kwargs: (args, {**kwargs, "output_attentions": True}),
                    with_kwargs=True,
                )
            )
            hooks.append(module.register_forward_hook(lambda _, __, out: found.append(out[1])))
    yield found
    for hook in hooks:
        hook.remove()


def test_the_published_path_for_norms_before_does_not_run(tmp_path: Path) -> None:
    """The evidence for `EmptyCache`; when this fails, such rows belong into tests/parity."""
    theirs = make_pair(row(), "FlaubertModel", tmp_path).theirs
    with pytest.raises(TypeError, match="not subscriptable"):
        theirs(input_ids=torch.tensor([[1, 2, 3]]))


@pytest.mark.parametrize("keys", [{}, {"gelu_activation": True, "sinusoidal_embeddings": False}])
def test_norms_before_the_sub_layers_give_the_published_numbers(
    keys: dict[str, Any], tmp_path: Path
) -> None:
    pair = make_pair(row(**keys), "FlaubertWithLMHeadModel", tmp_path)
    config, head = pair.ours.config, pair.ours.head
    assert head is not None
    texts = Texts.draw(config)
    with weights_of(pair.theirs) as weights:
        theirs = pair.theirs(
            **texts.arguments(config), cache=EmptyCache(), output_hidden_states=True
        )
    ours = pair.ours.encoder(texts.batch, all_hidden=True, attentions=True)
    assert ours.all_hidden is not None
    assert ours.attentions is not None
    for mine, states in zip(ours.all_hidden, theirs.hidden_states, strict=True):
        close(mine, states[texts.mask])
    for layer, rectangles in zip(ours.attentions, weights, strict=True):
        for mine, rectangle, mask in zip(layer, rectangles, texts.mask, strict=True):
            close(mine, rectangle[:, mask][:, :, mask])
    logits = head(ours, texts.batch)
    assert theirs.logits.std() > 0.1
    close(logits, theirs.logits[texts.mask])
    check_gradients(pair, logits, theirs.logits[texts.mask])


def check_gradients(pair: Pair, ours: Tensor, theirs: Tensor) -> None:
    for logits in (ours, theirs):
        (logits * torch.linspace(0.5, 1.5, logits.shape[-1])).sin().sum().backward()
    compared = 0
    for slot, parameter, mine in pair.parameters():
        if parameter.grad is not None and all(p.requires_grad for p in mine.values()):
            [gradient] = [p.grad for p in mine.values()]
            assert gradient is not None
            reference = parameter.grad
            scale = float(reference.abs().max())
            if not slot.theirs.endswith("k_lin.bias"):  # nothing but rounding
                close(gradient / scale, reference / scale)
                compared += 1
    assert compared > 40


def test_a_model_with_norms_before_goes_both_ways(tmp_path: Path) -> None:
    pair = make_pair(row(), SEQUENCE, tmp_path / "1")
    save_parts(pair.ours, tmp_path / "2")
    again, info = getattr(transformers, SEQUENCE).from_pretrained(
        tmp_path / "2", output_loading_info=True
    )
    assert not any(info.values())
    state = again.state_dict()
    assert all(torch.equal(state[name], own) for name, own in pair.theirs.state_dict().items())
    assert load_parts(tmp_path / "2").config == pair.ours.config


# --- heads


def test_heads_have_their_shape_and_dropout(tmp_path: Path) -> None:
    heads = {
        name: describe_head(make_pair(row(), name, tmp_path / name).ours.head or nn.Module())
        for name in FLAUBERT.heads
    }
    assert heads[SEQUENCE]["pooling"] == "cls"
    assert heads[SEQUENCE]["dense"] is None
    assert heads[SEQUENCE]["dropout"] == 0.4
    assert heads["FlaubertForTokenClassification"]["dropout"] == 0.2
    assert heads["FlaubertForQuestionAnsweringSimple"]["dropout"] == 0.0
    assert heads["FlaubertWithLMHeadModel"]["activation"] is None
    assert heads[CHOICE] == {
        "kind": "summary",
        "hidden_size": 24,
        "num_labels": 1,
        "summary_size": 2,
        "activation": "identity",
        "dropout": 0.4,
        "summary_dropout": 0.0,
    }


def test_a_summary_is_as_wide_as_the_labels_and_may_be_bent(tmp_path: Path) -> None:
    keys = {"pre_norm": False, "summary_activation": "tanh", "summary_last_dropout": 0.1}
    pair = make_pair(row(**keys), CHOICE, tmp_path / "1")
    parts = load_parts(tmp_path / "1")
    assert parts.head is not None
    assert describe_head(parts.head)["summary_size"] == 2
    assert describe_head(parts.head)["summary_dropout"] == 0.1
    texts = Texts.draw(parts.config)
    with torch.no_grad():
        theirs = pair.theirs(**texts.arguments(parts.config, candidates=True)).logits
        close(parts.head(parts.encoder(texts.batch), texts.batch), theirs.T)
    other = adapt(parts, new_head(parts, "choice", 1))
    assert other.architecture == CHOICE


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"summary_type": "last"}, "summary_type is 'last'"),
        ({"summary_use_proj": False}, "summary_use_proj and summary_proj_to_labels are False"),
        ({"summary_proj_to_labels": False}, "True and False"),
        ({"summary_activation": "tanh"}, "summary_activation is 'tanh'"),
        ({"summary_last_dropout": 0.2}, "summary_last_dropout 0.2"),
    ],
)
def test_other_summaries_are_refused(keys: dict[str, Any], told: str, tmp_path: Path) -> None:
    make_pair(row(), SEQUENCE, tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**content, **keys}))
    with pytest.raises(UnsupportedModelError, match=told):
        load_parts(tmp_path)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"n_langs": 2}, "a vector for the language of each token is not built here"),
        ({"causal": True}, "reads one way"),
        ({"is_encoder": False}, "reads one way"),
        ({"asm": True}, "adaptive softmax"),
        ({"architectures": ["FlaubertForQuestionAnswering"]}, "searches its answers by beams"),
    ],
)
def test_what_is_not_built_is_refused_with_the_reason(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(UnsupportedModelError, match=told):
        FLAUBERT.read_config({**KEYS, **keys})
    both = {**KEYS, **keys, "n_langs": 3}
    with pytest.raises(UnsupportedModelError, match="n_langs is 3"):
        FLAUBERT.read_config(both)


def test_many_languages_without_their_vectors_are_read() -> None:
    assert FLAUBERT.read_config({**KEYS, "n_langs": 2, "use_lang_emb": False}).num_layers == 3


# --- the rest of a folder


def test_sinusoids_are_those_of_the_file_and_not_learned(tmp_path: Path) -> None:
    pair = make_pair(row(), "FlaubertModel", tmp_path)
    ours = pair.ours.encoder.embeddings.positions
    assert ours is not None
    assert torch.equal(ours.weight, pair.theirs.get_parameter("position_embeddings.weight"))
    assert not ours.weight.requires_grad
    fresh = transformers.FlaubertModel(transformers.FlaubertConfig(**{**KEYS, "n_layers": 1}))
    made = Encoder(FLAUBERT.read_config(KEYS)).embeddings.positions
    assert made is not None
    torch.testing.assert_close(made.weight, fresh.position_embeddings.weight.detach())


def test_the_tokenizer_of_the_folder_fits_and_masks_by_its_own_piece(tmp_path: Path) -> None:
    """`mask_token_id` of published files is 0, a piece that begins every text."""
    write_folder(FAMILIES["flaubert"], tmp_path)
    size = len(json.loads((tmp_path / "vocab.json").read_text()))
    keys = {**NAMED, "vocab_size": size}
    make_pair(Row("flaubert", "text", keys), "FlaubertWithLMHeadModel", tmp_path)
    parts = load_parts(tmp_path)
    assert parts.raw["mask_token_id"] == 0
    tokenizer = parts.tokenizer
    assert tokenizer is not None
    assert tokenizer.mask_id == 5
    save_parts(parts, tmp_path / "again")
    assert load_parts(tmp_path / "again").tokenizer is not None
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    text = "Le chat dort \u00e0 la maison, aujourd'hui."
    assert theirs(text)["input_ids"] == tokenizer.encode(text).ids


def test_types_that_transformers_adds_from_the_table_of_words_are_not_added(
    tmp_path: Path,
) -> None:
    """The module's docstring says so: types 0 would add the vector of piece 0 to every token."""
    pair = make_pair(row(pre_norm=False), "FlaubertModel", tmp_path)
    texts = Texts.draw(pair.ours.config)
    with torch.no_grad():
        ours = pair.ours.encoder(texts.batch).last_hidden
        plain = pair.theirs(input_ids=texts.ids, attention_mask=texts.mask)[0][texts.mask]
        typed = pair.theirs(
            input_ids=texts.ids, attention_mask=texts.mask, token_type_ids=texts.ids * 0
        )[0][texts.mask]
    close(ours, plain)
    assert (plain - typed).abs().max() > 0.1


def test_padding_is_zero_as_published(tmp_path: Path) -> None:
    pair = make_pair(row(pre_norm=False), "FlaubertModel", tmp_path)
    texts = Texts.draw(pair.ours.config)
    with torch.no_grad():
        theirs = pair.theirs(input_ids=texts.ids, attention_mask=texts.mask)[0]
        ours = pair.ours.encoder.padded(texts.ids, texts.mask).last_hidden
    close(ours, theirs)
    assert not ours[~texts.mask].any()
