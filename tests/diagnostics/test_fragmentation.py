"""Pieces of words: in all, by script and column, by quarters, and by other tokenizers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bothways.diagnostics.evidence import Evidence
from bothways.diagnostics.fragmentation import Fragmentation, fragmentation, script
from bothways.errors import NotAsked
from bothways.tasks.classify import ClassifyExample
from tests.diagnostics.planted import Planted, evidence_of, sentences, tiny


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """A third of the texts is written backwards, and so in single letters."""
    draw = np.random.default_rng(0)
    test = [
        replace(e, text=e.text[::-1]) if number % 3 == 0 else e
        for number, e in enumerate(sentences(draw, 150))
    ]
    sides = tuple(("back", "forth", None)[min(number % 3, 1 + number % 2)] for number in range(150))
    return evidence_of(Planted(sentences(draw, 150), test, columns={"side": sides}))


@pytest.fixture(scope="module")
def found(evidence: Evidence) -> Fragmentation:
    return fragmentation(evidence)


def test_scripts_are_told_by_most_letters() -> None:
    texts = ["abc да", "да что", "ราชา ok", "قال", "中文", "かな", "12 ?!", ""]
    assert [script(text) for text in texts] == [
        *("latin", "cyrillic", "thai", "arabic", "cjk", "hiragana", "none", "none")
    ]


def test_groups_have_the_pieces_and_scores_of_their_texts(
    evidence: Evidence, found: Fragmentation
) -> None:
    groups = {(group.kind, group.name): group for group in found.groups}
    assert set(groups) == {
        ("side", "back"),
        ("side", "forth"),
        ("quarter", "most fragmented"),
    }
    back, forth = groups["side", "back"], groups["side", "forth"]
    those = np.array([side == "back" for side in evidence.columns["side"]])
    assert back.count == those.sum() == 50
    assert forth.pieces_per_word == 1.0
    assert back.pieces_per_word == pytest.approx(2.4, abs=0.3)
    assert back.score.value == pytest.approx(evidence.credit[those].mean())
    assert back.gap is not None
    assert back.gap.value == pytest.approx(
        evidence.credit[those].mean() - evidence.credit[~those].mean()
    )
    assert back.is_shattered
    assert back.is_behind
    assert not forth.is_shattered


def test_the_finding_names_the_group_and_the_words(found: Fragmentation) -> None:
    (finding,) = found.findings()
    assert finding.severity == "alarm"
    assert "'back' (by side)" in finding.text
    words = next(t for t in found.tables() if t.name == "fragmentation_words").rows
    assert words[0][1] == 3
    assert str(words[0][0])[::-1] in " ".join(
        word for e in sentences(np.random.default_rng(0), 150) for word in e.text.split()
    )
    (figure,) = found.figures()
    assert {series.label for series in figure.series} == {"side", "quarter"}


def test_a_vocabulary_that_fits_nothing_is_an_alarm(evidence: Evidence) -> None:
    thai = [ClassifyExample("ราชาธิราช ไทย", label="sad")] * 30
    one = fragmentation(replace(evidence, examples=thai, columns={}))
    assert one.pieces.unknown_rate > 0.9
    assert one.findings()[0].severity == "alarm"
    assert (
        fragmentation(replace(evidence, examples=thai[:3], columns={})).findings()[0].severity
        == "note"
    )


def test_other_tokenizers_read_the_same_texts(evidence: Evidence, tmp_path: Path) -> None:
    tokenizer = tiny().tokenizer
    assert tokenizer is not None
    tokenizer.save(tmp_path / "same")
    found = fragmentation(evidence, compare=[str(tmp_path / "same")])
    (name,) = found.others
    assert found.others[name].pieces_per_word == found.pieces.pieces_per_word
    rows = next(t for t in found.tables() if t.name == "fragmentation_tokenizers").rows
    assert rows[0][1:] == rows[1][1:]
    assert "worth a try" not in found.findings()[0].text


def test_texts_without_words_cannot_be_asked(evidence: Evidence) -> None:
    silent = [ClassifyExample("...", label="sad")] * 3
    with pytest.raises(NotAsked, match="no words"):
        fragmentation(replace(evidence, examples=silent, columns={}))
