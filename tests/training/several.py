"""Files and settings of several heads: one table for every task that can share an encoder."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

from bothways.config import CommonSettings
from bothways.training.head_table import HeadTable
from bothways.training.run_tables import DataSettings, LoopSettings, OptimSettings
from bothways.training.settings import FinetuneSettings
from bothways.training.task_tables import ClassifySettings, TagSettings
from tests.training.tiny import BAD, GOOD, PLAIN

COUNT = 24


def write_files(folder: Path) -> Path:
    """A file for each task, all about one good or bad word among plain ones."""
    draw = random.Random(0)
    written: dict[str, list[str]] = {
        "classify.csv": ["text,label"],
        "multi.csv": ["text,label"],
        "regress.csv": ["text,score"],
        "rerank.tsv": ["query\tpassage\tlabel"],
        "relate.tsv": ["text\tlabel"],
        "tag.conll": [],
        "choice.jsonl": [],
        "answer.jsonl": [],
    }
    for number in range(COUNT):
        good = number % 2 == 1
        words = draw.choices(PLAIN, k=draw.randint(3, 6))
        place = draw.randrange(len(words))
        words[place] = word = draw.choice(GOOD if good else BAD)
        text, label = " ".join(words), ("bad", "good")[good]
        written["classify.csv"].append(f"{text},{label}")
        written["multi.csv"].append(f"{text},{label}{';long' * (len(words) > 4)}")
        written["regress.csv"].append(f"{text},{len(words)}")
        written["rerank.tsv"].append(f"{GOOD[number // 4 % 4]}\t{text}\t{int(good)}")
        marked = " ".join(["<e1>the</e1>", *words, "<e2>film</e2>"])
        written["relate.tsv"].append(f"{marked}\t{label}(e1,e2)")
        tags = [f"{each}\t{'B-' + label if at == place else 'O'}" for at, each in enumerate(words)]
        written["tag.conll"].append("\n".join(tags) + "\n")
        choice = {"question": text, "choices": [GOOD[0], BAD[0]], "label": int(not good)}
        written["choice.jsonl"].append(json.dumps(choice))
        answer = {"text": word, "answer_start": text.index(word)}
        asked = {"question": "was it", "context": text, "answers": [answer]}
        written["answer.jsonl"].append(json.dumps(asked))
    for name, lines in written.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def table(folder: Path, name: str, file: str, task: str, **rest: Any) -> HeadTable:
    """A head that learns from a file and is judged on it too."""
    data = DataSettings(train=folder / file, dev=folder / file)
    return HeadTable(name, task, data=data, **rest)


def tables(folder: Path) -> tuple[HeadTable, ...]:
    """One for each task that can share an encoder."""
    several = ClassifySettings(multi_label=True)
    return (
        table(folder, "mood", "classify.csv", "classify", pooling="mean"),
        table(folder, "kinds", "multi.csv", "classify", classify=several),
        table(folder, "size", "regress.csv", "regress"),
        table(folder, "words", "tag.conll", "tag"),
        table(folder, "chain", "tag.conll", "tag", tag=TagSettings(crf=True)),
        table(folder, "link", "relate.tsv", "relate"),
        table(folder, "pick", "choice.jsonl", "multiple-choice"),
        table(folder, "rank", "rerank.tsv", "rerank"),
        table(folder, "where", "answer.jsonl", "answer"),
    )


def settings_of(
    model: Path, output: Path, heads: tuple[HeadTable, ...], **rest: Any
) -> FinetuneSettings:
    """A short run."""
    given: dict[str, Any] = {
        "optim": OptimSettings(learning_rate=(1e-2,)),
        "loop": LoopSettings(epochs=1, batch_size=8),
        "common": CommonSettings(device="cpu"),
    }
    return FinetuneSettings(str(model), output, heads=heads, **given | rest)


def without_dev(heads: tuple[HeadTable, ...]) -> tuple[HeadTable, ...]:
    """The same, with nothing held out, which is quicker."""
    return tuple(
        dataclasses.replace(head, data=dataclasses.replace(head.data, dev=None)) for head in heads
    )
