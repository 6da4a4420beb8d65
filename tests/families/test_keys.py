"""Keys of a config.json are read with their types, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.activations import ACT2FN

from bothways.errors import ConfigError, UnsupportedModelError
from bothways.families.keys import ACTIVATION_OF, NAME_OF_ACTIVATION, ConfigKeys
from bothways.model.activations import ACTIVATIONS

# float32; the tanh forms of gelu are spelled in several ways that round differently.
ATOL = 2e-6


def keys(**raw: Any) -> ConfigKeys:
    return ConfigKeys(raw, "models/x/config.json")


def test_an_absent_key_has_its_default() -> None:
    assert keys().whole("layers", 3) == 3
    assert keys().number("rate", 0.5) == 0.5
    assert keys().text("kind", "plain") == "plain"
    assert keys().flag("bias", True) is True


def test_null_counts_as_absent() -> None:
    assert keys(rate=None).number("rate", 0.5) == 0.5


def test_an_absent_key_without_a_default_names_the_file_and_the_nearest_key() -> None:
    with pytest.raises(ConfigError, match=r"models/x/config\.json has no 'hidden_size'; did you"):
        keys(hiden_size=3).whole("hidden_size")
    with pytest.raises(ConfigError, match="is empty"):
        keys().whole("hidden_size")


@pytest.mark.parametrize("value", [0, -1, 2.0, "3", True, [1]])
def test_a_wrong_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"layers is .*; expected a whole number of at least 1"):
        keys(layers=value).whole("layers")


def test_sizes_that_no_encoder_has_are_refused_before_anything_is_built() -> None:
    with pytest.raises(ConfigError, match="size is 2147483648; expected at most 2,147,483,647"):
        keys(size=2**31).whole("size")
    with pytest.raises(ConfigError, match="layers is 10001; expected at most 10,000"):
        keys(layers=10_001).layers("layers")


@pytest.mark.parametrize("value", ["BertModel", [3], {"a": 1}])
def test_words_come_in_a_list(value: Any) -> None:
    assert keys(names=["a"]).words("names") == ("a",)
    assert keys(names=None).words("names") == keys().words("names") == ()
    with pytest.raises(ConfigError, match="names is .*; expected a list of texts"):
        keys(names=value).words("names")


def test_a_whole_number_is_a_number_too() -> None:
    assert keys(rate=0).number("rate") == 0.0


@pytest.mark.parametrize("value", ["0.1", True, [0.1], float("nan"), float("inf")])
def test_a_wrong_number_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"rate is .*; expected a finite number"):
        keys(rate=value).number("rate")


def test_an_index_may_be_null_but_not_negative() -> None:
    assert keys(pad=None).index("pad", 0) is None
    assert keys().index("pad", 0) == 0
    assert keys(pad=7).index("pad", 0) == 7
    with pytest.raises(ConfigError, match="pad is -1"):
        keys(pad=-1).index("pad", 0)


def test_flags_and_texts_have_their_types() -> None:
    with pytest.raises(ConfigError, match="expected true or false"):
        keys(bias=1).flag("bias", True)
    with pytest.raises(ConfigError, match="expected a text"):
        keys(kind=1).text("kind", "plain")


def test_the_tanh_forms_of_gelu_are_one_activation() -> None:
    names = ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")
    assert {keys(act=name).activation("act") for name in names} == {"gelu_tanh"}
    assert keys().activation("act") == "gelu"


@pytest.mark.parametrize("name", ACTIVATION_OF)
def test_each_activation_is_the_function_that_its_name_means(name: str) -> None:
    values = torch.linspace(-6.0, 6.0, 101)
    ours = ACTIVATIONS[keys(act=name).activation("act")](values)
    torch.testing.assert_close(ours, ACT2FN[name](values), rtol=0.0, atol=ATOL)


def test_an_unknown_activation_names_the_nearest() -> None:
    with pytest.raises(UnsupportedModelError, match="did you mean 'gelu_new'"):
        keys(act="gelu_now").activation("act")


def test_activation_names_are_written_as_they_are_read() -> None:
    assert all(ACTIVATION_OF[name] == ours for ours, name in NAME_OF_ACTIVATION.items())
    assert set(NAME_OF_ACTIVATION) == set(ACTIVATION_OF.values())


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    assert keys().head_size(12, 3) == 4
    with pytest.raises(ConfigError, match=r"13, is not divisible by .* 3"):
        keys().head_size(13, 3)
