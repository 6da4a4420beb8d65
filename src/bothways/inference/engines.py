"""The engines that a model can be exported for: how a graph is written for one, and run by it.

An engine is a function of named padded tensors to one tensor. Which tensors a graph takes and
what is checked is in `export.py`; a model that runs on an engine is made in `exported.py`.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.export import ExportedProgram

from bothways.errors import MissingExtraError

EngineName = Literal["onnx", "openvino", "torch-export"]
Engine = Callable[[Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True)
class EngineKind:
    """One engine.

    Attributes:
        file: name of the graph in a model folder.
        runs_on: library that runs it.
        writers: other libraries that writing needs.
        write: puts a program and the name of its output into a file.
        open: makes an engine of such a file.
    """

    file: str
    runs_on: str
    writers: tuple[str, ...]
    write: Callable[[ExportedProgram, str, Path], None]
    open: Callable[[Path], Engine]

    def version(self) -> str:
        """Name and version of the library that runs it."""
        return f"{self.runs_on} {version(self.runs_on)}"


def find_engine(name: str, *, writing: bool) -> EngineKind:
    """The engine of this name.

    Args:
        name: one of `ENGINES`.
        writing: whether a graph will be written.

    Raises:
        MissingExtraError: when a library that this needs is not installed.
    """
    kind = ENGINES[name]
    for library in (kind.runs_on, *(kind.writers if writing else ())):
        if find_spec(library) is None:
            raise MissingExtraError(library, name)
    return kind


def _write_onnx(program: ExportedProgram, output: str, path: Path) -> None:
    with quiet_torch():
        made = torch.onnx.export(program, (), dynamo=True, output_names=[output], verbose=False)
        assert made is not None
        made.save(path)


def _open_onnx(path: Path) -> Engine:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        return torch.from_numpy(session.run(None, arrays)[0])

    return run


def _write_openvino(program: ExportedProgram, output: str, path: Path) -> None:
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        # Through the reader in the engine itself: `convert_model` loads a library of telemetry.
        _write_onnx(program, output, Path(folder) / "model.onnx")
        graph = openvino.Core().read_model(Path(folder) / "model.onnx")
        # Half precision would be the default, and other numbers.
        openvino.save_model(graph, path, compress_to_fp16=False)


def _open_openvino(path: Path) -> Engine:
    import openvino

    # Without the first hint, processors with bfloat16 would use it.
    hints = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
    }
    model = openvino.Core().compile_model(path, "CPU", hints)

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        return torch.from_numpy(model(arrays)[0])

    return run


def _write_program(program: ExportedProgram, output: str, path: Path) -> None:
    del output
    with quiet_torch():
        torch.export.save(program, path)


def _open_program(path: Path) -> Engine:
    """Only for a file that this process has written: opening one can run code hidden in it."""
    with quiet_torch():
        module = torch.export.load(path).module()

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        made: Tensor = module(*inputs.values())
        return made

    return run


@contextmanager
def quiet_torch() -> Iterator[None]:
    """Without torch's warnings about what concerns others: no torchvision, its own old names."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


_ONNX = ("onnx", "onnxscript")
ENGINES: Mapping[str, EngineKind] = {
    "onnx": EngineKind("model.onnx", "onnxruntime", _ONNX, _write_onnx, _open_onnx),
    "openvino": EngineKind("model.xml", "openvino", _ONNX, _write_openvino, _open_openvino),
    "torch-export": EngineKind("model.pt2", "torch", (), _write_program, _open_program),
}
