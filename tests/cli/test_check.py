"""`bothways check`: its exit code, its JSON and the XML for continuous integration."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bothways.diagnostics.suite import read_suite
from tests.cli.command import LEDGER_KEYS, Command
from tests.training.tiny import GOOD, PLAIN

SAID = " ".join([*PLAIN[:3], GOOD[0], PLAIN[3]])
PRAISE = f"""
[[test]]
name = "praise"
kind = "minimum"
template = "{SAID}"
expect = "good"
"""
WRONG = PRAISE.replace('"praise"', '"the other way round"').replace(
    'expect = "good"', 'expect = "bad"'
)


@pytest.mark.parametrize(("suite", "code"), [(PRAISE, 0), (PRAISE + WRONG, 1)])
def test_one_failed_test_is_exit_code_1(
    bothways: Command, classifier: Path, tmp_path: Path, suite: str, code: int
) -> None:
    path, xml = tmp_path / "suite.toml", tmp_path / "made" / "junit.xml"
    path.write_text(suite, encoding="utf-8")
    done = bothways(
        "check", "--model", classifier, "--suite", path, "--junit", xml, "--json", code=code
    )
    found = done.json
    assert set(found) == {"model", "suite", "passed", "tests", "ledger", "seconds"}
    assert set(found["ledger"]) == LEDGER_KEYS
    assert found["passed"] is (code == 0)
    assert [test["passed"] for test in found["tests"]] == [True, False][: 1 + code]
    root = ElementTree.parse(xml).getroot()
    assert root.attrib["failures"] == str(code)
    if code:
        (failure,) = found["tests"][1]["failures"]
        assert failure["read"] == SAID
        assert "expected 'bad'" in failure["found"]


def test_a_suite_of_other_labels_is_wrong_usage(
    bothways: Command, classifier: Path, tmp_path: Path
) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(PRAISE.replace('expect = "good"', 'expect = "goood"'), encoding="utf-8")
    done = bothways("check", "--model", classifier, "--suite", path, code=2)
    assert "did you mean 'good'?" in done.err


def test_the_example_is_a_suite(project: Path) -> None:
    tests = read_suite(project / "examples" / "sentiment-suite.toml").tests
    assert {test.kind for test in tests} == {"minimum", "invariance", "direction"}
