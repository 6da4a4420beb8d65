"""`check`: a model against a suite of behavioural tests.

All texts of all tests are read in one pass, each once. What a suite is, is in `suite.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bothways.diagnostics.suite import Behaviour, Case, Read, Suite
from bothways.errors import TaskError, counted
from bothways.inference.abilities import trained_task
from bothways.inference.model import Model
from bothways.inference.results import Results
from bothways.tasks.results import LabelResult
from bothways.tokenization.encoding import Ledger
from bothways.tokenization.policy import CutPolicy

FAILURES_SHOWN = 3


@dataclass(frozen=True)
class Failure:
    """A case that failed.

    Attributes:
        read: the text or pair.
        changed: what it was compared with, or None.
        found: what the model said, in words.
    """

    read: Read
    changed: Read | None
    found: str

    def __str__(self) -> str:
        """In one line."""
        texts = _shown(self.read)
        if self.changed is not None:
            texts += f" -> {_shown(self.changed)}"
        return f"{texts}: {self.found}"


@dataclass(frozen=True)
class Checked:
    """What became of a test.

    Attributes:
        test: which.
        failures: the cases that failed, in their order.
    """

    test: Behaviour
    failures: tuple[Failure, ...]

    @property
    def share(self) -> float:
        """Of the cases that passed."""
        count = len(self.test.cases)
        return (count - len(self.failures)) / count

    @property
    def passed(self) -> bool:
        """Whether enough of them did."""
        return self.share >= self.test.least_share

    @property
    def summary(self) -> str:
        """`87 of 120 cases pass, all must`."""
        count = len(self.test.cases)
        told = f"{count - len(self.failures)} of {counted(count, 'case')} pass"
        if count < self.test.possible:
            told += f" (a sample of {self.test.possible:,})"
        least = self.test.least_share
        return told if self.passed else f"{told}, {'all' if least == 1 else f'{least:.0%}'} must"


@dataclass(frozen=True)
class CheckReport:
    """What became of a suite.

    Attributes:
        suite, model: their names.
        tests: in the suite's order.
        ledger: what was cut of all texts.
        seconds: it took.
    """

    suite: str
    model: str
    tests: tuple[Checked, ...]
    ledger: Ledger = field(default_factory=Ledger)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every test did."""
        return all(test.passed for test in self.tests)

    @property
    def text(self) -> str:
        """A line a test, the first failures below it, and how many failed."""
        lines = []
        for each in self.tests:
            word = "pass" if each.passed else "FAIL"
            lines.append(f"{word}  {each.test.name} ({each.test.kind}): {each.summary}")
            if not each.passed:
                lines += [f"        {failure}" for failure in each.failures[:FAILURES_SHOWN]]
        failed = sum(not each.passed for each in self.tests)
        verdict = (
            f"{failed} of {counted(len(self.tests), 'test')} failed"
            if failed
            else (f"{counted(len(self.tests), 'test')} passed")
        )
        return "\n".join([*lines, verdict])


def check(
    model: Model,
    suite: Suite,
    *,
    name: str = "model",
    policy: CutPolicy | None = None,
    batch_tokens: int | None = None,
) -> CheckReport:
    """Run a suite.

    Args:
        model: a classifier with one label a text.
        suite: its tests.
        name: of the model, for the report.
        policy: how texts are cut; None for what the folder says.
        batch_tokens: budget of a batch; None for the device's default.

    Raises:
        TaskError: when the model gives no single labels.
        UsageError: when the suite names labels that the model does not have.

    Example:
        >>> check(model, read_suite("suite.toml")).passed  # doctest: +SKIP
        True
    """
    start = time.perf_counter()
    task, _ = trained_task(model.parts, model.task)
    suite.check(task.labels)
    cases = [case for test in suite.tests for case in test.cases]
    texts = list(dict.fromkeys(read for case in cases for read in _reads(case)))
    found = Results.together(
        model.predict_stream(texts, policy=policy or model.policy(), batch_tokens=batch_tokens)
    )
    said = {
        read: result
        for read, result in zip(texts, found, strict=True)
        if isinstance(result, LabelResult)
    }
    if len(said) < len(texts):
        raise TaskError(
            f"a suite asks for one label a text; the task {task.name} gives something else"
        )
    tests = tuple(_checked(test, said) for test in suite.tests)
    seconds = time.perf_counter() - start
    return CheckReport(suite.name, name, tests, found.ledger, seconds)


def _checked(test: Behaviour, said: Mapping[Read, LabelResult]) -> Checked:
    failures = []
    for case in test.cases:
        wrong = JUDGES[test.kind](test, [said[read] for read in _reads(case)])
        if wrong:
            failures.append(Failure(case.read, case.changed, wrong))
    return Checked(test, tuple(failures))


def _minimum(test: Behaviour, said: list[LabelResult]) -> str:
    """Nothing, or what was said instead of what is expected."""
    (result,) = said
    if result.label in test.expect:
        return ""
    return f"{_told(result)}, expected {' or '.join(map(repr, test.expect))}"


def _invariance(test: Behaviour, said: list[LabelResult]) -> str:
    """Nothing, or the two labels."""
    del test
    before, after = said
    return "" if before.label == after.label else f"{_told(before)} became {_told(after)}"


def _direction(test: Behaviour, said: list[LabelResult]) -> str:
    """Nothing, or how the probability moved."""
    before, after = (result.probabilities[test.label] for result in said)
    moved = after - before if test.moves == "up" else before - after
    if moved >= test.by:
        return ""
    other = "down" if test.moves == "up" else "up"
    wanted = f"{test.moves} by {test.by:g}" if test.by > 0 else f"not {other}"
    if test.by < 0:
        wanted += f" by more than {-test.by:g}"
    return f"{test.label!r} went from {before:.2f} to {after:.2f}, expected {wanted}"


# Kind -> (test, results of a case) -> what is wrong, or nothing.
JUDGES: dict[str, Callable[[Behaviour, list[LabelResult]], str]] = {
    "minimum": _minimum,
    "invariance": _invariance,
    "direction": _direction,
}


def _reads(case: Case) -> tuple[Read, ...]:
    return (case.read,) if case.changed is None else (case.read, case.changed)


def _told(result: LabelResult) -> str:
    return f"{result.label!r} ({result.probability:.2f})"


def _shown(read: Read) -> str:
    return repr(read) if isinstance(read, str) else " / ".join(map(repr, read))
