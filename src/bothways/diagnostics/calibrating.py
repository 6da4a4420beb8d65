"""`calibrate`: a model keeps the temperature that was fitted for it, and predicts with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bothways.checkpoints.settings import write_settings
from bothways.errors import TaskError, UsageError
from bothways.evaluation.result import Report
from bothways.inference.model import Model


def calibrate(model: Model, report: Report) -> float:
    """Store the temperature that the question `calibration` found, on top of one that was there.

    The model in memory predicts with it from now on, and so does its folder once it is loaded.
    Labels that are predicted stay the same; their probabilities do not.

    Args:
        model: that was diagnosed, from a folder.
        report: of the diagnosis.

    Returns:
        What is stored.

    Raises:
        TaskError: when no temperature was found.
        UsageError: when the model does not come from a folder of its own.

    Example:
        >>> calibrate(model, diagnose(model, "dev.csv"))  # doctest: +SKIP
        1.84
    """
    found = [each for each in report.findings if each.question == "calibration"]
    fitted = found[0].numbers.get("temperature") if found else None
    if not isinstance(fitted, float):
        why = found[0].text if found else "the question calibration was not asked"
        raise TaskError(f"there is no temperature to store: {why}")
    folder, task = model.parts.folder, model.task
    if folder is None or not Path(folder).is_dir():
        raise UsageError("the temperature is stored in the model's folder; save the model first")
    value = fitted * (getattr(task, "temperature", None) or 1.0)
    assert task is not None
    state = model.parts.settings.get("task") or task.state()
    settings = {**model.parts.settings, "task": {**state, "temperature": value}}
    write_settings(Path(folder), settings)
    model.parts = dataclasses.replace(model.parts, settings=settings)
    model.task = dataclasses.replace(task, temperature=value)  # type: ignore[type-var]
    return value
