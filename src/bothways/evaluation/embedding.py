"""What only embedders have in a report: words in common as the rival, and how vectors do in part.

Judging on a retrieval set with all its documents is in `retrieval.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Table
from bothways.metrics.similarity import cosine
from bothways.tasks.embed import EmbedTask
from bothways.tasks.embed_examples import EmbedExample
from bothways.tasks.results import Result, ScoreResult

# Words of a vocabulary that a text without neural network is told apart by.
MOST_WORDS = 2_048


def embedding_parts(
    task: EmbedTask, examples: Sequence[EmbedExample], results: Sequence[Result], **others: Any
) -> Parts:
    """Shared words as a rival; scores by the first numbers of vectors, where these shall do."""
    del others
    rival = shared_words(examples, with_vectors=not task.scored)
    return Parts(
        rivals={"shared_words": rival} if rival else {}, tables=_in_part(task, examples, results)
    )


def shared_words(examples: Sequence[EmbedExample], *, with_vectors: bool) -> list[Result]:
    """Cosines of TF-IDF vectors of the examples' own words; nothing where there are no words.

    Args:
        examples: judged.
        with_vectors: whether rankings are judged, which takes the vectors too.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    counter = TfidfVectorizer(
        token_pattern=r"(?u)\b\w+\b", max_features=MOST_WORDS, sublinear_tf=True, dtype=np.float32
    )
    try:
        rows = counter.fit_transform([text for each in examples for text in each.texts])
    except ValueError:  # no text has a word
        return []
    found: list[Result] = []
    start = 0
    for example in examples:
        end = start + len(example.texts)
        vectors: NDArray[np.float32] = rows[start:end].toarray()
        found.append(
            ScoreResult(float(cosine(vectors[0], vectors[1])), vectors if with_vectors else None)
        )
        start = end
    return found


def _in_part(
    task: EmbedTask, examples: Sequence[EmbedExample], results: Sequence[Result]
) -> tuple[Table, ...]:
    """The scores of the first numbers of the vectors, where these shall do alone."""
    whole = [r.vectors for r in results if isinstance(r, ScoreResult) and r.vectors is not None]
    if not task.dimensions or len(whole) < len(results):
        return ()
    rows = []
    for size in sorted(task.dimensions, reverse=True):
        parts = [vectors[:, :size] for vectors in whole]
        cut = [ScoreResult(float(cosine(part[0], part[1])), part) for part in parts]
        rows.append((size, *task.metrics(cut, examples).values()))
    columns = ("numbers", *task.metric_directions)
    return (
        Table("dimensions", "Scores by the first numbers of the vectors", columns, tuple(rows)),
    )
