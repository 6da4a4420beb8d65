"""Sparse vectors: how much a text says each word of the vocabulary, by its masked-LM head.

The weight of a word is log(1 + relu(its largest logit over the text's tokens)), special pieces
included (Formal et al. 2021, SPLADE v2). One text at a time meets the vocabulary, and a long one in
chunks, so that (tokens x vocabulary) numbers never exist at once, and the products of a text do not
depend on its batch. Searching is in `nearest.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_array, vstack
from torch import Tensor

from bothways.inference.abilities import trained_masked_lm
from bothways.inference.embedding import Ids
from bothways.inference.inputs import Text, one_window, text_columns
from bothways.inference.predictor import CHUNK_TEXTS, chunks, evaluating, run
from bothways.inference.results import SparseEmbeddings
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.heads import MaskedLMHead
from bothways.model.layout import Batch
from bothways.tokenization.encoding import Ledger, Policy

if TYPE_CHECKING:
    from bothways.inference.model import Model

logger = logging.getLogger(__name__)

# A head that was trained for retrieval keeps a few hundred words; an ordinary one, most of all.
DENSE_SHARE = 0.05
# Tokens that meet the vocabulary at once: their logits stay in a processor's cache.
CHUNK_TOKENS = 64


def embed_sparse(
    model: Model,
    texts: Iterable[Text],
    *,
    max_length: int | None = None,
    policy: Policy | None = None,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> SparseEmbeddings:
    """One sparse row a text, in input order; see `Model.embed_sparse`."""
    model.verify()
    head = trained_masked_lm(model.parts, model.task)
    cut = one_window(model.policy(max_length, policy))
    empty = csr_array(np.empty((0, head.output.out_features), dtype=np.float32))
    parts, ledger = [empty], Ledger()
    for chunk in chunks(texts, CHUNK_TEXTS):
        ids, type_ids, lost = model.tokenizer.encode_ids(*text_columns(chunk, ""), policy=cut)
        parts.append(
            sparse_vectors(
                model.encoder, head, ids, type_ids, batch_tokens=batch_tokens, on_batch=on_batch
            )
        )
        ledger = ledger + lost
    vectors = csr_array(vstack(parts, format="csr"))
    if vectors.nnz > DENSE_SHARE * vectors.shape[0] * vectors.shape[1]:
        logger.warning(
            "a text has %d words above 0 on average, of %d: this masked-LM head was hardly trained "
            "for sparse retrieval, and its vectors will find little",
            vectors.nnz // vectors.shape[0],
            vectors.shape[1],
        )
    return SparseEmbeddings(vectors, ledger)


def sparse_vectors(
    encoder: Encoder,
    head: MaskedLMHead,
    ids: Ids,
    type_ids: Ids | None = None,
    *,
    batch_tokens: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> csr_array:
    """One row a text, (n, vocabulary) float32 in input order.

    Args:
        encoder: that the head reads.
        head: over the vocabulary.
        ids: of at least one text.
        type_ids: segments; None for all zero.
        batch_tokens: budget of a batch; None for the device's default.
        on_batch: called with the number of texts done.
    """

    def states(output: EncoderOutput, batch: Batch) -> Tensor:
        del batch
        return output.last_hidden

    found: dict[int, csr_array] = {}
    with evaluating(head), torch.inference_mode():
        for indices, rows, batch in run(
            encoder, states, ids, type_ids=type_ids, batch_tokens=batch_tokens, on_batch=on_batch
        ):
            for index, text in zip(indices, batch.layout.split(rows), strict=True):
                weights = _weights(head, text).cpu().numpy()
                found[index] = csr_array(weights[None])
    return csr_array(vstack([found[index] for index in range(len(ids))], format="csr"))


def _weights(head: MaskedLMHead, states: Tensor) -> Tensor:
    """The weight of every word for the states of one text, (vocabulary,) float32."""
    parts = states.split(CHUNK_TOKENS)
    largest = [head.output(head.features(part)).amax(0) for part in parts]
    return torch.stack(largest).amax(0).float().relu().log1p()
