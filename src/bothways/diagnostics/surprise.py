"""How unexpected texts are to a masked language model.

Each token is hidden once, every seventh at a time, so that seven passes tell of all of them what
one pass a token would tell at many times the cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bothways.errors import TaskError
from bothways.inference.abilities import trained_masked_lm
from bothways.inference.model import Model
from bothways.inference.predictor import evaluating, run
from bothways.model.encoder import EncoderOutput
from bothways.model.layout import Batch
from bothways.tokenization.policy import CutPolicy

# One token in seven is hidden, 14.3 %, close to the 15 % that such models are trained with.
PASSES = 7


def surprise(
    model: Model,
    texts: Sequence[str],
    *,
    max_length: int | None = None,
    batch_tokens: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The summed loss of each text's tokens, each hidden once, and how many there are.

    The exponential of all losses over all tokens is a pseudo-perplexity. The pass of a token is
    its place in the text, so the same text always has the same masks.

    Args:
        model: with a trained masked-LM head.
        texts: to judge.
        max_length: pieces that are read of each; None for the model's own.
        batch_tokens: budget of a batch; None for the device's default.

    Returns:
        (texts,) nats, and (texts,) tokens.

    Raises:
        TaskError: when the model has no masked-LM head, or its tokenizer no mask.
        UntrainedHeadError: when that head's weights are random.

    Source: Salazar et al. 2020, where each token has a pass of its own.
    """
    head = trained_masked_lm(model.parts, model.task)
    mask = model.tokenizer.mask_id
    if mask is None:
        raise TaskError("the tokenizer has no mask token, so no token can be hidden")
    model.verify()
    policy = CutPolicy(model.policy(max_length).max_length)
    encodings = [windows[0] for windows in model.tokenizer.encode_many(texts, policy=policy)[0]]
    ids = [np.array(encoding.ids) for encoding in encodings]
    places = [np.flatnonzero(~np.array(encoding.special, bool)) for encoding in encodings]
    sums = np.zeros(len(texts))

    def hidden(batch: Batch) -> Tensor:
        return (batch.ids == mask).nonzero()[:, 0]

    def read_out(output: EncoderOutput, batch: Batch) -> Tensor:
        del batch
        logits: Tensor = head.output(head.features(output.last_hidden))
        return logits.float().log_softmax(-1).cpu()

    for number in range(PASSES):
        some = [at[number::PASSES] for at in places]
        asked = [index for index, at in enumerate(some) if len(at)]
        given = [ids[index].copy() for index in asked]
        for pieces, index in zip(given, asked, strict=True):
            pieces[some[index]] = mask
        with evaluating(head):
            for indices, said, _ in run(
                model.encoder,
                read_out,
                [pieces.tolist() for pieces in given],
                rows=hidden,
                batch_tokens=batch_tokens,
            ):
                whose = [asked[index] for index in indices]
                wanted = torch.from_numpy(np.concatenate([ids[i][some[i]] for i in whose]))
                losses = -said.gather(1, wanted[:, None])[:, 0].double().numpy()
                np.add.at(sums, np.repeat(whose, [len(some[i]) for i in whose]), losses)
    return sums, np.array([len(at) for at in places])
