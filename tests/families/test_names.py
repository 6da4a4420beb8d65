"""Names are read and written by one table, and nothing is lost between the two."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bothways.errors import ConfigError
from bothways.families.names import Fused, NameTable
from bothways.model.config import (
    AttentionConfig,
    EmbeddingsConfig,
    EncoderConfig,
    FeedForwardConfig,
)


def config(num_heads: int = 2, head_size: int = 3, layers_per_group: int = 1) -> EncoderConfig:
    width = num_heads * head_size
    return EncoderConfig(
        hidden_size=width,
        num_layers=4,
        embeddings=EmbeddingsConfig(vocab_size=5, size=width),
        attention=AttentionConfig(num_heads, head_size),
        feedforward=FeedForwardConfig(4),
        num_layer_groups=2 if layers_per_group > 1 else 0,
        layers_per_group=layers_per_group,
    )


def parameters(*names: str, shape: tuple[int, ...] = (6, 6)) -> dict[str, Tensor]:
    return {name: torch.randn(shape) for name in names}


def test_a_module_rule_covers_its_weight_and_its_bias() -> None:
    table = NameTable({"dense": "input"})
    slots = table.bind(parameters("input.weight", "input.bias"))
    assert {slot.theirs: slot.ours for slot in slots} == {
        "dense.weight": ("input.weight",),
        "dense.bias": ("input.bias",),
    }


def test_the_index_of_a_block_moves_to_the_other_name() -> None:
    table = NameTable({"encoder.layer.{i}.key": "layers.{i}.key"})
    slots = table.bind(parameters("layers.0.key.weight", "layers.11.key.weight"))
    assert [slot.theirs for slot in slots] == [
        "encoder.layer.0.key.weight",
        "encoder.layer.11.key.weight",
    ]


def test_shared_layers_are_counted_by_group_and_place_in_the_group() -> None:
    table = NameTable({"groups.{group}.layers.{inner}.key": "layers.{i}.key"})
    names = [f"layers.{i}.key.weight" for i in range(4)]
    slots = table.bind(parameters(*names), config(layers_per_group=2))
    assert [slot.theirs for slot in slots] == [
        "groups.0.layers.0.key.weight",
        "groups.0.layers.1.key.weight",
        "groups.1.layers.0.key.weight",
        "groups.1.layers.1.key.weight",
    ]


def test_a_dot_in_a_template_is_a_dot() -> None:
    with pytest.raises(ConfigError, match="inputXweight needs exactly one rule"):
        NameTable({"dense.weight": "input.weight"}).bind(parameters("inputXweight"))


def test_a_parameter_without_a_rule_is_a_mistake_of_the_table() -> None:
    with pytest.raises(ConfigError, match=r"gate\.weight needs exactly one rule; it has none"):
        NameTable({"dense": "input"}).bind(parameters("input.weight", "gate.weight"))


def test_a_parameter_with_two_rules_is_a_mistake_of_the_table() -> None:
    table = NameTable({"dense": "input", "other": "input.weight"})
    with pytest.raises(ConfigError, match="it has 'dense', 'other'"):
        table.bind(parameters("input.weight"))


def test_a_rule_without_a_parameter_is_a_mistake_unless_it_is_optional() -> None:
    names = {"dense": "input", "pooler": "pooler"}
    with pytest.raises(ConfigError, match="the rule 'pooler' has no parameter"):
        NameTable(names).bind(parameters("input.weight"))
    optional = NameTable(names, optional=frozenset({"pooler"}))
    assert len(optional.bind(parameters("input.weight"))) == 1


def test_all_mistakes_of_a_table_stand_in_one_error() -> None:
    with pytest.raises(ConfigError) as caught:
        NameTable({"dense": "input", "pooler": "pooler"}).bind(parameters("a", "b"))
    assert str(caught.value).count("\n") == 4


def test_a_fused_tensor_that_lacks_a_part_is_a_mistake() -> None:
    table = NameTable({"qkv": Fused(("query", "key", "value"))})
    with pytest.raises(ConfigError, match=r"qkv\.weight holds 3 parameters; there are 2"):
        table.bind(parameters("query.weight", "value.weight"))


def test_rows_of_a_fused_tensor_lie_one_parameter_after_another() -> None:
    table = NameTable({"qkv": Fused(("query", "key"))})
    (slot,) = table.bind(parameters("query.weight", "key.weight", shape=(2, 3)))
    fused = torch.arange(12.0).view(4, 3)
    assert slot.shape == (4, 3)
    assert slot.split(fused)["query.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert slot.split(fused)["key.weight"].tolist() == [[6, 7, 8], [9, 10, 11]]


def test_rows_of_a_tensor_fused_by_head_lie_head_after_head() -> None:
    table = NameTable({"in_proj": Fused(("query", "key", "value"), by="heads")})
    ours = parameters("query.weight", "key.weight", "value.weight", shape=(4, 1))
    (slot,) = table.bind(ours, config(num_heads=2, head_size=2))
    # Head 0: two rows of query, of key, of value; then head 1.
    parts = slot.split(torch.arange(12.0).view(12, 1))
    assert parts["query.weight"].flatten().tolist() == [0, 1, 6, 7]
    assert parts["key.weight"].flatten().tolist() == [2, 3, 8, 9]
    assert parts["value.weight"].flatten().tolist() == [4, 5, 10, 11]


@given(
    num_heads=st.integers(1, 4),
    head_size=st.integers(1, 4),
    num_parts=st.integers(1, 4),
    by=st.sampled_from(["rows", "heads"]),
    tail=st.lists(st.integers(1, 3), max_size=2),
)
def test_reading_what_was_written_gives_the_same_bits(
    num_heads: int, head_size: int, num_parts: int, by: str, tail: list[int]
) -> None:
    names = tuple(f"part{n}" for n in range(num_parts))
    target = Fused(names, by="heads" if by == "heads" else "rows") if num_parts > 1 else names[0]
    shape = (num_heads * head_size, *tail)
    ours = parameters(*(f"{name}.weight" for name in names), shape=shape)
    (slot,) = NameTable({"fused": target}).bind(ours, config(num_heads, head_size))
    joined = slot.join(ours)
    assert joined.shape == slot.shape
    again = slot.split(joined)
    assert again.keys() == ours.keys()
    assert all(torch.equal(again[name], ours[name]) for name in ours)


def test_aliases_are_read_and_never_written() -> None:
    table = NameTable({"norm": "norm"}, aliases={r"\.gamma$": ".weight", r"\.beta$": ".bias"})
    assert table.modern("layer.norm.gamma") == "layer.norm.weight"
    assert table.modern("gamma.rays") == "gamma.rays"
    slots = table.bind(parameters("norm.weight", "norm.bias"))
    assert [slot.theirs for slot in slots] == ["norm.weight", "norm.bias"]


def test_what_is_ignored_has_a_reason_and_a_whole_name() -> None:
    table = NameTable({}, ignored={r"position_ids": "counted"})
    assert table.why_ignored("position_ids") == "counted"
    assert table.why_ignored("position_ids.weight") is None


def test_a_table_knows_names_of_its_kind_beyond_its_module() -> None:
    table = NameTable({"layer.{i}.key": "layers.{i}.key"})
    assert table.covers("layer.99.key.weight")
    assert not table.covers("layer.x.key.weight")
    assert not table.covers("cls.layer.1.key.weight")
