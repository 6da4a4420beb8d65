"""Which documents a query is ranked over: the judged ones, and the first that an embedder finds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from bothways.checkpoints.load import load_parts
from bothways.data.retrieval import RetrievalSet
from bothways.errors import TaskError
from bothways.inference.model import Model
from bothways.model.sentence import Pool, SentenceVector
from bothways.training.retrieval import first_stage, with_candidates
from tests.training.tiny import BAD, GOOD, PLAIN

FOUND = RetrievalSet(
    documents={f"d{n}": f"{word} {PLAIN[n]}" for n, word in enumerate([*GOOD[:3], *BAD[:3]])},
    queries={"q": GOOD[0]},
    gains={"q": {"d5": 2.0, "d0": 0.0}},
)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_candidates_are_found_as_the_embedder_compares(tiny_model: Path, similarity: str) -> None:
    prompts = {"search_query": f"{BAD[0]} ", "passage": f"{GOOD[1]} "}
    sentence = SentenceVector(Pool(("mean",)), [], prompts=prompts, similarity=similarity)
    model = Model(dataclasses.replace(load_parts(tiny_model), sentence=sentence))
    found = first_stage(model, FOUND, 3)["q"]
    unit = similarity == "cosine"
    queries, documents = (
        model.embed(list(texts.values()), prompt=prompt, normalize=unit).vectors
        for texts, prompt in ((FOUND.queries, "search_query"), (FOUND.documents, "passage"))
    )
    scores = documents @ queries[0]
    nearest = [f"d{n}" for n in np.argsort(-scores)[:3]]
    assert list(found) == ["d5", "d0", *(name for name in nearest if name not in ("d5", "d0"))]
    assert list(found.values()) == pytest.approx([scores[int(name[1])] for name in found])


def test_without_an_embedder_only_judged_documents_are_ranked(
    tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judged = {"q": {"d5": None, "d0": None}}
    assert with_candidates(FOUND, None, 3).candidates == judged
    made = with_candidates(FOUND, str(tiny_model), 3, needed=False)
    assert made.candidates == judged
    assert "is no embedder" in caplog.text
    with pytest.raises(TaskError, match="--candidates-from one"):
        with_candidates(FOUND, str(tiny_model), 3)
