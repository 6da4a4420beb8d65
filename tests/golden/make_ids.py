"""Stores what transformers 4.57 makes of texts in many scripts, with its slow and its fast engines.

transformers 5 merged the two and reads several vocabularies in another way, so this runs in an
environment of its own, from the root of the project:

    python -m venv /tmp/golden
    /tmp/golden/bin/pip install transformers==4.57.* tokenizers==0.22.* sentencepiece protobuf \
        sacremoses
    PYTHONPATH=src /tmp/golden/bin/python -m tests.golden.make_ids REAL UNCASED

REAL is the folder of real vocabularies (`tokenizers` of the real data), UNCASED that of a model
with BERT's uncased vocabulary. Each vocabulary gives one JSON file beside this one; `--train`
also trains the small vocabularies anew, which changes the ids of their families.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.golden.texts import SENTENCES, TEXTS
from tests.golden.vocabularies import FAMILIES, FOLDER, rules_hash, store, write_folder

LIBRARIES = ("transformers", "tokenizers", "sentencepiece", "sacremoses")
# Of each small vocabulary the classes, slow and fast.
CLASSES: dict[str, tuple[str, str | None]] = {
    "xlm-roberta": ("XLMRobertaTokenizer", "XLMRobertaTokenizerFast"),
    "camembert": ("CamembertTokenizer", "CamembertTokenizerFast"),
    "albert": ("AlbertTokenizer", "AlbertTokenizerFast"),
    "deberta-v2": ("DebertaV2Tokenizer", "DebertaV2TokenizerFast"),
    "flaubert": ("FlaubertTokenizer", None),
}


def real(
    folder: Path, uncased: Path
) -> Iterator[tuple[str, Path, str | None, str, dict[str, Any]]]:
    """Name, folder, slow class, fast class and arguments of the real vocabularies."""
    yield (
        "bert_cased",
        folder / "bert_cased",
        "BertTokenizer",
        "BertTokenizerFast",
        {"do_lower_case": False},
    )
    yield "bert_uncased", uncased, "BertTokenizer", "BertTokenizerFast", {}
    yield "roberta", folder / "roberta", "RobertaTokenizer", "RobertaTokenizerFast", {}
    # Its folder has tokenizer.json only.
    yield "xlm_roberta", folder / "xlm_roberta", None, "PreTrainedTokenizerFast", {}


def describe(
    folder: Path, slow: str | None, fast: str | None, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Ids by both engines and offsets by the fast one; ids of the fast one where they differ."""
    library: Any = import_module("transformers")
    engines = [
        None if name is None else getattr(library, name).from_pretrained(folder, **arguments)
        for name in (slow, fast)
    ]
    rows = []
    for text in TEXTS:
        row: dict[str, Any] = {"text": text}
        if engines[0] is not None:
            row["slow"] = engines[0](text)["input_ids"]
        if engines[1] is not None:
            read = engines[1](text, return_offsets_mapping=True)
            if read["input_ids"] != row.get("slow"):
                row["fast"] = read["input_ids"]
            row["offsets"] = read["offset_mapping"]
        rows.append(row)
    return {
        "versions": {name: version(name) for name in LIBRARIES},
        "slow": slow,
        "fast": fast,
        "pair": next(e for e in engines if e is not None)("one", "two")["input_ids"],
        "texts": rows,
    }


def write(name: str, content: dict[str, Any]) -> None:
    """One text a line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in content["texts"])
    head = json.dumps({key: value for key, value in content.items() if key != "texts"}, indent=1)
    text = f'{head[:-2]},\n "texts": [\n{lines}\n]\n}}\n'
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


def main(real_folder: str, uncased: str, *options: str) -> None:
    """Store all."""
    if "--train" in options:
        for family in (family for family in FAMILIES.values() if family.like is None):
            store(family, [*SENTENCES, *TEXTS] * 4)
    for name, folder, slow, fast, arguments in real(Path(real_folder), Path(uncased)):
        write(name, describe(folder, slow, fast, arguments))
    with tempfile.TemporaryDirectory() as place:
        for model_type, (slow_class, fast_class) in CLASSES.items():
            folder = write_folder(FAMILIES[model_type], Path(place) / model_type)
            content = describe(folder, slow_class, fast_class, {})
            write(model_type, {"rules": rules_hash(), **content})


if __name__ == "__main__":
    main(*sys.argv[1:])
