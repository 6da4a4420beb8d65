"""`bothways check`: whether a model passes a suite of behavioural tests."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bothways.cli.inputs import headed, open_model
from bothways.cli.output import Output
from bothways.config import CommonSettings

if TYPE_CHECKING:
    from bothways.diagnostics.check import Checked


@dataclass(frozen=True)
class Settings:
    """Run a suite of behavioural tests; exit with 1 when one fails.

    Attributes:
        model: folder of a fine-tuned classifier, or hub name.
        suite: TOML file of the tests.
        head: of several heads, the one to check.
        junit: an XML file to write, for continuous integration; one that is there is replaced.
    """

    model: str
    suite: Path
    head: str | None = None
    junit: Path | None = None
    common: CommonSettings = field(default_factory=CommonSettings)


def run(settings: Settings) -> Output:
    """Read the suite, run it, say what failed."""
    from bothways.diagnostics.check import check
    from bothways.diagnostics.suite import read_suite
    from bothways.files import write_text
    from bothways.report.junit import junit

    common = settings.common
    suite = read_suite(settings.suite, seed=common.seed)
    model = headed(open_model(settings.model, common), settings.head)
    report = check(
        model,
        suite,
        name=settings.model,
        policy=model.policy(common.max_length, common.policy, common.overlap),
        batch_tokens=common.batch_tokens,
    )
    if settings.junit is not None:
        write_text(settings.junit, junit(report))
    return Output(
        report.text,
        {
            "model": settings.model,
            "suite": str(settings.suite),
            "passed": report.passed,
            "tests": [_as_dict(each) for each in report.tests],
            "ledger": report.ledger.as_dict(),
            "seconds": report.seconds,
        },
        exit_code=0 if report.passed else 1,
    )


def _as_dict(each: Checked) -> dict[str, Any]:
    return {
        "name": each.test.name,
        "kind": each.test.kind,
        "passed": each.passed,
        "cases": len(each.test.cases),
        "cases_possible": each.test.possible,
        "cases_passed": len(each.test.cases) - len(each.failures),
        "least_share": each.test.least_share,
        "failures": [asdict(failure) for failure in each.failures],
    }
