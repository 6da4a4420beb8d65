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
        lines.append(f"x = layer_norm(x) # eps {config.norm.eps:g}")
    lines.append(f"x = dropout(x) # {config.dropout.hidden:g} in training")
    if config.projects_embeddings:
        lines.append(f"x = linear(x) # {axis.size} -> {config.hidden_size}")
    return lines


def _layers(config: EncoderConfig) -> list[str]:
    pre = config.norm.placement == "pre"
    inner = f"{config.layers_per_group} in turn, " if config.layers_per_group > 1 else ""
    shared = (
        f" # {inner}{config.num_blocks} with weights of their own"
        if config.num_layer_groups
        else ""
    )
    lines = [f"for layer in 1 .. {config.num_layers}:{shared}"]
    source = "layer_norm(x)" if pre else "x"
    first = " # not before the first layer's attention" if config.norm.skip_first else ""
    lines += [f"    a = {source}{first}" if pre else "    a = x", *_attention(config)]
    rates = config.dropout
    undropped = (rates.hidden if rates.attention_output is None else rates.attention_output) == 0
    lines += _sublayer(config, "linear(mixed)" if undropped else "dropout(linear(mixed))", pre)
    if config.convolution is not None:
        axis = config.convolution
        lines.append(
            f"    in layer 1: x = layer_norm(x + {axis.activation}(convolution(embeddings)))"
            f" # {axis.kernel} tokens wide, {axis.groups} groups"
        )
    axis_ = config.feedforward
    bias = "" if axis_.bias else ", no bias"
    gate = " * linear(b)" if axis_.gated else ""
    lines += [
        f"    b = {source}",
        f"    h = {axis_.activation}(linear(b)){gate} # {config.hidden_size} -> {axis_.size}{bias}",
    ]
    last = "dropout(linear(h))" if rates.hidden else "linear(h)"
    return lines + _sublayer(config, last, pre)


def _sublayer(config: EncoderConfig, value: str, pre: bool) -> list[str]:
    total = f"x + {value}"
    return [f"    x = {total if pre else f'layer_norm({total})'} # eps {config.norm.eps:g}"]


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
        shared = ", content projections shared" if relative.shared_projections else ""
        lines.append(
            f"    s = ({told}) / sqrt({1 + len(relative.terms)} head size)"
            f" # r = vector of i - j, {rows}{shared}"
        )
    kinds = config.layer_kinds
    if "local" in kinds:
        lines.append(
            f"    s(i, j) only where |i - j| <= {axis.window}, in local layers # {_runs(kinds)}"
        )
    lines.append(
        f"    mixed = dropout(softmax(s)) v # {config.dropout.attention:g} in training; every "
        "token sees all of its text"
        if "local" not in kinds
        else f"    mixed = dropout(softmax(s)) v # {config.dropout.attention:g} in training"
    )
    return lines


def _runs(kinds: tuple[str, ...]) -> str:
    """`1 global, 2 local, 1 global, ...` for the layers in order."""
    runs = [f"{len(list(run))} {kind}" for kind, run in groupby(kinds)]
    return ", ".join(runs) if len(runs) <= 4 else ", ".join(runs[:4]) + ", ..."


def _ending(config: EncoderConfig) -> list[str]:
    lines = []
    if config.norm.final:
        lines.append(f"x = layer_norm(x) # eps {config.norm.eps:g}")
    lines.append(f"last_hidden = x # (tokens, {config.hidden_size})")
    if config.pooler:
        lines.append("pooled = tanh(linear(x at each text's first token))")
    return lines
