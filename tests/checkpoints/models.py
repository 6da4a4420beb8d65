"""Tiny random models that transformers made and saved, and the numbers that it computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from bothways.checkpoints.parts import Parts
from bothways.model.layout import Batch, pack

# float32 and other orders of summation; the models are small and their weights wide.
TOLERANCE = 1e-5
# The same weights at another address: a processor's kernels may round the last bit otherwise.
ROUNDING = 1e-6

KEYS: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "hidden_act": "gelu_new",
    "initializer_range": 0.2,
    "layer_norm_eps": 1e-6,
}


def save_theirs(folder: Path, name: str = "BertModel", **keys: Any) -> Any:
    """A random model of transformers, saved in a folder, in evaluation mode."""
    options = {
        option: keys.pop(option) for option in ("max_shard_size", "pooler") if option in keys
    }
    kind = getattr(transformers, name)
    settings = transformers.BertConfig(**{**KEYS, **keys})
    torch.manual_seed(1)
    model = kind(settings, add_pooling_layer=False) if "pooler" in options else kind(settings)
    # Biases and norms are drawn too: at zero and one, a swapped pair would go unnoticed.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    options.pop("pooler", None)
    model.save_pretrained(folder, **options)
    return model.eval()


def inputs() -> dict[str, Tensor]:
    """Three rows of different lengths, the last one a pair."""
    ids = torch.randint(5, 61, (3, 9), generator=torch.Generator().manual_seed(2))
    mask = torch.tensor([[1] * 9, [1] * 4 + [0] * 5, [1] * 7 + [0] * 2])
    types = torch.tensor([[0] * 9, [0] * 9, [0] * 3 + [1] * 6])
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def batch() -> Batch:
    """The same rows, packed."""
    given = inputs()
    return pack(given["input_ids"], given["attention_mask"], given["token_type_ids"])


@torch.no_grad()
def hidden_of(parts: Parts) -> Tensor:
    """The last states of our encoder, (tokens, hidden)."""
    states: Tensor = parts.encoder(batch()).last_hidden
    return states


@torch.no_grad()
def logits_of(parts: Parts) -> Tensor:
    """What our head says."""
    assert parts.head is not None
    logits: Tensor = parts.head(parts.encoder(batch()), batch())
    return logits


@torch.no_grad()
def theirs_of(model: Any) -> Any:
    """The output of their model."""
    return model(**inputs())


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two models with the same weights gave these numbers."""
    return one.shape == other.shape and torch.allclose(one, other, atol=ROUNDING, rtol=ROUNDING)


def kept(rows: Tensor) -> Tensor:
    """Their padded rows without the padding."""
    return rows[inputs()["attention_mask"].bool()]


def edit_json(path: Path, **changes: Any) -> None:
    """Change keys of a JSON file; None deletes one."""
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder's one weight file, in memory."""
    return {k: v.clone() for k, v in load_file(folder / "model.safetensors").items()}


def write_tensors(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Replace a folder's weight file."""
    save_file(
        {k: v.clone().contiguous() for k, v in tensors.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
