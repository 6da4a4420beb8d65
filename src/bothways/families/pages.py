"""What is written about each family: rows of a table, and a page from its own specification.

`bothways families` prints them and `docs/families/` holds them; a test compares the two.
"""

from __future__ import annotations

from bothways.families.published import PUBLISHED
from bothways.families.registry import FAMILIES
from bothways.families.spec import FamilySpec
from bothways.model.explain import explain


def family_rows() -> list[dict[str, str]]:
    """Name, model_type, what it changes against BERT and when to prefer it, a family each."""
    return [
        {
            "family": spec.title,
            "model_type": spec.model_type,
            "checkpoint": PUBLISHED[spec.model_type].name,
            "changes": spec.changes,
            "description": spec.description,
        }
        for spec in FAMILIES.values()
        if spec.model_type in PUBLISHED
    ]


def family_page(model_type: str) -> str:
    """A family's page in Markdown: what it is, its forward pass resolved, its heads."""
    spec, published = FAMILIES[model_type], PUBLISHED[model_type]
    config = spec.read_config(published.config, published.name)
    parts = [
        f"# {spec.title}",
        spec.description,
        f"Against BERT it changes: {spec.changes}.",
        f"`{published.name}`, read into the forward pass:",
        f"```text\n{explain(config)}\n```",
        "Heads, by the class that transformers has for them:",
        _heads(spec),
    ]
    if spec.tokenizer is not None:
        parts.append(
            f"Texts are read as `{spec.tokenizer.single}`, pairs as `{spec.tokenizer.pair}`."
        )
    return "\n\n".join(parts) + "\n"


def _heads(spec: FamilySpec) -> str:
    rows = [f"| {name} | {head.kind.replace('_', ' ')} |" for name, head in spec.heads.items()]
    return "\n".join(["| class | what it predicts |", "|---|---|", *rows])


def family_index() -> str:
    """The page that lists the families, in Markdown."""
    rows = [
        f"| [{row['family']}]({row['model_type']}.md) | {row['model_type']} | {row['changes']} |"
        for row in family_rows()
    ]
    return "\n".join(
        [
            "# Families",
            "",
            "Each loads from the Hugging Face layout, and transformers loads what is saved,",
            "with the same numbers.",
            "",
            "| family | model_type | changes against BERT |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def all_pages() -> dict[str, str]:
    """Every file of `docs/families/`, by name."""
    pages = {f"{row['model_type']}.md": family_page(row["model_type"]) for row in family_rows()}
    return {"README.md": family_index(), **pages}
