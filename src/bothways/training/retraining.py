"""A model trained again as its recipe says, on other examples: what `diagnose --retrain` asks with.

Questions may not know training, so a function is handed in to them; `retraining` makes it.
"""

from __future__ import annotations

import dataclasses
import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bothways.checkpoints.load import load_parts
from bothways.config import read_recipe
from bothways.errors import UsageError, counted
from bothways.inference.model import Model
from bothways.tasks.results import Result
from bothways.training.examples import Splits, TrainingData, new_task
from bothways.training.grid import grid
from bothways.training.output import RECIPE_NAME
from bothways.training.run_tables import DataSettings
from bothways.training.runs import Runner
from bothways.training.runtime import Runtime
from bothways.training.settings import FinetuneSettings
from bothways.training.several import policy_of

logger = logging.getLogger(__name__)


def retraining(
    folder: Path, *, device: str | None = None, threads: int | None = None
) -> Callable[[Sequence[Any], Sequence[Any]], Sequence[Result]]:
    """A function that fine-tunes anew and predicts: (training examples, examples) to results.

    It starts from the encoder that the recipe of the folder names, with its settings: the first
    learning rate and seed, all epochs, nothing held out.

    Args:
        folder: of a fine-tuned model, with its recipe.
        device: where to train; None for the best there is.
        threads: of the processor; None for all.

    Raises:
        UsageError: when the folder has no recipe, or one of several heads.
    """
    path = folder / RECIPE_NAME
    if not path.is_file():
        raise UsageError(
            f"--retrain trains as {RECIPE_NAME} in the model's folder says, and {folder} has none; "
            "leave the flag out"
        )
    settings = read_recipe(FinetuneSettings, path)
    if settings.heads:
        raise UsageError(f"--retrain trains one head, and {path} has {len(settings.heads)}")

    def retrained(train: Sequence[Any], examples: Sequence[Any]) -> Sequence[Result]:
        logger.info("fine-tuning on a part of %s", counted(len(train), "example"))
        with tempfile.TemporaryDirectory() as scratch:
            model = _trained(settings, train, Path(scratch), device=device, threads=threads)
        return model.predict(examples)

    return retrained


def _trained(
    settings: FinetuneSettings,
    train: Sequence[Any],
    scratch: Path,
    *,
    device: str | None,
    threads: int | None,
) -> Model:
    """The model of one run on these examples."""
    settings = dataclasses.replace(
        settings,
        output=scratch,
        resume=False,
        track=(),
        data=DataSettings(),
        loop=dataclasses.replace(settings.loop, seeds=1, early_stop=0),
        optim=dataclasses.replace(settings.optim, learning_rate=settings.optim.learning_rate[:1]),
    )
    base = load_parts(settings.model)
    task = new_task(settings).fit(train)
    policy = policy_of(settings, task, Model(base))
    assert base.tokenizer is not None
    data = TrainingData.encode(Splits(task, list(train), None, None), base.tokenizer, policy)
    runtime = Runtime(device=device, precision=settings.common.precision, threads=threads)
    runner = Runner(settings, data=data, base=base, runtime=runtime, metric=task.main_metric)
    _, parts = runner.run(grid(settings)[0])
    finish = getattr(task, "finish", lambda done: done)
    parts = finish(parts.trained())
    return Model(dataclasses.replace(parts, settings={**parts.settings, "task": task.state()}))
