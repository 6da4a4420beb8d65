"""The resolved forward pass: a page that says what the configuration says."""

from __future__ import annotations

import dataclasses

import pytest

from bothways.model.config import DropoutConfig, EncoderConfig
from bothways.model.explain import explain
from tests.contracts.cases import CASES, base_config, change


@pytest.mark.parametrize("config", CASES.values(), ids=CASES.keys())
def test_the_page_is_short_and_names_the_sizes(config: EncoderConfig) -> None:
    page = explain(config)
    lines = page.splitlines()
    assert len(lines) <= 32
    assert max(map(len, lines)) < 160
    assert not any(line != line.rstrip() for line in lines)
    assert f"for layer in 1 .. {config.num_layers}:" in page
    assert f"{config.attention.num_heads} heads of {config.attention.head_size}" in page
    assert f"-> {config.feedforward.size}" in page
    assert f"{config.embeddings.vocab_size:,} rows" in page
    assert "None" not in page
    assert "#" not in page


def test_the_page_of_a_bert() -> None:
    lines = [" ".join(line.split()) for line in explain(base_config()).splitlines()]
    assert lines[:3] == [
        "x = words[ids] (tokens, 24), 37 rows",
        "x = x + types[type_ids] 2 rows",
        "x = x + positions[0, 1, 2, ...] learned, 19 rows, texts of up to 19 tokens",
    ]
    assert "q, k, v = linear(a) 3 heads of 8" in lines
    assert "s = q k / sqrt(head size)" in lines
    assert lines[-1] == "pooled = tanh(linear(x at each text's first token))"


# An axis at another value, and what must be on the page then and only then.
SIGNS: dict[str, tuple[EncoderConfig, str]] = {
    "no types": (CASES["no-types"], "types[type_ids]"),
    "position start": (CASES["position-start"], "positions[0, 1, 2, ... + 2]"),
    "scale": (CASES["scaled"], "words[ids] * "),
    "projection": (CASES["projected"], "10 -> 24"),
    "rotary": (CASES["rotary"], "rotate(q)"),
    "relative": (CASES["relative"], "key(r)"),
    "local": (CASES["local"], "|i - j| <= 1"),
    "gated": (CASES["gated"], " * linear(b)"),
    "no bias": (CASES["feedforward-without-bias"], ", no bias"),
    "final norm": (CASES["final-norm"], "\nx = layer_norm(x)"),
    "shared": (CASES["shared"], "with weights of their own"),
    "convolution": (CASES["convolution"], "convolution(embeddings)"),
    "no key bias": (CASES["no-key-bias"], "no bias on keys"),
}


# Beside the cases: settings that no case has alone.
MORE: dict[str, EncoderConfig] = {
    "relative, normalised": change(CASES["relative"], relative__normalised=True),
    "relative, no key bias": change(CASES["relative"], relative__key_bias=False),
    "no final dropout": change(base_config(), dropout__feedforward_output=0.0),
}


@pytest.mark.parametrize("name", SIGNS)
def test_what_is_special_is_said_and_nothing_else(name: str) -> None:
    config, sign = SIGNS[name]
    plain = explain(change(base_config(), embeddings__norm=False))
    if name == "no types":
        assert sign not in explain(config)
        assert sign in plain
    else:
        assert sign in explain(config)
        assert sign not in plain


def test_every_value_of_an_axis_changes_the_page() -> None:
    """Two encoders that compute different things have different pages."""
    pages: dict[str, list[str]] = {}
    for name, config in {**CASES, **MORE}.items():
        pages.setdefault(explain(config), []).append(name)
    assert [names for names in pages.values() if len(names) > 1] == []


def test_the_convolution_comes_after_the_whole_first_layer() -> None:
    lines = [line.strip() for line in explain(CASES["convolution"]).splitlines()]
    (at,) = [number for number, line in enumerate(lines) if line.startswith("in layer 1:")]
    assert "linear(h)" in lines[at - 1]


def test_no_dropout_is_shown_where_there_is_none() -> None:
    none = DropoutConfig(hidden=0.0, attention=0.0)
    assert "dropout" not in explain(dataclasses.replace(base_config(), dropout=none))
    every = DropoutConfig(activation=0.5, layer=0.25, attention_output=0.0)
    page = explain(dataclasses.replace(base_config(), dropout=every))
    assert "h = dropout(gelu(linear(b)))" in page
    assert "left out in training at a rate of 0.25" in page
    assert "x + linear(mixed)" in page
    assert "x + dropout(linear(h))" in page
