"""`bothways export`: a model as one graph for another engine, checked against the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bothways.cli.output import Output


@dataclass(frozen=True)
class Settings:
    """Write a folder that predict, embed and evaluate run on another engine.

    A model with a task is exported with its head, every other one with the steps to its vectors.

    Attributes:
        model: folder or hub name.
        output: folder to write.
        to: the engine: ONNX Runtime, OpenVINO, or a program of torch.export, for which the folder
            keeps the weights too.
        overwrite: replace an exported model.
    """

    model: str
    output: Path
    to: Literal["onnx", "openvino", "torch-export"] = "onnx"
    overwrite: bool = False


def run(settings: Settings) -> Output:
    """Export and compare."""
    from bothways.inference.export import TOLERANCE, export
    from bothways.inference.model import load

    done = export(
        load(settings.model), settings.output, to=settings.to, overwrite=settings.overwrite
    )
    files = settings.output.glob("model.*")
    size = sum(file.stat().st_size for file in files if file.suffix != ".safetensors") / 1e6
    graph = f"{settings.output / done.file}: {done.gives} a {done.unit}, {size:,.1f} MB"
    lines = [
        f"{graph}, for {done.versions[-1]}",
        f"Largest difference from the model on ragged batches (at most {TOLERANCE:g}):",
        *(
            f"  {each.difference:.1e}  texts of {', '.join(map(str, each.lengths))} tokens"
            for each in done.compared
        ),
    ]
    return Output(
        "\n".join(lines),
        {"model": settings.model, "output": str(settings.output), **done.as_dict()},
    )
