"""The second half of a passport: what the weights make of a few sample texts.

The ids of a passport say that texts are read as in training (`tokenization/passport.py`); the
numbers here say that the weights, and the equations around them, are those that were saved. They
are compared by cosine, since machines differ in the last bits. Only full precision is compared:
half precision moves such vectors by as much as other weights may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bothways.checkpoints.parts import Parts
from bothways.errors import CheckpointError
from bothways.model.encoder import Encoder
from bothways.model.layout import Batch
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

# Few tokens, so that asking costs little.
STRINGS = ("Hello world", "The quick brown fox jumps over the lazy dog.", "a+b=c x<y 3,141.59")
NUM_NUMBERS = 64  # of each vector, evenly spread
DIGITS = 6
MAX_DISTANCE = 1e-3
# Of a vector's length; less is not told apart from rounding.
LEAST_DIFFERENCE = 1e-4


def make_vectors(parts: Parts) -> dict[str, Any]:
    """The keys of a passport that hold numbers; none where they could not be compared.

    Args:
        parts: with a tokenizer whose ids are those of the encoder.
    """
    if parts.tokenizer is None or not _is_comparable(parts.encoder, parts.tokenizer):
        return {}
    vectors = _vectors(parts.encoder, parts.tokenizer, STRINGS)
    return {
        "vector_strings": list(STRINGS),
        "vectors": [[float(f"{number:.{DIGITS}g}") for number in row] for row in vectors.tolist()],
    }


def check_vectors(parts: Parts) -> None:
    """Compare what a model makes of its passport's texts with what it made when it was saved.

    Without a passport the numbers must at least be numbers. Passes where nothing can be compared.

    Raises:
        CheckpointError: when the vectors are others or no numbers, or the passport is damaged.
    """
    passport: Mapping[str, Any] = parts.settings.get("passport", {})
    tokenizer = parts.tokenizer
    if tokenizer is None or not _is_comparable(parts.encoder, tokenizer):
        return
    if "vectors" not in passport:
        if not _vectors(parts.encoder, tokenizer, STRINGS).isfinite().all():
            raise CheckpointError(
                f"{parts.folder}: the weights make no numbers of a plain text (infinity or NaN): "
                "they are damaged, or training ended so; fetch them again or take an earlier "
                "checkpoint"
            )
        return
    strings, stored = passport.get("vector_strings"), passport["vectors"]
    width = len(_places(parts.config.hidden_size))
    if not isinstance(strings, list) or not _is_table(strings, stored, width):
        raise CheckpointError(
            f"{parts.folder}: the passport must hold lists 'vector_strings' and 'vectors' of one "
            f"length, {width} numbers a vector; take bothways.json from the original model, or "
            "delete its passport"
        )
    distance = _distance(_vectors(parts.encoder, tokenizer, strings), torch.tensor(stored))
    if not distance <= MAX_DISTANCE:
        raise CheckpointError(
            f"{parts.folder}: the weights give other vectors than the model was saved with "
            f"(cosine distance {distance:.2g}, at most {MAX_DISTANCE:g}): they were replaced or "
            "damaged, or are read in another way. Take weights, config.json and bothways.json from "
            'the same model; if you replaced the weights on purpose, delete "passport" from '
            "bothways.json"
        )


def _is_table(strings: list[Any], stored: object, width: int) -> bool:
    return (
        isinstance(stored, list)
        and len(strings) == len(stored) > 0
        and all(isinstance(string, str) for string in strings)
        and all(isinstance(row, list) and len(row) == width for row in stored)
        and all(isinstance(number, int | float) for row in stored for number in row)
    )


def _is_comparable(encoder: Encoder, tokenizer: Tokenizer) -> bool:
    room = encoder.config.embeddings.usable_positions > tokenizer.template.size
    full = all(parameter.dtype == torch.float32 for parameter in encoder.parameters())
    return room and full and tokenizer.largest_id < encoder.config.embeddings.vocab_size


def _vectors(encoder: Encoder, tokenizer: Tokenizer, strings: Sequence[str]) -> Tensor:
    """Some numbers of each text's mean state, (texts, numbers)."""
    policy = CutPolicy(encoder.config.embeddings.usable_positions)
    ids, _, _ = tokenizer.encode_ids(strings, policy=policy)
    device = encoder.embeddings.words.weight.device
    batch = Batch.packed(ids).to(device)
    was_training = encoder.training
    encoder.eval()
    with torch.inference_mode():
        means = batch.layout.mean(encoder(batch).last_hidden)
    encoder.train(was_training)
    return means[:, _places(encoder.config.hidden_size)].float().cpu()


def _places(hidden_size: int) -> list[int]:
    count = min(hidden_size, NUM_NUMBERS)
    return [index * hidden_size // count for index in range(count)]


def _distance(ours: Tensor, stored: Tensor) -> float:
    """Cosine distance of all vectors at once, without what they have in common.

    A few numbers that are large in every text would hide all others.
    """
    differences = stored - stored.mean(dim=0)
    if differences.norm() > LEAST_DIFFERENCE * stored.norm():
        ours, stored = ours - ours.mean(dim=0), differences
    cosine = torch.nn.functional.cosine_similarity(ours.flatten(), stored.flatten(), dim=0)
    return 1.0 - float(cosine)
