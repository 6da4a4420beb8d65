"""Export: encoder, pooling, head and normalisation as one graph for an engine, checked on the spot.

The graph takes padded tensors of any batch size and length, through the rectangular form of a
layout. It is written, opened again by its engine, and compared with the model on ragged batches
of random tokens; a graph that gives other numbers is not kept. `exported.py` runs the folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bothways.checkpoints.files import EXPORT_NAME, INDEX_NAME, WEIGHTS_NAME
from bothways.checkpoints.save import save_parts
from bothways.errors import CheckpointError, UsageError
from bothways.files import Staged
from bothways.inference.abilities import trained_task
from bothways.inference.engines import EngineKind, EngineName, find_engine, quiet_torch
from bothways.inference.exported import (
    LEAST_LENGTH,
    ExportedEncoder,
    ExportedHead,
    ExportedSentence,
)
from bothways.inference.int8_layers import in_float
from bothways.inference.model import Model
from bothways.inference.predictor import run
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.entities import EntityHead
from bothways.model.layout import Batch, Layout
from bothways.model.sentence import SentenceVector

# Largest difference of a number in float32, of the largest number where that is above 1.
TOLERANCE = 1e-4
# Lengths of the texts of each batch that is compared, at most the usable positions.
_RAGGED = ((2,), (9, 4, 2), (5, 17, 3, 2, 5), (512, 3))


@dataclass(frozen=True)
class Compared:
    """One ragged batch, read by the model and by the engine.

    Attributes:
        lengths: tokens of its texts.
        difference: largest one of any number, relative to the largest number where that is
            above 1.
    """

    lengths: tuple[int, ...]
    difference: float


@dataclass(frozen=True)
class Exported:
    """What an export wrote.

    Attributes:
        to: the engine.
        file: name of the graph in the folder.
        gives: logits or vectors.
        unit: what a row of its output belongs to, sequence or token.
        inputs: names of the tensors that the graph takes, in order.
        compared: the engine beside the model.
        versions: what wrote the graph and ran it.
    """

    to: EngineName
    file: str
    gives: str
    unit: str
    inputs: tuple[str, ...]
    compared: tuple[Compared, ...]
    versions: tuple[str, ...]

    @property
    def difference(self) -> float:
        """The largest of all batches."""
        return max(each.difference for each in self.compared)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; what export.json holds."""
        known = dataclasses.asdict(self)
        known["parity"] = {
            "tolerance": TOLERANCE,
            "largest_difference": self.difference,
            "batches": known.pop("compared"),
        }
        return known


class Graph(nn.Module):
    """An encoder and what reads it, as an engine sees them.

    Args:
        encoder: any.
        reader: a head, or the steps to a sentence vector.
    """

    def __init__(self, encoder: Encoder, reader: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.reader = reader
        self.per_token = getattr(reader, "unit", "sequence") == "token"

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor,
        entities: Tensor | None = None,
    ) -> Tensor:
        """Logits or vectors, (B, ...) or, a token, (B, L, ...)."""
        batch = Batch(
            input_ids.flatten(),
            Layout.rectangular(attention_mask),
            token_type_ids.flatten(),
            targets={} if entities is None else {"entities": entities},
        )
        rows = _rows(self.reader)
        output = self.encoder(batch, rows=None if rows is None else rows(batch))
        made: Tensor = self.reader(output, batch)
        return made.view(*input_ids.shape, -1) if self.per_token else made


def export(
    model: Model, folder: str | Path, *, to: EngineName = "onnx", overwrite: bool = False
) -> Exported:
    """Write a folder that `load`, `predict` and `embed` run on another engine.

    A model with a task gives its logits, every other one its sentence vectors.

    Args:
        model: in float32 on the CPU.
        folder: made when absent; not one that holds weights.
        to: onnx, openvino or torch-export; the last keeps the weights beside the graph.
        overwrite: replace an exported model.

    Raises:
        UntrainedHeadError: when the head's weights are random.
        MissingExtraError: when a library that this needs is not installed.
        CheckpointError: when the engine gives other numbers than the model, or the folder holds
            a model; nothing is written then.

    Example:
        >>> export(bothways.load("my-model"), "my-model-onnx").difference  # doctest: +SKIP
        3.1e-07
    """
    folder = Path(folder)
    held = [name for name in (WEIGHTS_NAME, INDEX_NAME) if (folder / name).exists()]
    if held and to != "torch-export":
        raise CheckpointError(
            f"{folder} holds the weights of a model ({', '.join(held)}); choose another folder"
        )
    parameter = next(model.encoder.parameters(), None)
    if parameter is None or parameter.dtype != torch.float32 or not parameter.is_cpu:
        raise UsageError("only a model with weights in float32 on the CPU is exported")
    model.verify()
    kind = find_engine(to, writing=True)
    reader = _reader(model)
    vectors = isinstance(reader, SentenceVector)
    made: list[Exported] = []

    def beside(files: Staged) -> None:
        program, inputs = _program(model.encoder, reader)
        unit = getattr(reader, "unit", "sequence")
        gives = "vectors" if vectors else "logits"
        with torch.inference_mode():
            kind.write(program, gives, files.path(kind.file))
        facts: dict[str, Any] = {"inputs": inputs, "unit": unit, "gives": gives}
        compared = _compare(model.encoder, reader, facts, kind, files)
        versions = (f"torch {torch.__version__}", kind.version())
        made.append(Exported(to, kind.file, gives, unit, inputs, compared, versions))
        read_too: dict[str, Tensor] = getattr(reader, "beside_logits", dict)()
        lists = {name: value.tolist() for name, value in read_too.items()}
        files.json(EXPORT_NAME, {**made[0].as_dict(), "beside_logits": lists})

    task = {} if model.task is None else {"task": model.task.state()}
    parts = dataclasses.replace(
        model.parts,
        settings={**model.parts.settings, **task},
        sentence=model.sentence if vectors else model.parts.sentence,
    )
    with in_float(model.encoder):
        save_parts(parts, folder, overwrite=overwrite, beside=beside, weights=to == "torch-export")
    return made[0]


