"""Where heads look, by hand; and parts of a prediction that add up to the whole."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from bothways.checkpoints.parts import adapt, new_parts
from bothways.diagnostics.attention import attention, measures
from bothways.diagnostics.attributions import INCOMPLETE, attribute
from bothways.diagnostics.evidence import Evidence
from bothways.errors import MissingExtraError, NotAsked
from bothways.inference.model import Model
from bothways.model.config import DropoutConfig
from bothways.model.heads import ClassificationHead
from bothways.report.words import draw_words
from bothways.tasks.classify import ClassifyExample
from bothways.tasks.results import TagResult
from bothways.tasks.tag import TagTask
from tests.contracts.cases import CASES, SPREAD, change
from tests.diagnostics.planted import LABELS, Planted, evidence_of, sentences, tiny

captum = pytest.importorskip("captum")

# Of sums of float32 gradients, as a share of the whole.
ADDING_UP = 1e-3


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    draw = np.random.default_rng(0)
    return evidence_of(Planted(sentences(draw, 200), sentences(draw, 40)))


def test_shares_and_entropy_by_hand() -> None:
    """Three pieces, the outer ones special; one head looks at the first, one evenly."""
    weights = torch.stack([torch.tensor([[1.0, 0, 0]] * 3), torch.full((3, 3), 1 / 3)])
    entropy, first, special, later = measures(weights, torch.tensor([True, False, True]))
    assert entropy == pytest.approx([0.0, 1.0])
    assert first == pytest.approx([1.0, 1 / 3])
    assert special == pytest.approx([0.0, 1 / 3])
    assert later == pytest.approx([0.0, 1 / 3])


def test_heads_are_read_over_all_texts(evidence: Evidence) -> None:
    found = attention(evidence, texts=3)
    assert found.texts == 40
    assert found.entropy.shape == (1, 2)
    assert ((found.entropy >= 0) & (found.entropy <= 1)).all()
    assert found.evenly == pytest.approx(0.45)  # 8 words between 2 special pieces
    assert len(found.coloured) == 3
    assert [finding.severity for finding in found.findings()] == ["fine", "fine"]


def test_the_telling_word_adds_most_and_the_parts_add_up(evidence: Evidence) -> None:
    """A linear head over a nearly linear encoder: what a word adds is what taking it away takes."""
    telling = 0
    for index in range(10):
        found = attribute(evidence, index)
        assert found.error < ADDING_UP
        text = evidence.examples[index].text
        assert "".join(found.words) == text
        telling += bool(found.words[int(np.abs(found.scores).argmax())].strip() == text.split()[2])
    assert telling >= 6


def test_a_text_that_is_hidden_already_has_nothing_to_add(evidence: Evidence) -> None:
    first, ledger = evidence.encodings[0][0], evidence.ledger
    mask = evidence.model.tokenizer.mask_id
    assert mask is not None
    ids = [own if given else mask for own, given in zip(first.ids, first.special, strict=True)]
    hidden = replace(evidence, examples=evidence.examples[:1])
    vars(hidden)["_encoded"] = [[replace(first, ids=ids)]], ledger
    assert np.abs(attribute(hidden, 0).scores).max() == 0.0


FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "deberta-v3", "modern")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_kind_of_encoder_has_parts_that_add_up(name: str, evidence: Evidence) -> None:
    tokenizer = tiny().tokenizer
    assert tokenizer
    config = change(
        CASES[name],
        embeddings__vocab_size=tokenizer.vocab_size,
        embeddings__max_positions=64,
        dropout=DropoutConfig(hidden=0.0, attention=0.0),
    )
    torch.manual_seed(0)
    parts = new_parts(config, tokenizer=tokenizer)
    head = ClassificationHead(config.hidden_size, len(LABELS), pooling="mean")
    with torch.no_grad():
        for weight in (*parts.encoder.parameters(), *head.parameters()):
            if weight.dim() > 1:
                weight.normal_(0, SPREAD)
    model = Model(adapt(parts, head, labels=LABELS, trained=True))
    model.task = evidence.task
    found = attention(replace(evidence.part(10), model=model), texts=3)
    assert found.entropy.shape == (config.num_layers, config.attention.num_heads)
    assert max(each.error for each in found.coloured) < INCOMPLETE
    assert min(np.abs(each.scores).max() for each in found.coloured) > 0


def test_pairs_are_parted_and_cut_texts_say_so(evidence: Evidence) -> None:
    pair = [ClassifyExample("ba bea", "di gon", label="sad")]
    task = replace(evidence.task, pairs=True)  # type: ignore[type-var]
    asked = replace(evidence, examples=pair, task=task)
    found = attribute(asked, 0)
    assert found.words == ("ba ", "bea", " / ", "di ", "gon")
    assert found.scores[2] == 0.0
    assert not found.is_cut
    short = replace(asked, policy=replace(asked.policy, max_length=6))
    assert attribute(short, 0).is_cut


def test_an_empty_text_has_no_words(evidence: Evidence) -> None:
    found = attribute(replace(evidence, examples=[ClassifyExample("", label="sad")]), 0)
    assert found.words == ()
    assert found.error == 0.0


def test_without_captum_heads_are_read_and_the_hint_is_given(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(MissingExtraError, match="explain"):
        attribute(evidence, 0)
    heads, words = attention(evidence).findings()
    assert heads.severity == "fine"
    assert words.severity == "not asked"
    assert "bothways[explain]" in words.text


def test_of_tags_only_the_heads_are_read(evidence: Evidence) -> None:
    tags = replace(evidence, task=TagTask())
    vars(tags)["_seen"] = [TagResult((), (), ())] * 40, None
    with pytest.raises(NotAsked, match="not for tag"):
        attribute(tags, 0)


def test_words_are_drawn_with_line_and_colour_and_listed(evidence: Evidence) -> None:
    found = attention(evidence, texts=2)
    figure = found.figures()[-1]
    assert figure.name == "attention_words"
    page = draw_words(figure)
    assert page.count("var(--series-1)") >= 2
    assert "underline solid" in page
    series = replace(figure.series[0], x=("<b> ", "so"), y=(1.0, -0.5), label="a & b")
    page = draw_words(replace(figure, series=(series,)))
    assert "&lt;b&gt;</span> <span" in page
    assert "underline dotted var(--series-2) 3px" in page
    assert "a &amp; b" in page
    table = next(table for table in found.tables() if table.name == "attention_words")
    assert len(table.rows) == 2
