"""A model whose forward pass is an engine: what `load` makes of a folder that was exported.

Tokenizer, cutting, batching, windows, decoding and the ledger are those of every model; the
encoder and what reads it are one call of the engine, over padded tensors. What the graph does not
hold (token states, another pooling) is refused. Exporting is in `export.py`.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bothways.checkpoints.assembling import Assembled
from bothways.checkpoints.files import EXPORT_NAME
from bothways.checkpoints.hub import find_folder
from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts
from bothways.checkpoints.report import LoadReport
from bothways.errors import CheckpointError, TaskError, UsageError, nearest
from bothways.families.spec import FamilySpec
from bothways.files import read_json_object
from bothways.inference.engines import ENGINES, Engine, find_engine
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.layout import Batch
from bothways.model.sentence import PoolingMode, SentenceNormalize, SentenceVector

logger = logging.getLogger(__name__)

# Graphs are made for this many tokens or more; a batch of shorter texts is padded to it.
LEAST_LENGTH = 2


class ExportedOutput(EncoderOutput):
    """What a graph gives; it has no token states.

    Args:
        made: logits or vectors.
    """

    def __init__(self, made: Tensor) -> None:
        object.__setattr__(self, "made", made)

    @property
    def last_hidden(self) -> Tensor:
        """Refused.

        Raises:
            TaskError: always.
        """
        return _refuse("other numbers")


class ExportedEncoder(Encoder):
    """An encoder and its reader as one call of an engine.

    Args:
        config: of the encoder that was exported.
        engine: runs the graph.
        facts: content of export.json: `inputs` of the graph and `unit` of its output.
    """

    def __init__(self, config: EncoderConfig, engine: Engine, facts: Mapping[str, Any]) -> None:
        nn.Module.__init__(self)
        self.config = config
        self.engine = engine
        self.inputs: list[str] = list(facts["inputs"])
        self.per_token = facts["unit"] == "token"

    @property
    def device(self) -> torch.device:
        """Engines read and give tensors of the CPU."""
        return torch.device("cpu")

    def forward(
        self,
        batch: Batch,
        *,
        all_hidden: bool = False,
        attentions: bool = False,
        rows: Tensor | None = None,
    ) -> EncoderOutput:
        """What the graph makes of a packed batch.

        Raises:
            TaskError: when layers or attention weights are asked for.
        """
        del rows
        if all_hidden or attentions:
            _refuse("layers and attention weights")
        if not batch.targets.keys() >= set(self.inputs[3:]):
            _refuse("what needs no more than tokens")
        self.config.embeddings.check_length(batch.layout.longest)
        columns = {
            "input_ids": batch.ids,
            "attention_mask": torch.ones_like(batch.ids),
            "token_type_ids": torch.zeros_like(batch.ids)
            if batch.type_ids is None
            else batch.type_ids,
        }
        # (T,) -> (B, L)
        inputs = {name: _padded(batch.layout.split(rows)) for name, rows in columns.items()}
        made = self.engine(inputs | {name: batch.targets[name] for name in self.inputs[3:]})
        return ExportedOutput(made[inputs["attention_mask"].bool()] if self.per_token else made)


class ExportedHead(nn.Module):
    """Stands where the head does, which is in the graph.

    Args:
        unit: what a row of logits belongs to.
        beside: what decoding needs besides the logits, by name.
    """

    def __init__(self, unit: str, beside: Mapping[str, Any]) -> None:
        super().__init__()
        self.unit = unit
        self.beside = {name: torch.tensor(value) for name, value in beside.items()}

    def forward(self, output: ExportedOutput, batch: Batch) -> Tensor:
        """The graph's logits."""
        del batch
        return _made(output)

    def beside_logits(self) -> dict[str, Tensor]:
        """What decoding needs besides."""
        return self.beside


class ExportedSentence(SentenceVector):
    """Stands where the steps to a vector do, which are in the graph.

    Args:
        steps: that the graph holds.
    """

    def __init__(self, steps: SentenceVector) -> None:
        super().__init__(
            steps.pool,
            list(steps.steps),  # type: ignore[arg-type]
            prompts=steps.prompts,
            default_prompt=steps.default_prompt,
            similarity=steps.similarity,
            other=steps.other,
        )

    def pooled_by(self, *modes: PoolingMode) -> SentenceVector:
        """These steps, where that is how the graph pools.

        Raises:
            TaskError: for another pooling.
        """
        return self if modes == self.pool.modes else _refuse(f"pooling {', '.join(modes)}")

    def rows(self, batch: Batch) -> None:
        """The graph chooses."""
        del batch

    def forward(
        self, output: EncoderOutput, batch: Batch, *, normalize: bool | None = None
    ) -> Tensor:
        """The graph's vectors.

        Raises:
            TaskError: when they have length one in the graph and should not.
        """
        del batch
        if normalize is False and any(isinstance(step, SentenceNormalize) for step in self.steps):
            _refuse("vectors that are not normalised")
        vectors = _made(output)
        return F.normalize(vectors, dim=-1) if normalize else vectors


def load_exported(
    source: str | Path,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Parts | None:
    """The parts of an exported folder; None for any other.

    A folder for torch.export holds the weights too, and these are what runs: opening a graph of
    torch can run code that is hidden in it.

    Args:
        source: folder or hub name.
        device: another than the CPU is not used, with a warning.
        dtype: float32, or None.

    Raises:
        CheckpointError: when export.json names an engine that is not known.
        MissingExtraError: when the engine is not installed.
        UsageError: for another dtype.
    """
    folder = find_folder(source)
    if not (folder / EXPORT_NAME).is_file():
        return None
    facts = read_json_object(folder / EXPORT_NAME)
    if facts.get("to") == "torch-export":
        return None
    if facts.get("to") not in ENGINES:
        raise CheckpointError(
            f"{folder / EXPORT_NAME} names the engine {facts.get('to')!r}; "
            f"{nearest(str(facts.get('to')), ENGINES)}"
        )
    if dtype not in (None, torch.float32):
        raise UsageError(f"{folder} was exported in float32, and {dtype} was asked for")
    if device is not None and torch.device(device).type != "cpu":
        logger.warning("%s was exported for the CPU and runs there", folder)
    kind = find_engine(facts["to"], writing=False)
    vectors = facts["gives"] == "vectors"

    def assemble(config: EncoderConfig, family: FamilySpec, num_labels: int) -> Assembled:
        encoder = ExportedEncoder(config, kind.open(folder / kind.file), facts)
        head = None if vectors else ExportedHead(facts["unit"], facts["beside_logits"])
        report = LoadReport(str(source), family.model_type, family.bare)
        return Assembled(encoder, head, family.bare, 0 if vectors else num_labels, report)

    parts = load_parts(folder, assemble=assemble)
    if not vectors or parts.sentence is None:
        return parts
    return dataclasses.replace(parts, sentence=ExportedSentence(parts.sentence))


def _padded(texts: list[Tensor]) -> Tensor:
    """(B, L) of rows of different lengths, zeros at the end."""
    wide = pad_sequence(texts, batch_first=True)
    return F.pad(wide, (0, max(0, LEAST_LENGTH - wide.shape[1])))


def _made(output: EncoderOutput) -> Tensor:
    made: Tensor = vars(output)["made"]
    return made


def _refuse(what: str) -> NoReturn:
    raise TaskError(
        f"an exported model gives what it was exported for, and not {what}; use the model that it "
        "was exported from"
    )
