"""What became of a suite as JUnit XML, which continuous integration reads."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from bothways.diagnostics.check import CheckReport

# Characters that XML has no way to write.
UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: CheckReport) -> str:
    """The XML of a report: a test case a test, its failed cases in the body of the failure.

    Example:
        >>> junit(CheckReport("suite.toml", "model", ())).splitlines()[0]
        "<?xml version='1.0' encoding='utf-8'?>"
    """
    failed = sum(not each.passed for each in report.tests)
    counts = {"tests": str(len(report.tests)), "failures": str(failed), "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": _text(report.suite), **counts, "time": f"{report.seconds:.3f}"}
    )
    for each in report.tests:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": each.test.kind, "name": _text(each.test.name)}
        )
        if not each.passed:
            failure = ElementTree.SubElement(case, "failure", {"message": each.summary})
            failure.text = _text("\n".join(map(str, each.failures)))
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written.decode("utf-8") + "\n"


def _text(text: str) -> str:
    return UNWRITABLE.sub("\ufffd", text)
