"""The model card says what is known and nothing else."""

from __future__ import annotations

from bothways.checkpoints.card import CardFacts, render_card
from bothways.tokenization.encoding import Ledger

FACTS = CardFacts(
    title="Topics",
    base_model='org/"base": x',
    task="classify",
    labels=("sport", "news"),
    data=("1,000 texts",),
    scores={"dev": {"accuracy": "0.900 [0.880, 0.920]"}, "test": {"f1_macro": "0.800"}},
    ledger=Ledger(texts=10, texts_cut=2, tokens=400, tokens_cut=100, end="tail"),
    limits=("English only",),
    use=("import bothways",),
)


def card(facts: CardFacts) -> str:
    return render_card(facts, in_transformers="in transformers: BertModel", max_length=128)


def test_every_fact_is_on_the_card() -> None:
    text = card(FACTS)
    for piece in (
        "# Topics",
        "Task: classify.",
        "Reads at most 128 tokens",
        "In transformers: BertModel.",
        "`sport`, `news`",
        "- 1,000 texts",
        "| dev | 0.900 [0.880, 0.920] |  |",
        "| test |  | 0.800 |",
        "2 of 10 texts were cut, 100 of 400 tokens (25.0%, end: tail)",
        "- English only",
        "import bothways",
    ):
        assert piece in text


def test_the_front_matter_is_quoted() -> None:
    lines = card(FACTS).splitlines()
    assert lines[0] == "---"
    assert 'base_model: "org/\\"base\\": x"' in lines[: lines.index("---", 1)]


def test_a_card_without_facts_has_no_empty_sections() -> None:
    text = card(CardFacts("Bare"))
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["# Bare", "## Limits"]
    assert "\n\n\n" not in text


def test_nothing_lost_is_said_too() -> None:
    text = card(CardFacts("All", ledger=Ledger(texts=10, tokens=400)))
    assert "Nothing: all 400 tokens of 10 texts were read." in text


def test_many_labels_are_counted() -> None:
    text = card(CardFacts("Many", labels=tuple(f"l{n}" for n in range(130))))
    assert "`l99`, and 30 more" in text
