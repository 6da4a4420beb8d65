"""A passport's vectors: compared at once or at the first use, and not after a change on purpose."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts
from bothways.errors import CheckpointError
from bothways.inference.changes import version
from bothways.inference.model import load
from bothways.inference.verification import Verification
from tests.checkpoints.models import read_tensors, write_tensors

LATER = -1  # no model is so small that it is compared at once


@pytest.fixture
def replaced(tiny_folder: Path, tmp_path: Path) -> Path:
    """A folder whose weights are not those of its passport."""
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    tensors = {name: torch.randn(w.shape) for name, w in read_tensors(folder).items()}
    write_tensors(folder, tensors)
    return folder


def test_other_weights_are_refused_when_a_small_model_is_loaded(replaced: Path) -> None:
    """text-embeddings-inference#749, infinity#336, llama_index#9074: vectors that differ."""
    with pytest.raises(CheckpointError, match="other vectors than the model was saved with"):
        load(replaced)


def test_a_large_model_is_compared_at_its_first_use(replaced: Path, tiny_folder: Path) -> None:
    verify = Verification(load_parts(replaced), quick=LATER)
    with pytest.raises(CheckpointError, match="other vectors"):
        verify()
    with pytest.raises(CheckpointError, match="other vectors"):
        verify()  # a second try does not slip through
    Verification(load_parts(tiny_folder), quick=LATER)()


@torch.no_grad()
def scale(parts: Parts) -> None:
    for parameter in parts.encoder.parameters():
        parameter.mul_(-1.5)


def train(parts: Parts) -> None:
    """One step of a fused optimizer, which torch does not count as a change."""
    optimizer = torch.optim.AdamW(parts.encoder.parameters(), lr=1.0, fused=True)
    for parameter in parts.encoder.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()


@pytest.mark.parametrize("change", [scale, train])
def test_weights_that_were_changed_on_purpose_are_not_compared(
    change: object, tiny_folder: Path
) -> None:
    parts = load_parts(tiny_folder)
    verify = Verification(parts, quick=LATER)
    assert callable(change)
    change(parts)
    verify()


def test_a_model_is_loaded_and_used_in_inference_mode(tiny_folder: Path) -> None:
    """Parameters made there count no changes; asking them for the count is an error of torch."""
    with torch.inference_mode():
        model = load(tiny_folder)
        vectors = model.embed(["the film"]).vectors
    assert (load(tiny_folder).embed(["the film"]).vectors == vectors).all()


def test_a_version_grows_with_every_kind_of_change() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    seen = [version(parameter)]
    with torch.no_grad():
        parameter.add_(1)
    seen.append(version(parameter))
    for fused in (True, False):
        parameter.grad = torch.ones(3)
        torch.optim.SGD([parameter], lr=0.1, fused=fused).step()
        seen.append(version(parameter))
    assert len(set(seen)) == len(seen)
    assert version(parameter) == version(parameter)
