"""Suites of behavioural tests: what is wrong with one is said at once, and what fails is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bothways.diagnostics.check import check
from bothways.diagnostics.suite import placeholders, read_suite
from bothways.errors import TaskError, UsageError
from bothways.inference.model import Model
from bothways.report.junit import junit
from tests.diagnostics.planted import Planted, sentences, stand_in, tiny

WORDS = """
[words]
glad = ["gox", "gyx", "gux"]
sad = ["sox", "syx"]
filler = ["ba", "bea", "bi"]
"""
MINIMUM = """
[[test]]
name = "glad words"
kind = "minimum"
template = "{filler} ba {glad} {glad}"
expect = "glad"
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: str) -> Path:
        path = tmp_path / "suite.toml"
        path.write_text(content, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def model() -> Model:
    draw = np.random.default_rng(0)
    return stand_in(Planted(sentences(draw, 300, words=4, sure=1.0), []))


def one(kind: str, **lines: str) -> str:
    """A suite of one test."""
    given = "\n".join(f"{name} = {value}" for name, value in lines.items())
    return f'{WORDS}\n[[test]]\nname = "it"\nkind = "{kind}"\n{given}\n'


def test_every_filling_is_a_case_and_one_word_stands_everywhere(write: Write) -> None:
    (test,) = read_suite(write(WORDS + MINIMUM)).tests
    assert test.possible == len(test.cases) == 9
    assert [case.read for case in test.cases][:2] == ["ba ba gox gox", "ba ba gyx gyx"]
    assert placeholders("{{a}} {b} {a} {b}") == ["b", "a"]


def test_of_too_many_cases_some_are_drawn_and_always_the_same(write: Write) -> None:
    path = write(WORDS + MINIMUM + "most = 4\n")
    (test,), (again,) = read_suite(path).tests, read_suite(path).tests
    assert (test.possible, len(set(test.cases))) == (9, 4)
    assert test == again
    assert test != read_suite(path, seed=1).tests[0]


def test_what_varies_is_held_against_its_first_word(write: Write) -> None:
    text = one("invariance", template='"{filler} {glad}"', varies='"filler"')
    (test,) = read_suite(write(text)).tests
    assert len(test.cases) == test.possible == 6
    assert {case.read for case in test.cases} == {"ba gox", "ba gyx", "ba gux"}
    assert {case.changed for case in test.cases} == {
        f"{filler} {glad}" for filler in ("bea", "bi") for glad in ("gox", "gyx", "gux")
    }


def test_pairs_have_two_templates(write: Write) -> None:
    text = one("invariance", template='"{glad}"', pair='"ba {sad}"', changed='"{glad} bi"')
    (test,) = read_suite(write(text)).tests
    assert test.cases[0].read == ("gox", "ba sox")
    assert test.cases[0].changed == ("gox bi", "ba sox")


def test_a_model_that_can_passes(model: Model, write: Write) -> None:
    text = (
        WORDS
        + MINIMUM
        + """
[[test]]
name = "more glad words"
kind = "direction"
template = "{filler} ba {sad} bea"
changed = "{filler} ba {glad} bea"
label = "glad"
moves = "up"
by = 0.1
"""
    )
    report = check(model, read_suite(write(text)), name="it")
    assert report.passed, report.text
    assert report.text.endswith("2 tests passed")
    # Every text is read once, though most stand in two or three cases.
    assert report.ledger.texts == 9 + 6 + 9
    root = ElementTree.fromstring(junit(report))
    assert root.attrib["failures"] == "0"
    assert [case.attrib["name"] for case in root.iter("testcase")] == [
        "glad words",
        "more glad words",
    ]


def test_what_fails_is_named_with_its_texts(model: Model, write: Write) -> None:
    suites = {
        "minimum": one("minimum", template='"ba {glad} {glad} \\u0001"', expect='["sad", "calm"]'),
        "invariance": one("invariance", template='"ba {glad} bi"', changed='"ba {sad} {sad}"'),
        "direction": one(
            "direction", template='"ba {glad} bi"', changed='"ba {sad} bi"', label='"glad"',
            moves='"up"',
        ),
    }  # fmt: skip
    found = {kind: check(model, read_suite(write(text))) for kind, text in suites.items()}
    for kind, report in found.items():
        assert not report.passed
        (failed,) = report.tests
        assert len(failed.failures) == len(failed.test.cases)
        assert report.text.startswith(f"FAIL  it ({kind}): 0 of ")
        assert report.text.endswith("1 of 1 test failed")
    first = str(found["minimum"].tests[0].failures[0])
    assert "'glad' (" in first
    assert "expected 'sad' or 'calm'" in first
    assert "became 'sad'" in str(found["invariance"].tests[0].failures[0])
    assert "expected not down" in str(found["direction"].tests[0].failures[0])
    (failure,) = ElementTree.fromstring(junit(found["minimum"])).iter("failure")
    assert failure.attrib["message"] == "0 of 3 cases pass, all must"
    assert len((failure.text or "").splitlines()) == 3


def test_some_cases_may_fail_where_the_test_says_so(model: Model, write: Write) -> None:
    mixed = one("minimum", template='"ba {either} {either}"', expect='"glad"', least_share="0.5")
    text = mixed.replace("[words]", '[words]\neither = ["gox", "sox"]')
    (tested,) = check(model, read_suite(write(text))).tests
    assert (tested.share, tested.passed) == (0.5, True)
    assert tested.summary == "1 of 2 cases pass"
    (strict,) = check(model, read_suite(write(text.replace("0.5", "0.6")))).tests
    assert (strict.passed, strict.summary) == (False, "1 of 2 cases pass, 60% must")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no test"),
        ("[[test", "cannot be read"),
        (one("minimum", template='"  "', expect='"glad"'), "has an empty template"),
        (one("minimum", template='"{flim}"', expect='"glad"'), "{flim}, which is not in [words]"),
        (one("minimum", template='"{filler:3}"', expect='"glad"'), "is no placeholder"),
        (one("minimum", template='"{filler"', expect='"glad"'), "a template that is none"),
        (one("minimum", template='"ba"'), "has no 'expect'"),
        (one("minimum", template='"ba"', expect="[]"), "has expect = []"),
        (one("minimum", template='"ba"', expect='"a"', by="1"), "has 'by'"),
        (one("minimun", template='"ba"'), "did you mean 'minimum'?"),
        (one("minimum", template="3", expect='"glad"'), "has template = 3; expected str"),
        (one("minimum", template='"ba"', expect='"a"', least_share="0"), "has least_share = 0"),
        (one("minimum", template='"ba"', expect='"a"', most="0"), "has most = 0"),
        (one("invariance", template='"ba"'), "one of both"),
        (one("invariance", template='"ba"', varies='"filler"'), "which is not in its template"),
        (one("direction", template='"a"', changed='"b"', label='"c"'), "has no 'moves'"),
        (WORDS + MINIMUM + MINIMUM, "has the name of an earlier one"),
        (WORDS.replace('["sox", "syx"]', "[]") + MINIMUM, "words.sad is []"),
        (WORDS + MINIMUM + "[word]\n", "'word' is not known; did you mean 'words'?"),
    ],
)
def test_what_is_wrong_with_a_suite_is_said(write: Write, text: str, said: str) -> None:
    path = write(text)
    with pytest.raises(UsageError) as refused:
        read_suite(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)


def test_all_problems_are_said_at_once(write: Write) -> None:
    text = one("minimum", template='"{flim} {glda}"', expect='"glad"') + MINIMUM.replace(
        "= ", "= 3"
    )
    with pytest.raises(UsageError, match="cannot be read"):
        read_suite(write(text))
    with pytest.raises(UsageError, match="2 problems in this suite") as refused:
        read_suite(write(one("minimum", template='"{flim} {glda}"', expect='"glad"')))
    assert "did you mean 'glad'?" in str(refused.value)
    assert "'filler'" not in str(refused.value).partition("glda")[2]


def test_labels_that_the_model_lacks_are_refused(model: Model, write: Write) -> None:
    suite = read_suite(write(one("minimum", template='"ba"', expect='["gald", "sad"]')))
    with pytest.raises(UsageError, match="'gald'; did you mean 'glad'"):
        check(model, suite)
    with pytest.raises(TaskError, match="no head"):
        check(Model(tiny()), suite)
