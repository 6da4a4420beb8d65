"""Queries and documents as vectors: each side with the prompt that the model has for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from bothways.inference.model import Model
from bothways.inference.results import Embeddings

# Names of prompts that models give to the two sides; the first that a model has is used.
PROMPTS: dict[str, tuple[str, ...]] = {
    "query": ("query", "search_query"),
    "document": ("document", "passage", "search_document"),
}


def embed_side(
    model: Model, side: Literal["query", "document"], texts: Sequence[str], **options: Any
) -> Embeddings:
    """Vectors of queries or of documents, of length 1 unless the model compares by dot product.

    Args:
        model: an embedder.
        side: which prompt is put before the texts, where the model has one.
        texts: of that side.
        options: of `Model.embed`: max_length, policy, batch_tokens, on_batch.
    """
    prompt = next((name for name in PROMPTS[side] if name in model.sentence.prompts), None)
    unit = True if model.sentence.similarity == "cosine" else None
    return model.embed(texts, prompt=prompt, normalize=unit, **options)
