"""modules.json and what it names: how a folder says that its encoder makes sentence vectors.

The layout is sentence-transformers': modules.json lists steps with a folder each (1_Pooling,
2_Dense, ...); config_sentence_transformers.json holds prompts. Older and newer spellings are
read; the older one, which every version reads, is written where it can say it. A step that is not
known is refused, since leaving it out would give other vectors without a word.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from bothways.checkpoints.files import WeightFiles, read_json, read_json_object
from bothways.errors import CheckpointError, UnsafeFileError, UnsupportedModelError, nearest
from bothways.model.config import Activation
from bothways.model.sentence import (
    Pool,
    PoolingMode,
    SentenceDense,
    SentenceNormalize,
    SentenceVector,
)

logger = logging.getLogger(__name__)

# Keys of the older pooling config, one a mode, in the order in which it puts vectors side by side.
_POOLING_KEYS: dict[str, PoolingMode] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
}
_UNSUPPORTED_POOLING = ("pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken")
# Words of the newer pooling config, whose order is its own.
_POOLING_WORDS: dict[str, PoolingMode] = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
}
_OPTIONS = ("prompts", "default_prompt_name", "similarity_fn_name")
_ACTIVATIONS: dict[str, Activation] = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.SiLU": "silu",
}
_ACTIVATION_NAMES = {name: path for path, name in _ACTIVATIONS.items()}
# What a dense layer can be told otherwise, and is not here.
_DENSE_DEFAULTS = {
    "module_input_name": "sentence_embedding",
    "module_output_name": "sentence_embedding",
    "use_residual": False,
}
_TYPES = ("Transformer", "Pooling", "Dense", "Normalize")
_PACKAGE = "sentence_transformers."
_SPARSE = ["MLMTransformer", "SpladePooling"]
# What sparse vectors can be told otherwise, and are not here.
_SPARSE_DEFAULTS = {"pooling_strategy": "max", "activation_function": "relu"}
# Steps of models that keep a vector for every token.
_LATE = "pylate."


def read_sentence(folder: Path) -> SentenceVector | None:
    """The steps that a folder names; None when it has none, is sparse, or a cross-encoder.

    Raises:
        UnsupportedModelError: for a step or a pooling mode that is not built here.
        CheckpointError: for a file that cannot be read, or a default prompt that is not there.
    """
    listing = folder / "modules.json"
    if not listing.exists():
        return None
    modules = sorted(read_json(listing), key=lambda module: int(module["idx"]))
    types = [str(module["type"]) for module in modules]
    kinds = [name.rsplit(".", 1)[-1] for name in types]
    extra = folder / "config_sentence_transformers.json"
    options: dict[str, Any] = read_json_object(extra) if extra.exists() else {}
    if kinds == ["Transformer"] and options.get("model_type") == "CrossEncoder":
        return None
    if kinds == _SPARSE:
        _check_sparse(folder / modules[1]["path"] / "config.json")
        return None
    if any(name.startswith(_LATE) for name in types):
        raise UnsupportedModelError(
            f"{listing} names the steps {', '.join(types)}: late interaction, which keeps a vector "
            "for every token and compares all with all, is not built here. Use a model with one "
            "vector a text (`bothways embed`), or a sparse one (`bothways embed --sparse`)"
        )
    unknown = [
        name
        for name, kind in zip(types, kinds, strict=True)
        if kind not in _TYPES or not name.startswith(_PACKAGE)
    ]
    if unknown:
        raise UnsupportedModelError(
            f"{listing} names the steps {', '.join(unknown)}; supported are "
            f"{', '.join(_TYPES)} of sentence_transformers. Leaving a step out would change every "
            "vector, so the model is not loaded"
        )
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise UnsupportedModelError(
            f"{listing} starts with {', '.join(kinds[:2])}; expected Transformer, Pooling"
        )
    steps: list[SentenceDense | SentenceNormalize] = []
    for module, kind in list(zip(modules, kinds, strict=True))[2:]:
        if kind not in ("Dense", "Normalize"):
            raise UnsupportedModelError(f"{listing}: {kind} after the pooling is not supported")
        steps.append(
            SentenceNormalize() if kind == "Normalize" else _read_dense(folder / module["path"])
        )
    prompts, default = options.get("prompts") or {}, options.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise CheckpointError(
            f"{extra} has the default_prompt_name {default!r}, and no such prompt; "
            f"{nearest(default, prompts)}"
        )
    return SentenceVector(
        _read_pooling(folder / modules[1]["path"] / "config.json"),
        steps,
        prompts=prompts,
        default_prompt=default,
        similarity=options.get("similarity_fn_name") or "cosine",
        other={key: value for key, value in options.items() if key not in _OPTIONS},
    )


def _check_sparse(path: Path) -> None:
    """Refuse sparse vectors that are made otherwise than `inference/sparse.py` makes them."""
    config = read_json_object(path)
    for key, usual in _SPARSE_DEFAULTS.items():
        if config.get(key, usual) != usual:
            raise UnsupportedModelError(
                f"{path}: sparse vectors with {key} {config[key]!r} are not supported; supported: "
                f"{usual!r}"
            )
    logger.warning(
        "%s makes sparse vectors: `bothways embed --sparse`, `Model.embed_sparse`; without, its "
        "vectors are the mean over all tokens, which it was not trained for",
        path.parent.parent,
    )


def _read_pooling(path: Path) -> Pool:
    config = read_json_object(path)
    refused = [key for key in _UNSUPPORTED_POOLING if config.get(key)]
    if config.get("include_prompt", True) is False:
        refused.append("include_prompt=false")
    named = config.get("pooling_mode")
    if named is not None:
        words = [named] if isinstance(named, str) else list(named)
        refused += [word for word in words if word not in _POOLING_WORDS]
        modes = [_POOLING_WORDS[word] for word in words if word in _POOLING_WORDS]
    else:
        modes = [mode for key, mode in _POOLING_KEYS.items() if config.get(key)]
    if refused or not modes:
        raise UnsupportedModelError(
            f"{path}: pooling {', '.join(refused) or 'without a mode'} is not supported; "
            f"supported: {', '.join(_POOLING_WORDS)}"
        )
    return Pool(modes)


def _read_dense(folder: Path) -> SentenceDense:
    config = read_json_object(folder / "config.json")
    activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    if activation not in _ACTIVATIONS:
        raise UnsupportedModelError(
            f"{folder}: activation {activation!r} is not supported; supported: "
            f"{', '.join(_ACTIVATIONS)}"
        )
    for key, usual in _DENSE_DEFAULTS.items():
        if config.get(key) not in (None, usual):
            raise UnsupportedModelError(
                f"{folder}: a dense layer with {key} {config[key]!r} is not supported; "
                f"supported: {usual!r}"
            )
    dense = SentenceDense(
        config["in_features"],
        config["out_features"],
        bias=config.get("bias", True),
        activation=_ACTIVATIONS[activation],
    )
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise UnsafeFileError(
            f"{folder} has no model.safetensors; weights in other formats are not opened. "
            "Convert them first: bothways convert OLD NEW"
        )
    file = WeightFiles([weights])
    expected = {name: tuple(tensor.shape) for name, tensor in dense.state_dict().items()}
    if file.shapes != expected:
        raise CheckpointError(
            f"{weights} has the tensors {file.shapes}; config.json beside it means {expected}"
        )
    dense.load_state_dict({name: file.tensor(name) for name in expected})
    return dense


def write_sentence(
    sentence: SentenceVector, folder: Path, *, hidden_size: int, max_length: int | None
) -> None:
    """Write modules.json, the steps' folders and the prompts.

    Args:
        sentence: the steps.
        folder: an existing model folder.
        hidden_size: width of the encoder.
        max_length: longest text in tokens, or None to leave it open.
    """
    package = "sentence_transformers.models"
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    for index, step in enumerate(sentence.steps, start=2):
        kind = "Dense" if isinstance(step, SentenceDense) else "Normalize"
        modules.append((f"{index}_{kind}", kind))
        place = folder / f"{index}_{kind}"
        place.mkdir(exist_ok=True)
        if isinstance(step, SentenceDense):
            _write(
                place / "config.json",
                {
                    "in_features": step.linear.in_features,
                    "out_features": step.linear.out_features,
                    "bias": step.linear.bias is not None,
                    "activation_function": _ACTIVATION_NAMES[step.activation],
                },
            )
            save_file(step.state_dict(), place / "model.safetensors")
    listing = [
        {"idx": index, "name": str(index), "path": path, "type": f"{package}.{kind}"}
        for index, (path, kind) in enumerate(modules)
    ]
    _write(folder / "modules.json", listing)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling: dict[str, Any] = {"word_embedding_dimension": hidden_size}
    if sentence.pool.modes == tuple(m for m in _POOLING_KEYS.values() if m in sentence.pool.modes):
        pooling.update((key, mode in sentence.pool.modes) for key, mode in _POOLING_KEYS.items())
    else:  # an order of its own
        words = {mode: word for word, mode in _POOLING_WORDS.items()}
        pooling["pooling_mode"] = [words[mode] for mode in sentence.pool.modes]
    _write(folder / "1_Pooling" / "config.json", pooling)
    _write(
        folder / "config_sentence_transformers.json",
        {
            **sentence.other,
            "prompts": sentence.prompts,
            "default_prompt_name": sentence.default_prompt,
            "similarity_fn_name": sentence.similarity,
        },
    )
    if max_length is not None:
        _write(
            folder / "sentence_bert_config.json",
            {"max_seq_length": max_length, "do_lower_case": False},
        )


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
