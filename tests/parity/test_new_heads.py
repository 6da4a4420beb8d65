"""What was made here from axes alone, transformers loads, under each head that a family publishes.

The configuration is then written without a file to start from, and the head is new.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import (
    Parts,
    adapt,
    family_form,
    new_head,
    new_parts,
    published_form,
)
from bothways.checkpoints.save import save_parts
from bothways.families.registry import FAMILIES
from bothways.families.spec import HeadKind
from bothways.model.encoder import Encoder
from bothways.model.heads import ClassificationHead, Pooling, TokenHead
from tests.parity.families import NUM_LABELS, ROWS, SPREAD, Pair, Row
from tests.parity.test_parity import close, run


def _cases() -> Iterator[tuple[Row, HeadKind]]:
    """Every kind of head on the first row of a family; on its other rows a classifier will do."""
    seen: set[str] = set()
    for row in ROWS:
        heads = FAMILIES[row.model_type].heads.values()
        kinds = dict.fromkeys(head.kind for head in heads if head.published)
        yield from (
            (row, kind) for kind in kinds if row.model_type not in seen or kind == "sequence"
        )
        seen.add(row.model_type)


def made_here(row: Row) -> Parts:
    """A random encoder of a row's shape, which comes from no file."""
    family = FAMILIES[row.model_type]
    raw = transformers.AutoConfig.for_model(row.model_type, **row.keys).to_dict()
    config = dataclasses.replace(family.read_config(raw), initializer_range=SPREAD)
    encoder = Encoder(config)
    parts = new_parts(config, encoder=encoder)
    return dataclasses.replace(parts, family=family, architecture=family.bare)


@pytest.mark.parametrize(
    ("row", "kind"),
    [pytest.param(row, kind, id=f"{row.model_type}-{row.name}-{kind}") for row, kind in _cases()],
)
def test_a_new_head_is_saved_as_the_class_that_has_it(
    row: Row, kind: HeadKind, tmp_path: Path
) -> None:
    parts = made_here(row)
    head_spec = parts.family.heads[parts.family.head_of_kind(kind) or ""]
    count = NUM_LABELS if head_spec.num_outputs is None else head_spec.num_outputs
    labels = [f"label {index}" for index in range(count)] if kind in ("sequence", "token") else []
    parts = adapt(parts, new_head(parts, kind, count), kind=kind, labels=labels)
    assert not parts.head_trained
    assert parts.in_transformers() == f"in transformers: {parts.architecture}, same numbers"
    save_parts(parts.trained(), tmp_path)
    theirs, info = getattr(transformers, parts.architecture).from_pretrained(
        tmp_path, output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"]
    assert not info["mismatched_keys"]
    assert all(".pooler." in name for name in info["unexpected_keys"])
    with torch.no_grad():
        both = run(Pair(theirs.eval(), parts, kind), weights=False)
        assert both.logits
        for reference, mine in both.logits:
            close(mine, reference)
    again = load_parts(tmp_path)
    assert (again.architecture, again.config) == (parts.architecture, parts.config)
    assert list(again.labels) == labels
    assert theirs.config.num_labels == (count if labels else 2)


every_family = pytest.mark.parametrize("model_type", dict.fromkeys(row.model_type for row in ROWS))


@every_family
def test_a_classifier_of_open_form_takes_that_of_its_family(model_type: str) -> None:
    """So that what is fine-tuned without further choices is read by transformers."""
    parts = made_here(next(row for row in ROWS if row.model_type == model_type))
    pooling: Pooling = "cls" if parts.encoder.pooler is None else "pooler"
    plain = ClassificationHead(parts.config.hidden_size, 3, pooling=pooling)
    adapted = adapt(parts, family_form(parts, plain))
    assert adapted.architecture == parts.family.head_of_kind("sequence")
    assert adapted.report.untrained == ("head",)


@pytest.mark.parametrize("model_type", ["bert", "albert"])
def test_an_absent_pooler_is_learned_in_the_head_and_saved_in_its_place(
    model_type: str, tmp_path: Path
) -> None:
    """A frozen encoder then holds nothing random, and transformers finds all that it wants."""
    made = made_here(next(row for row in ROWS if row.model_type == model_type))
    config = dataclasses.replace(made.config, pooler=False)
    without = dataclasses.replace(made, encoder=Encoder(config).eval())
    plain = ClassificationHead(config.hidden_size, NUM_LABELS, pooling="cls")
    parts = adapt(without, family_form(without, plain))
    assert parts.report.untrained == ("head",)
    assert parts.encoder is without.encoder
    name = made.family.head_of_kind("sequence")
    assert parts.in_transformers() == f"in transformers: {name}, same numbers"
    save_parts(parts.trained(), tmp_path)
    again = load_parts(tmp_path)
    assert (again.architecture, again.head_trained) == (name, True)
    theirs, info = getattr(transformers, str(name)).from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(info.values()), info
    with torch.no_grad():
        for read in (parts, again):
            both = run(Pair(theirs.eval(), read, "sequence"), weights=False)
            for reference, mine in both.logits:
                close(mine, reference)


def test_a_layer_that_is_no_pooler_stays_in_the_head(tmp_path: Path) -> None:
    made = made_here(ROWS[0])
    without = dataclasses.replace(
        made, encoder=Encoder(dataclasses.replace(made.config, pooler=False))
    )
    head = ClassificationHead(made.config.hidden_size, 3, pooling="mean", dense="tanh")
    parts = adapt(without, head)
    assert published_form(parts) is parts
    save_parts(parts, tmp_path)
    assert load_parts(tmp_path).encoder.pooler is None


def test_other_heads_keep_their_form() -> None:
    parts = made_here(ROWS[0])
    head = TokenHead(parts.config.hidden_size, 3)
    assert family_form(parts, head) is head
