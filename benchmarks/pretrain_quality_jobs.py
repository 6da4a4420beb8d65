"""One run of the comparison of quality for time, in a process of its own: `pretrain_quality.py`.

    python benchmarks/pretrain_quality_jobs.py --job JSON [--folder FOLDER]

Prints one JSON object: the curve (minutes of training, held-out loss), its end, steps and tokens.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import data_folder

FOLDER = Path(tempfile.gettempdir()) / "bothways-quality"
CORPUS = ("linux_doc_en", "us_speeches_pd", "wordnet_glosses")
PIECES, LENGTH, BATCH_TOKENS, THEIR_SHARE = 4096, 64, 32 * 64, 0.15
# What is ours to choose; the learning rate that is tuned is that of the matrices.
RECIPE: dict[str, Any] = {
    "preset": "modern-tiny",
    "mask_share": 0.2,
    "optimizer": "muon",
    "learning_rate": 3e-3,
    "schedule": "trapezoid",
    "decay": 0.4,
    "ramp": 0.2,
    "ramp_start": 0.25,
}
# Steps that tell how many fit, and those of them that do not count.
MEASURED_STEPS, WARMING_STEPS = 50, 10
# Evaluations of a run, and steps between two of them at least.
POINTS, LEAST_STEPS = 30, 10
Curve = list[tuple[float, float]]


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        side: bothways or transformers.
        rate: learning rate.
        minutes: of training.
        threads: of the processor.
    """

    side: str
    rate: float
    minutes: float
    threads: int


# --- the text of both sides ---------------------------------------------------------------------


def prepared(folder: Path) -> tuple[Path, Path]:
    """Tokenizer and shards of the corpus, made once."""
    from bothways.data.corpus import Corpus
    from bothways.data.prepare import PrepareSettings, prepare
    from bothways.families.registry import FAMILIES
    from bothways.tokenization.train import train_tokenizer

    reads, shards = folder / "tokenizer", folder / "shards"
    files = tuple(str(data_folder() / "rawtext" / f"{name}.txt") for name in CORPUS)
    if not (shards / "manifest.json").exists():
        recipe = FAMILIES["bert"].tokenizer
        assert recipe is not None
        lines = Corpus(files, document="line")
        tokenizer = train_tokenizer(
            lines, algorithm="wordpiece", vocab_size=PIECES, recipe=recipe, lowercase=True
        )
        tokenizer.save(reads)
        prepare(PrepareSettings(files, shards, overwrite=True), tokenizer)
    return reads, shards


def text_data(folder: Path) -> Any:
    """Shards as ours are read, with the held-out masks of both sides."""
    from bothways.tokenization.tokenizer import load_tokenizer
    from bothways.training.text_feed import TextData

    reads, shards = prepared(folder)
    settings = our_settings(folder / "unused", shards, steps=1, rate=1.0)
    return TextData(shards, settings.filled(), load_tokenizer(reads))


# --- ours ---------------------------------------------------------------------------------------


def our_settings(
    output: Path, shards: Path, *, steps: int, rate: float, points: int = POINTS, **changes: Any
) -> Any:
    """The recipe as settings of `pretrain`, with so many evaluations."""
    from bothways.training.pretrain_settings import PretrainSettings
    from bothways.training.pretrain_tables import (
        CorpusSettings,
        LoopSettings,
        MachineSettings,
        ObjectiveSettings,
        OptimSettings,
    )

    optim = {key: RECIPE[key] for key in RECIPE if key not in ("preset", "mask_share")}
    return PretrainSettings(
        output,
        preset=RECIPE["preset"],
        overwrite=True,
        corpus=CorpusSettings(data=shards),
        objective=ObjectiveSettings(mask_share=RECIPE["mask_share"]),
        optim=OptimSettings(matrix_learning_rate=rate, **{**optim, **changes}),
        loop=LoopSettings(
            steps=steps,
            evaluate_every=max(LEAST_STEPS, steps // points),
            max_length=LENGTH,
            batch_tokens=BATCH_TOKENS,
            checkpoint_every=10**9,
        ),
        machine=MachineSettings(device="cpu"),
    )


def quality_ours(job: Job, folder: Path) -> dict[str, Any]:
    """What `bothways pretrain` reaches."""
    from bothways.training.pretrain import pretrain, steps_that_fit

    _, shards = prepared(folder)
    output = folder / "run"
    measured = {"steps": MEASURED_STEPS, "points": 1, "ramp": 0.0}
    pretrain(our_settings(output, shards, rate=job.rate, **measured))
    marks = dict(busy_seconds(output))
    step = (marks[MEASURED_STEPS] - marks[WARMING_STEPS]) / (MEASURED_STEPS - WARMING_STEPS)
    ramp = (RECIPE["ramp"], RECIPE["ramp_start"])
    steps = steps_that_fit(job.minutes * 60, spent=0.0, step=step, scoring=0.0, ramp=ramp)
    result = pretrain(our_settings(output, shards, steps=steps, rate=job.rate))
    marks = dict(busy_seconds(output))
    scored = [line for line in metrics(output) if line["split"] == "dev"]
    return {
        "curve": [(marks[line["step"]] / 60, line["loss"]) for line in scored],
        "loss": result.metrics["loss"],
        "unigram": result.unigram_loss,
        "steps": steps,
        "tokens": result.tokens,
    }


def metrics(output: Path) -> list[dict[str, Any]]:
    """The lines of a run's log."""
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text("utf-8").splitlines()]


