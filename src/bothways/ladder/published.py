"""The encoders that the field recommends, by language, and which of them are on this machine."""

from __future__ import annotations

from dataclasses import dataclass

# Language -> names on the hub, about from the smallest to the largest.
RECOMMENDED: dict[str, tuple[str, ...]] = {
    "en": (
        "nreimers/MiniLM-L6-H384-uncased",
        "distilbert/distilbert-base-uncased",
        "FacebookAI/roberta-base",
        "answerdotai/ModernBERT-base",
        "microsoft/deberta-v3-base",
    ),
    "fr": ("almanach/camembert-base", "flaubert/flaubert_base_cased"),
}
# For all other languages, and where texts are in several.
OF_MANY_LANGUAGES = ("FacebookAI/xlm-roberta-base", "microsoft/mdeberta-v3-base")
# For vectors of whole texts, encoders that were trained to give such.
FOR_VECTORS: dict[str, tuple[str, ...]] = {
    "en": ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-mpnet-base-v2"),
}
VECTORS_OF_MANY = ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",)
VECTOR_TASKS = ("embed",)
NEEDED_FILES = ("config.json",)
WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True)
class Published:
    """A recommended encoder.

    Attributes:
        name: on the hub.
        here: whether the hub's cache on this machine has it.
    """

    name: str
    here: bool


def recommended(language: str | None, task: str) -> tuple[Published, ...]:
    """What the field tries first for texts of a language.

    Args:
        language: ISO 639-1; None for several.
        task: of the command.

    Example:
        >>> [each.name for each in recommended("fr", "classify")]
        ['almanach/camembert-base', 'flaubert/flaubert_base_cased']
    """
    if task in VECTOR_TASKS:
        names = FOR_VECTORS.get(language or "", VECTORS_OF_MANY)
    else:
        names = RECOMMENDED.get(language or "", OF_MANY_LANGUAGES)
    return tuple(Published(name, in_cache(name)) for name in names)


def in_cache(name: str) -> bool:
    """Whether the hub's cache on this machine has configuration and weights of a model."""
    from huggingface_hub import try_to_load_from_cache

    def has(file: str) -> bool:
        return isinstance(try_to_load_from_cache(name, file), str)

    return all(map(has, NEEDED_FILES)) and any(map(has, WEIGHT_FILES))
