"""What transformers saved and we loaded, we save so that transformers loads the same numbers.

Every family times every head: the same tensors with the same bits under the same names, the same
keys of the configuration, and an account of every tensor. The names are frozen in `names/`, one
file a family: they are what published checkpoints are read by. This file, run as a module, writes
them anew; the difference is then to be read with care.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.save import save_parts
from bothways.families.registry import FAMILIES
from tests.parity.families import ROWS, Pair, Row, classes, make_pair
from tests.parity.test_parity import Texts

NAMES = Path(__file__).parent / "names"
# The weights are bit for bit the same; where they lie in memory decides how a processor sums.
SAME_WEIGHTS = 1e-6


def published(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder."""
    return load_file(folder / "model.safetensors")


def outputs(model: torch.nn.Module, pair: Pair) -> Iterator[Tensor]:
    """Everything that a model of transformers returns for the same texts."""
    texts = Texts.draw(pair.ours.config)
    arguments = texts.arguments(pair.ours.config, candidates=pair.kind == "choice")
    with torch.no_grad():
        yield from model(**arguments).to_tuple()


def _cases() -> Iterator[tuple[Row, str]]:
    """All heads on the first row of a family; on its other rows the bare encoder will do."""
    seen: set[str] = set()
    for row in ROWS:
        names = classes(row)
        yield from ((row, name) for name in (names[:1] if row.model_type in seen else names))
        seen.add(row.model_type)


@pytest.mark.parametrize(
    ("row", "class_name"),
    [pytest.param(row, name, id=f"{row.model_type}-{row.name}-{name}") for row, name in _cases()],
)
def test_what_we_save_is_what_we_loaded(row: Row, class_name: str, tmp_path: Path) -> None:
    pair = make_pair(row, class_name, tmp_path / "theirs")
    save_parts(pair.ours, tmp_path / "ours")
    theirs, ours = published(tmp_path / "theirs"), published(tmp_path / "ours")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    keys = [
        json.loads((tmp_path / side / "config.json").read_text()) for side in ("theirs", "ours")
    ]
    assert keys[0] == keys[1]
    again = load_parts(tmp_path / "ours")
    assert (again.config, again.architecture) == (pair.ours.config, class_name)
    check_account(pair, class_name, theirs)
    check_theirs(pair, class_name, tmp_path / "ours")


def check_account(pair: Pair, class_name: str, tensors: dict[str, Tensor]) -> None:
    """Every tensor of the file is loaded, and what is tied is said to be."""
    report = pair.ours.report
    assert set(report.loaded) == set(tensors)
    assert not any((report.unexpected, report.missing, report.mismatched, report.ignored))
    head = pair.ours.family.heads.get(class_name)
    assert report.tied == ({} if head is None else head.names.tied)
    assert report.untied == ()
    assert report.head_trained


def check_theirs(pair: Pair, class_name: str, folder: Path) -> None:
    """transformers finds all that it wants in our folder, and computes what it did before."""
    again, info = getattr(transformers, class_name).from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(info.values()), info
    state = again.state_dict()
    assert all(torch.equal(state[name], value) for name, value in pair.theirs.state_dict().items())
    before, after = list(outputs(pair.theirs, pair)), list(outputs(again.eval(), pair))
    assert before
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=SAME_WEIGHTS)


def describe(model_type: str, folder: Path) -> str:
    """The tensors of each class of a family, name and shape, those of the encoder once."""
    row = next(row for row in ROWS if row.model_type == model_type)
    prefix = FAMILIES[model_type].prefix
    encoder: dict[str, Tensor] = {}
    lines = []
    for class_name in classes(row):
        pair = make_pair(row, class_name, folder / class_name)
        save_parts(pair.ours, folder / class_name / "ours")
        tensors = published(folder / class_name / "ours")
        lines.append(f"[{class_name}]")
        if pair.kind is None:
            encoder = tensors
        else:
            absent = [name for name in encoder if prefix + name not in tensors]
            without = f" without {', '.join(sorted(absent))}" if absent else ""
            lines.append(f"{prefix}(the encoder's{without})")
            tensors = {n: t for n, t in tensors.items() if n.removeprefix(prefix) not in encoder}
        lines += [f"{n} {'x'.join(map(str, tensors[n].shape))}" for n in sorted(tensors)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("model_type", dict.fromkeys(row.model_type for row in ROWS))
def test_the_names_of_published_tensors_are_frozen(model_type: str, tmp_path: Path) -> None:
    """A mistake on both sides would cancel in a round trip; here it would not."""
    stored = (NAMES / f"{model_type}.txt").read_text(encoding="utf-8")
    assert describe(model_type, tmp_path) == stored


if __name__ == "__main__":
    for family in dict.fromkeys(row.model_type for row in ROWS):
        with TemporaryDirectory() as place:
            (NAMES / f"{family}.txt").write_text(describe(family, Path(place)), encoding="utf-8")
