"""Bothways: encoders that read both ways.

The public names. Each is fetched from its module when it is first used, so that `import bothways`
costs no torch. Add a name in three places, sorted: `__all__`, `_HOMES` and, for type checkers, the
imports below; a check holds the three together.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bothways.errors import (
        BadStepError,
        BothwaysError,
        CheckpointError,
        ColumnError,
        ConfigError,
        DataError,
        LengthError,
        MissingExtraError,
        NotAsked,
        RunStopped,
        TaskError,
        TokenizerError,
        TrainingError,
        UnsafeFileError,
        UnsupportedModelError,
        UntrainedHeadError,
        UsageError,
    )
    from bothways.evaluation.evaluate import evaluate
    from bothways.evaluation.result import Figure, Finding, Metric, Report, Table
    from bothways.families.presets import preset
    from bothways.inference.model import Model, load
    from bothways.ladder.choose import choose
    from bothways.ladder.settings import ChooseSettings
    from bothways.model.config import EncoderConfig
    from bothways.model.encoder import Encoder
    from bothways.model.layout import Batch, Layout
    from bothways.tasks.results import (
        AnswerResult,
        LabelResult,
        ScoreResult,
        SpanResult,
        TagResult,
    )
    from bothways.tokenization.encoding import Encoding, Ledger
    from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
    from bothways.training.finetune import finetune
    from bothways.training.pretrain import pretrain
    from bothways.training.pretrain_settings import PretrainSettings
    from bothways.training.settings import FinetuneSettings

__version__ = "0.1.0"

__all__ = [
    "AnswerResult",
    "BadStepError",
    "Batch",
    "BothwaysError",
    "CheckpointError",
    "ChooseSettings",
    "ColumnError",
    "ConfigError",
    "DataError",
    "Encoder",
    "EncoderConfig",
    "Encoding",
    "Figure",
    "Finding",
    "FinetuneSettings",
    "LabelResult",
    "Layout",
    "Ledger",
    "LengthError",
    "Metric",
    "MissingExtraError",
    "Model",
    "NotAsked",
    "PretrainSettings",
    "Report",
    "RunStopped",
    "ScoreResult",
    "SpanResult",
    "Table",
    "TagResult",
    "TaskError",
    "Tokenizer",
    "TokenizerError",
    "TrainingError",
    "UnsafeFileError",
    "UnsupportedModelError",
    "UntrainedHeadError",
    "UsageError",
    "choose",
    "evaluate",
    "finetune",
    "load",
    "load_tokenizer",
    "preset",
    "pretrain",
]

_HOMES = {
    "errors": (
        "BadStepError BothwaysError CheckpointError ColumnError ConfigError DataError LengthError "
        "MissingExtraError NotAsked RunStopped TaskError TokenizerError TrainingError "
        "UnsafeFileError UnsupportedModelError UntrainedHeadError UsageError"
    ),
    "evaluation.evaluate": "evaluate",
    "evaluation.result": "Figure Finding Metric Report Table",
    "families.presets": "preset",
    "inference.model": "Model load",
    "ladder.choose": "choose",
    "ladder.settings": "ChooseSettings",
    "model.config": "EncoderConfig",
    "model.encoder": "Encoder",
    "model.layout": "Batch Layout",
    "tasks.results": "AnswerResult LabelResult ScoreResult SpanResult TagResult",
    "tokenization.encoding": "Encoding Ledger",
    "tokenization.tokenizer": "Tokenizer load_tokenizer",
    "training.finetune": "finetune",
    "training.pretrain": "pretrain",
    "training.pretrain_settings": "PretrainSettings",
    "training.settings": "FinetuneSettings",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Fetch a public name from its module and keep it."""
        if name not in _HOME_OF:
            raise AttributeError(f"module 'bothways' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"bothways.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """The public names and the version."""
        return [*__all__, "__version__"]