def busy_seconds(output: Path) -> Iterator[tuple[int, float]]:
    """Seconds of training up to each logged step, evaluations left out."""
    tokens, seconds = 0, 0.0
    for line in metrics(output):
        if line["split"] == "train":
            seconds += (line["tokens"] - tokens) / line["tokens_per_second"]
            tokens = line["tokens"]
            yield line["step"], seconds


# --- theirs -------------------------------------------------------------------------------------


def quality_theirs(job: Job, folder: Path) -> dict[str, Any]:
    """What their class and collator reach with AdamW and a linear schedule."""
    from transformers import BertTokenizerFast, DataCollatorForLanguageModeling

    data = text_data(folder)
    reads, _ = prepared(folder)
    tokenizer = BertTokenizerFast.from_pretrained(reads)
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=THEIR_SHARE)
    source, held_out = unmasked(data), data.held_out()

    def train(steps: int, score: Callable[[Any], float]) -> tuple[list[float], Curve, int]:
        """Seconds of each step, the curve, and the tokens read."""
        model, optimizer, schedule = new_model(job.rate, steps)
        seconds, curve, tokens = list[float](), Curve(), 0
        for number in range(1, steps + 1):
            rows = next(source)
            begin = time.perf_counter()
            loss = model(**collate(rows)).loss
            loss.backward()
            step_of(model, optimizer, schedule)
            seconds.append(time.perf_counter() - begin)
            tokens += sum(len(row["input_ids"]) for row in rows)
            if number % max(LEAST_STEPS, steps // POINTS) == 0 or number == steps:
                curve.append((sum(seconds) / 60, score(model)))
        return seconds, curve, tokens

    seconds, _, _ = train(MEASURED_STEPS, lambda _: math.nan)
    step = sum(seconds[WARMING_STEPS:]) / (MEASURED_STEPS - WARMING_STEPS)
    steps = max(1, int(job.minutes * 60 / step))
    _, curve, tokens = train(steps, lambda model: held_out_loss(model, held_out))
    return {"curve": curve, "loss": curve[-1][1], "steps": steps, "tokens": tokens}


def unmasked(data: Any) -> Iterator[list[dict[str, Any]]]:
    """The sequences of our steps as they were before anything was hidden, without end."""
    from bothways.training.schedule import batch_ramp

    for step in data.feed(batch_ramp(steps=1)).steps({}):
        batch = step.micro[0].batch
        ids = batch.ids.clone()
        ids[batch.targets["masked"]] = batch.targets["originals"]
        yield [{"input_ids": row.tolist()} for row in batch.layout.split(ids)]


def new_model(rate: float, steps: int) -> tuple[Any, Any, Any]:
    """Their model of the same shape, its optimizer and schedule."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, get_linear_schedule_with_warmup

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=PIECES,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
    )
    model = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=True)
    return model, optimizer, get_linear_schedule_with_warmup(optimizer, int(0.06 * steps), steps)


def step_of(model: Any, optimizer: Any, schedule: Any) -> None:
    """Clip, move, and forget the gradients."""
    import torch

    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad(set_to_none=True)


def held_out_loss(model: Any, batches: Sequence[Any]) -> float:
    """Their model's mean loss over the tokens that ours is scored on."""
    import torch
    import torch.nn.functional as F

    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for batch in batches:
            masked, originals = batch.targets["masked"], batch.targets["originals"]
            ids = torch.nn.utils.rnn.pad_sequence(batch.layout.split(batch.ids), True)
            keep = torch.arange(ids.shape[1]) < torch.tensor(batch.layout.lengths)[:, None]
            logits = model(input_ids=ids, attention_mask=keep.long()).logits[keep][masked]
            total += float(F.cross_entropy(logits, originals, reduction="sum"))
            count += len(masked)
    model.train()
    return total / count


# --- a run ---------------------------------------------------------------------------------------


def run_job(job: Job, folder: Path) -> dict[str, Any]:
    """One run in this process; its loss is None where it diverged."""
    import torch

    from bothways.errors import BadStepError

    torch.set_num_threads(job.threads)
    side = {"bothways": quality_ours, "transformers": quality_theirs}[job.side]
    try:
        found = side(job, folder)
    except BadStepError as error:
        return {"curve": [], "loss": None, "diverged": str(error)}
    finite = math.isfinite(found["loss"])
    return found if finite else {"curve": [], "loss": None, "diverged": "the loss is no number"}


def main() -> None:
    """Run one job, as `quality` asks for in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    print(json.dumps(run_job(Job(**json.loads(options.job)), options.folder)))


if __name__ == "__main__":
    main()
