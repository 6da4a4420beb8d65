"""Named shapes: the published ones have the published sizes, and a family can say each."""

from __future__ import annotations

import pytest
import torch

from bothways.checkpoints.empty import without_memory
from bothways.errors import UsageError
from bothways.families.presets import PRESETS, generator_of, preset
from bothways.families.registry import family_of
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder

# Millions of weights of the published models, without heads: BERT (Devlin et al. 2019, 110 and
# 340 with the pooler), RoBERTa (124.6), ModernBERT (149), ELECTRA (13.5), DeBERTa-v3-small (141).
MILLIONS = {
    "tiny": 4.4,
    "mini": 11.2,
    "small": 28.8,
    "bert-base": 109.5,
    "bert-large": 335.1,
    "roberta-base": 124.6,
    "modern-base": 149.0,
    "electra-small": 13.5,
    "deberta-small": 141.3,
}
FAMILIES = {
    "tiny": "bert",
    "mini": "bert",
    "small": "bert",
    "bert-base": "bert",
    "bert-large": "bert",
    "roberta-base": "roberta",
    "modern-tiny": "modernbert",
    "modern-mini": "modernbert",
    "modern-base": "modernbert",
    "electra-small": "electra",
    "deberta-small": "deberta-v2",
}


def millions(config: EncoderConfig) -> float:
    with without_memory():
        return Encoder(config).num_parameters() / 1e6


@pytest.mark.parametrize(("name", "expected"), MILLIONS.items())
def test_published_shapes_have_the_published_size(name: str, expected: float) -> None:
    assert millions(preset(name)) == pytest.approx(expected, abs=0.06)


def test_every_preset_is_said_by_its_family() -> None:
    assert {name: family_of(config).model_type for name, config in PRESETS.items()} == FAMILIES


@pytest.mark.parametrize("name", PRESETS)
def test_a_smaller_vocabulary_builds_and_runs(name: str) -> None:
    config = preset(name).with_vocab_size(60)
    if config.hidden_size > 256:
        return  # the same classes as the small ones; only slower
    encoder = Encoder(config).eval()
    states = encoder.padded(torch.arange(5, 15).view(2, 5)).last_hidden
    assert states.shape == (2, 5, config.hidden_size)


@pytest.mark.parametrize(("name", "family"), [("electra-small", "electra"), ("mini", "bert")])
def test_a_generator_is_smaller_and_shares_its_embeddings(name: str, family: str) -> None:
    shape = preset(name)
    generator = generator_of(shape)
    assert generator.embeddings == shape.embeddings
    assert millions(generator) < millions(shape)
    assert family_of(generator).model_type == family
    assert not generator.pooler


def test_generators_have_the_published_shapes() -> None:
    electra = generator_of(preset("electra-small"))
    assert (electra.hidden_size, electra.attention.num_heads, electra.num_layers) == (64, 1, 12)
    assert electra.feedforward.size == 256
    deberta = generator_of(preset("deberta-small"))
    assert (deberta.hidden_size, deberta.num_layers) == (768, 3)
    modern = generator_of(preset("modern-base"))
    assert len(modern.attention.layer_kinds) == modern.num_layers == 11


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'modern-mini'"):
        preset("modern_mini")
