"""Token ids to vectors, one a text or one a token.

Texts are read in chunks, so that inputs may be larger than memory. The steps from token states to
a sentence vector are in `model/sentence.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bothways.inference.inputs import Text, one_window, prompt_text, text_columns
from bothways.inference.predictor import run
from bothways.inference.results import Embeddings, TokenVectors
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.layout import Batch
from bothways.model.sentence import SentenceVector
from bothways.tokenization.policy import CutPolicy

if TYPE_CHECKING:
    from bothways.inference.model import Model

Ids = Sequence[Sequence[int]]


def embedding_stream(
    model: Model,
    parts: Iterable[Sequence[Text]],
    *,
    prompt: str | None = None,
    pooling: Literal["cls", "mean", "max"] | None = None,
    normalize: bool | None = None,
    policy: CutPolicy | None = None,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Iterator[Embeddings]:
    """Vectors of parts of the texts, one after the other; see `Model.embed`."""
    model.verify()
    sentence = model.sentence if pooling is None else model.sentence.pooled_by(pooling)
    before = prompt_text(model.sentence, prompt)
    policy = one_window(policy or model.policy())
    for part in parts:
        columns = text_columns(part, before)
        ids, type_ids, ledger = model.tokenizer.encode_ids(*columns, policy=policy)
        vectors = sentence_vectors(
            model.encoder,
            sentence,
            ids,
            type_ids,
            normalize=normalize,
            batch_tokens=batch_tokens,
            on_batch=on_batch,
        )
        yield Embeddings(vectors, ledger)


def sentence_vectors(
    encoder: Encoder,
    sentence: SentenceVector,
    ids: Ids,
    type_ids: Ids | None = None,
    *,
    normalize: bool | None = None,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> NDArray[np.float32]:
    """One vector a text, (n, dim) in input order.

    Args:
        encoder: any.
        sentence: from token states to a vector.
        ids: of at least one text.
        type_ids: segments; None for all zero.
        normalize: None for what the steps of `sentence` say.
        batch_tokens: budget of a batch; None for the device's default.
        on_batch: called with the number of texts done.
    """

    def read_out(output: EncoderOutput, batch: Batch) -> Tensor:
        vectors: Tensor = sentence(output, batch, normalize=normalize)
        return vectors.float()

    vectors: NDArray[np.float32] | None = None
    for indices, rows, _ in run(
        encoder,
        read_out,
        ids,
        type_ids=type_ids,
        rows=sentence.rows,
        batch_tokens=batch_tokens,
        on_batch=on_batch,
    ):
        if vectors is None:
            vectors = np.empty((len(ids), rows.shape[1]), dtype=np.float32)
        vectors[indices] = rows.cpu().numpy()
    assert vectors is not None
    return vectors


def text_token_vectors(
    model: Model, parts: Iterable[Sequence[Text]], policy: CutPolicy
) -> TokenVectors:
    """One array a text of all parts; see `Model.embed_tokens`."""
    model.verify()
    found = TokenVectors()
    for part in parts:
        ids, type_ids, ledger = model.tokenizer.encode_ids(
            *text_columns(part, ""), policy=one_window(policy)
        )
        found.extend(token_vectors(model.encoder, ids, type_ids))
        found.ledger = found.ledger + ledger
    return found


def token_vectors(
    encoder: Encoder, ids: Ids, type_ids: Ids | None = None
) -> list[NDArray[np.float32]]:
    """The last layer's states of each text, (pieces, hidden), in input order."""
    found: dict[int, NDArray[np.float32]] = {}
    for indices, rows, batch in run(encoder, _last_states, ids, type_ids=type_ids):
        pieces = batch.layout.split(rows.float().cpu())
        # A copy a text, so that one kept array does not keep its whole batch.
        found.update(zip(indices, (piece.numpy().copy() for piece in pieces), strict=True))
    return [found[index] for index in range(len(ids))]


def _last_states(output: EncoderOutput, batch: Batch) -> Tensor:
    del batch
    return output.last_hidden
