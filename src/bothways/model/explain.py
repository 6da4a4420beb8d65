"""A configuration as one readable page: the forward pass with every choice resolved.

The equations themselves are in the other files of this folder; here they are only told.
"""

from __future__ import annotations

from itertools import groupby

from bothways.model.config import EncoderConfig


def explain(config: EncoderConfig) -> str:
    """The forward pass of an encoder in about thirty lines.

    Args:
        config: any encoder's.

    Example:
        >>> print(explain(config))  # doctest: +SKIP
        x = words[ids]                                  (tokens, 384) of 30,522 rows
        ...
    """
    lines = [*_embeddings(config), "", *_layers(config), "", *_ending(config)]
    width = max(len(left) for left, _ in map(_split, lines)) + 2
    return "\n".join(f"{left:<{width}}{right}".rstrip() for left, right in map(_split, lines))


def _split(line: str) -> tuple[str, str]:
    left, _, right = line.partition(" # ")
    return left.rstrip(), right


def _embeddings(config: EncoderConfig) -> list[str]:
    axis = config.embeddings
    scale = "" if axis.scale == 1.0 else f" * {axis.scale:g}"
    lines = [f"x = words[ids]{scale} # (tokens, {axis.size}), {axis.vocab_size:,} rows"]
    if axis.num_types:
        lines.append(f"x = x + types[type_ids] # {axis.num_types} rows")
    if axis.positions != "none":
        start = f" + {axis.position_start}" if axis.position_start else ""
        lines.append(
            f"x = x + positions[0, 1, 2, ...{start}] # {axis.positions}, {axis.max_positions:,} "
            f"rows, texts of up to {axis.usable_positions:,} tokens"
        )
    if axis.norm:
        lines.append(f"x = layer_norm(x) # {_norm(config)}")
    if config.dropout.hidden:
        lines.append(f"x = dropout(x) # {config.dropout.hidden:g} in training")
    if config.projects_embeddings:
        lines.append(f"x = linear(x) # {axis.size} -> {config.hidden_size}")
    return lines


def _layers(config: EncoderConfig) -> list[str]:
    rates, axis = config.dropout, config.feedforward
    remarks = []
    if config.num_layer_groups:
        inner = f"{config.layers_per_group} in turn, " if config.layers_per_group > 1 else ""
        remarks.append(f"{inner}{config.num_blocks} with weights of their own")
    if rates.layer:
        remarks.append(f"each left out in training at a rate of {rates.layer:g}")
    gate = " * linear(b)" if axis.gated else ""
    inner = _dropped(f"{axis.activation}(linear(b)){gate}", rates.activation)
    sizes = f"{config.hidden_size} -> {axis.size}{'' if axis.bias else ', no bias'}"
    skipped = config.norm.skip_first and config.norm.placement == "pre"
    first = ", not before the first layer's attention" * skipped
    lines = [
        f"for layer in 1 .. {config.num_layers}: # {'; '.join(remarks)}",
        f"    a = {_before(config)}{first}",
        *_attention(config),
        _after(config, "linear(mixed)", rates.attention_output),
        f"    b = {_before(config)}",
        f"    h = {inner} # {sizes}",
        _after(config, "linear(h)", rates.feedforward_output),
    ]
    if config.convolution is not None:
        wide = config.convolution
        beside = f"{wide.activation}({_dropped('convolution(embeddings)', rates.hidden)})"
        lines.append(
            f"    in layer 1: x = layer_norm(x + {beside}) # {wide.kernel} tokens wide, "
            f"{wide.groups} groups"
        )
    return lines


def _before(config: EncoderConfig) -> str:
    """What a sub-layer reads."""
    return f"layer_norm(x) # {_norm(config)}" if config.norm.placement == "pre" else "x"


def _after(config: EncoderConfig, value: str, rate: float | None) -> str:
    """The sum with what a sub-layer gives."""
    total = f"x + {_dropped(value, config.dropout.hidden if rate is None else rate)}"
    if config.norm.placement == "pre":
        return f"    x = {total}"
    return f"    x = layer_norm({total}) # {_norm(config)}"


def _norm(config: EncoderConfig) -> str:
    return f"eps {config.norm.eps:g}" + ", no bias" * (not config.norm.bias)


def _dropped(value: str, rate: float) -> str:
    return f"dropout({value})" if rate else value


def _attention(config: EncoderConfig) -> list[str]:
    axis = config.attention
    bias = {"all": "", "no_key": ", no bias on keys", "none": ", no bias"}[axis.bias]
    lines = [
        f"    q, k, v = linear(a) # {axis.num_heads} heads of {axis.head_size}{bias}",
    ]
    if axis.rotary is not None:
        thetas = {"global": axis.rotary.global_theta, "local": axis.rotary.local_theta}
        told = ", ".join(
            f"theta {thetas[kind]:g} ({kind})" for kind in sorted(set(config.layer_kinds))
        )
        lines.append(f"    q, k = rotate(q), rotate(k) # by position, {told}")
    if config.relative is None:
        lines.append("    s = q k / sqrt(head size)")
    else:
        relative = config.relative
        terms = {"c2p": "q key(r)", "p2c": "k query(r)"}
        told = " + ".join(["q k", *(terms[term] for term in relative.terms)])
        rows = (
            f"{relative.buckets} log buckets each way"
            if relative.buckets
            else f"distances up to {relative.max_distance}"
        )
        vector = "layer_norm(vector of i - j)" if relative.normalised else "vector of i - j"
        projections = (
            ", content projections shared"
            if relative.shared_projections
            else ", no bias on its keys" * (not relative.key_bias)
        )
        lines.append(
            f"    s = ({told}) / sqrt({1 + len(relative.terms)} head size)"
            f" # r = {vector}, {rows}{projections}"
        )
    kinds = config.layer_kinds
    if "local" in kinds:
        lines.append(
            f"    s(i, j) only where |i - j| <= {axis.window}, in local layers # {_runs(kinds)}"
        )
    rate = config.dropout.attention
    remarks = [f"{rate:g} in training"] * bool(rate)
    if "local" not in kinds:
        remarks.append("every token sees all of its text")
    lines.append(f"    mixed = {_dropped('softmax(s)', rate)} v # {'; '.join(remarks)}")
    return lines


def _runs(kinds: tuple[str, ...]) -> str:
    """`1 global, 2 local, 1 global, ...` for the layers in order."""
    runs = [f"{len(list(run))} {kind}" for kind, run in groupby(kinds)]
    return ", ".join(runs) if len(runs) <= 4 else ", ".join(runs[:4]) + ", ..."


def _ending(config: EncoderConfig) -> list[str]:
    lines = []
    if config.norm.final:
        lines.append(f"x = layer_norm(x) # {_norm(config)}")
    lines.append(f"last_hidden = x # (tokens, {config.hidden_size})")
    if config.pooler:
        lines.append("pooled = tanh(linear(x at each text's first token))")
    return lines
