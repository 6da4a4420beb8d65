"""`bothways mine negatives`: hard negatives for pairs, found by an embedder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bothways.cli.inputs import ColumnSettings, file_options, open_model, texts
from bothways.cli.output import Output
from bothways.cli.progress import counting
from bothways.config import CommonSettings
from bothways.errors import UsageError

if TYPE_CHECKING:
    from bothways.inference.mining import Mined
    from bothways.tasks.embed_examples import EmbedExample


@dataclass(frozen=True)
class Settings:
    """Find hard negatives for pairs, or for the queries of a retrieval set.

    Attributes:
        model: folder or hub name of an embedder.
        output: a .jsonl file to write: anchor, positive, negative_1 and so on, a pair a line.
        input: a data file of pairs.
        corpus: texts to find negatives among: a data file or a .txt file with a text a line;
            unset: the second texts of all pairs. With --qrels the documents of the set.
        queries: queries of a retrieval set, instead of --input.
        qrels: its judgements.
        judgements: how queries are named and grades meant; auto: what the files look like.
        count: negatives a pair.
        skip: nearest texts to leave out, which may well be positives that nobody marked.
        depth: how many of the nearest texts are looked at.
        least_gap: by how much the cosine of a negative must be below that of the positive.
        relative_gap: the same as a share of the positive's cosine, as in 0.05.
        highest: largest cosine of a negative.
        pick: the nearest of those that are left, or any of them by chance (--seed).
        overwrite: replace an output that exists.
    """

    model: str
    output: Path
    input: Path | None = None
    corpus: Path | None = None
    queries: Path | None = None
    qrels: Path | None = None
    judgements: Literal["auto", "plain", "cranfield"] = "auto"
    count: int = 5
    skip: int = 0
    depth: int = 100
    least_gap: float | None = None
    relative_gap: float | None = None
    highest: float | None = None
    pick: Literal["nearest", "random"] = "nearest"
    overwrite: bool = False
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    common: CommonSettings = field(default_factory=CommonSettings)

    def check(self) -> Path:
        """The file that pairs are read from.

        Raises:
            UsageError: when there is none, or more than one kind.
        """
        source = self.input or self.qrels
        if source is None or (self.input is not None) == (self.qrels is not None):
            raise UsageError("give --input, a file of pairs, or --corpus --queries --qrels")
        if self.qrels is not None and (self.corpus is None or self.queries is None):
            raise UsageError("a retrieval set needs --corpus, --queries and --qrels")
        return source


def run(settings: Settings) -> Output:
    """Read, embed, search, write."""
    from bothways.cli.files import claim
    from bothways.files import Staged
    from bothways.inference.mining import NegativeSettings, mine_negatives

    start = time.perf_counter()
    chosen = NegativeSettings(
        **{name: getattr(settings, name) for name in vars(NegativeSettings())}
    )
    chosen.check()
    source = settings.check()
    claim(settings.output, overwrite=settings.overwrite, source=source, suffix=".jsonl")
    examples, documents = _read(settings)
    model = open_model(settings.model, settings.common)
    common = settings.common
    with counting("texts") as count:
        found, ledger = mine_negatives(
            model,
            examples,
            documents,
            settings=chosen,
            seed=common.seed,
            max_length=common.max_length,
            policy=common.policy,
            batch_tokens=common.batch_tokens,
            on_batch=count,
        )
    total = without = 0
    with Staged(settings.output.parent) as files, files.stream(settings.output.name) as stream:
        for mined in found:
            total += len(mined.negatives)
            without += not mined.negatives
            line = json.dumps(_row(mined), ensure_ascii=False)
            stream.write((line + "\n").encode())
    seconds = time.perf_counter() - start
    return Output(
        f"{settings.output}: {total} negatives for {len(examples)} pairs, {without} of which have "
        f"none, in {seconds:.1f} s\n{ledger.sentence()}",
        {
            "model": settings.model,
            "output": str(settings.output),
            "count": len(examples),
            "negatives": total,
            "without": without,
            "seconds": seconds,
            "ledger": ledger.as_dict(),
        },
    )


def _read(settings: Settings) -> tuple[list[EmbedExample], list[str]]:
    """The pairs, and the texts to look among; none where these are those of the pairs."""
    from bothways.tasks.embed import EmbedTask
    from bothways.tasks.task import Columns

    if settings.qrels is not None:
        from bothways.data.retrieval import read_retrieval_set

        assert settings.corpus
        assert settings.queries
        found = read_retrieval_set(
            settings.corpus,
            settings.queries,
            settings.qrels,
            files=file_options(settings.common),
            judgements=settings.judgements,
        )
        return EmbedTask().read_retrieval(found), list(found.documents.values())
    assert settings.input
    task = EmbedTask(columns=settings.columns.over(Columns()))
    examples = task.read(file_options(settings.common).rows(settings.input), labelled=False)
    return examples, [] if settings.corpus is None else list(_corpus(settings))


def _corpus(settings: Settings) -> Iterator[str]:
    assert settings.corpus
    for text in texts(settings.corpus, ColumnSettings(), settings.common):
        yield text if isinstance(text, str) else text[0]


def _row(mined: Mined) -> dict[str, Any]:
    """A line of the output: the pair, its negatives, and all cosines with the anchor."""
    example = mined.example
    negatives = {f"negative_{n}": text for n, text in enumerate(example.negatives, start=1)}
    cosines = [round(value, 4) for value in (mined.positive, *mined.negatives)]
    return {"anchor": example.text, "positive": example.pair, **negatives, "cosines": cosines}