def _reader(model: Model) -> nn.Module:
    """What the graph ends with: the trained head of a task, else the steps to a vector."""
    if model.task is None and not isinstance(model.head, nn.ModuleDict):
        return model.sentence
    return trained_task(model.parts, model.task)[1]


def _rows(reader: nn.Module) -> Any:
    return getattr(reader, "rows", None)


def _program(
    encoder: Encoder, reader: nn.Module
) -> tuple[torch.export.ExportedProgram, tuple[str, ...]]:
    """The graph for any batch size and length, and the names of its inputs."""
    usable = encoder.config.embeddings.usable_positions
    size = {
        0: torch.export.Dim("batch"),
        1: torch.export.Dim("length", min=LEAST_LENGTH, max=usable),
    }
    # One tensor for each input: one that was given twice would become one input of the graph.
    inputs = {
        "input_ids": torch.ones(3, LEAST_LENGTH + 1, dtype=torch.long),
        "attention_mask": torch.ones(3, LEAST_LENGTH + 1, dtype=torch.long),
        "token_type_ids": torch.zeros(3, LEAST_LENGTH + 1, dtype=torch.long),
    }
    sizes = dict.fromkeys(inputs, size)
    if isinstance(reader, EntityHead):
        inputs["entities"] = torch.ones(3, 2, dtype=torch.long)
        sizes["entities"] = {0: size[0]}
    with torch.no_grad(), quiet_torch():
        program = torch.export.export(
            Graph(encoder, reader).eval(), tuple(inputs.values()), dynamic_shapes=sizes
        )
    return program, tuple(inputs)


def _compare(
    encoder: Encoder, reader: nn.Module, facts: dict[str, Any], kind: EngineKind, files: Staged
) -> tuple[Compared, ...]:
    """The staged graph, run as `load` will run it, beside the model.

    Raises:
        CheckpointError: when the numbers differ.
    """
    other = ExportedEncoder(encoder.config, kind.open(files.path(kind.file)), facts)
    stand_in = (
        ExportedSentence(reader)
        if isinstance(reader, SentenceVector)
        else ExportedHead(facts["unit"], {})
    )
    compared = []
    for texts in _ragged(encoder.config):
        ours, theirs = _outputs(encoder, reader, texts), _outputs(other, stand_in, texts)
        scale = max(1.0, float(ours.abs().max()))
        difference = float((ours - theirs).abs().max()) / scale
        compared.append(Compared(tuple(map(len, texts[0])), difference))
    # Written so that not-a-number is wrong too.
    wrong = [each for each in compared if not each.difference <= TOLERANCE]
    if wrong:
        found = ", ".join(f"{each.difference:.1e} at lengths {each.lengths}" for each in wrong)
        raise CheckpointError(
            f"the graph that {kind.version()} runs gives other numbers than the model: {found}; at "
            f"most {TOLERANCE:g} is allowed. Nothing was written; another engine may do (--to), or "
            "another version of this one"
        )
    return tuple(compared)


Ragged = tuple[list[list[int]], list[list[int]], Tensor]


def _ragged(config: EncoderConfig) -> Iterator[Ragged]:
    """Batches of random texts, shortest first: ids, segments, and two tokens of each text."""
    axis = config.embeddings
    generator = torch.Generator().manual_seed(0)

    def draw(most: int, count: int) -> list[int]:
        return torch.randint(most, (count,), generator=generator).tolist()

    for longest in _RAGGED:
        lengths = sorted(min(length, axis.usable_positions) for length in longest)
        yield (
            [draw(axis.vocab_size, length) for length in lengths],
            [draw(max(1, axis.num_types), length) for length in lengths],
            torch.tensor([draw(length, 2) for length in lengths]),
        )


def _outputs(encoder: Encoder, reader: nn.Module, texts: Ragged) -> Tensor:
    """What a model gives for one batch."""
    ids, types, entities = texts
    read_out: Callable[[EncoderOutput, Batch], Tensor] = reader
    ((_, made, _),) = run(
        encoder,
        read_out,
        ids,
        type_ids=types,
        rows=_rows(reader),
        targets=lambda indices: {"entities": entities[indices]},
        batch_tokens=sum(map(len, ids)),
    )
    return made
