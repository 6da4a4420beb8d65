"""`bothways inspect`: what a model folder holds and how it reads a text."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from bothways.cli.inputs import open_model
from bothways.cli.output import Output
from bothways.config import CommonSettings
from bothways.errors import UsageError, counted

if TYPE_CHECKING:
    from bothways.inference.model import Model


@dataclass(frozen=True)
class Settings:
    """Show what a model holds: shape, parameters, what became of every tensor.

    Attributes:
        name: folder or hub name.
        model: the same, as a flag.
        explain: also print the forward pass with every choice resolved.
        text: also show this text's pieces and where its attention goes.
    """

    name: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    model: str | None = None
    explain: bool = False
    text: str | None = None
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Load and describe."""
    from bothways.model.explain import explain

    names = [*settings.name, *([] if settings.model is None else [settings.model])]
    if len(names) != 1:
        raise UsageError(f"inspect takes one model; it got {len(names)}")
    model = open_model(names[0], settings.common)
    data = _facts(names[0], model)
    parts = [_told(data), model.report.summary()]
    if settings.explain:
        data["explain"] = explain(model.encoder.config)
        parts += ["", data["explain"]]
    if settings.text is not None:
        data["text"], told = _text(model, settings.text, settings.common)
        parts += ["", told]
    return Output("\n".join(parts), data)


def _facts(name: str, model: Model) -> dict[str, Any]:
    config = model.encoder.config
    return {
        "model": name,
        "family": model.parts.family.title,
        "architecture": model.parts.architecture,
        "transformers": model.parts.in_transformers(),
        "parameters": model.encoder.num_parameters(),
        "layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "heads": config.attention.num_heads,
        "usable_positions": config.embeddings.usable_positions,
        "vocabulary": config.embeddings.vocab_size,
        "abilities": model.abilities(),
        "labels": list(model.parts.labels),
        "labels_of": {name: list(one.parts.labels) for name, one in model.heads.items()},
        "bit_invariant": model.bit_invariant,
        "int8": _int8(model),
        "config": dataclasses.asdict(config),
        "report": model.report.as_dict(),
    }


def _told(facts: dict[str, Any]) -> str:
    rows = {
        "family": facts["family"],
        "size": f"{counted(facts['layers'], 'layer')}, {facts['hidden_size']} wide, "
        f"{counted(facts['heads'], 'head')}, "
        f"{facts['parameters'] / 1e6:.1f} million parameters",
        "reads": f"up to {facts['usable_positions']} tokens, {facts['vocabulary']:,} pieces",
        "can": ", ".join(facts["abilities"]) or "nothing, because it has no tokenizer",
        **({"labels": _listed(facts["labels"])} if facts["labels"] else {}),
        **{f"labels of {name}": _listed(own) for name, own in facts["labels_of"].items() if own},
        "saves as": facts["transformers"],
        **({"int8": facts["int8"]["told"]} if facts["int8"] else {}),
        "same bits alone and in any batch": "yes" if facts["bit_invariant"] else "no",
    }
    width = max(map(len, rows)) + 2
    return "\n".join(f"{name:<{width}}{value}" for name, value in rows.items())


def _int8(model: Model) -> dict[str, Any] | None:
    """Which layers run in int8, and how that was judged; None where none does."""
    from bothways.inference.int8_files import int8_sentence
    from bothways.inference.int8_layers import quantised

    running = list(quantised(model.encoder))
    if not running:
        return None
    told = int8_sentence(model.encoder, model.parts.settings)
    return {"told": told, "layers": running, **model.parts.settings.get("int8", {})}


def _listed(labels: list[str]) -> str:
    return f"{len(labels)}: {', '.join(labels[:12])}{', ...' * (len(labels) > 12)}"


def _text(model: Model, text: str, common: CommonSettings) -> tuple[dict[str, Any], str]:
    from bothways.inference.lookahead import lookahead

    policy = model.policy(common.max_length, common.policy, common.overlap)
    encoding = model.tokenizer.encode(text, max_length=policy.max_length, policy=policy.keep)
    tokens = model.tokenizer.tokens(encoding.ids)
    pieces = [
        {"piece": token, "id": piece, "start": start, "end": end, "surface": text[start:end]}
        for token, piece, (start, end) in zip(tokens, encoding.ids, encoding.offsets, strict=True)
    ]
    layers = lookahead(model.encoder, encoding)
    lines = [f"{counted(len(pieces), 'piece')}, {counted(encoding.tokens_cut, 'token')} cut"]
    lines += [
        f"  {each['id']:>6}  {each['piece']:<20}"
        + (f"{each['start']:>5}-{each['end']:<5}{each['surface']!r}" if each["surface"] else "")
        for each in pieces
    ]
    lines += ["", "attention on          earlier   itself    later positions, which a model that "]
    lines[-1] += "reads only from left to right could not see"
    lines += [
        f"  layer {each.layer:<14}{each.earlier:>7.1%}  {each.itself:>7.1%}  {each.later:>7.1%}"
        for each in layers
    ]
    return {
        "pieces": pieces,
        "tokens_cut": encoding.tokens_cut,
        "attention": [dataclasses.asdict(each) for each in layers],
    }, "\n".join(lines)
