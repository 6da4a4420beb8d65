"""The report as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bothways.errors import BothwaysError
from bothways.report.page import render_html
from bothways.report.write import report_json, write_page, write_report
from tests.report.reports import AWKWARD, EMPTY, SMALL


def test_the_three_files_are_written_and_nothing_else(tmp_path: Path) -> None:
    files = write_report(SMALL, tmp_path / "new" / "folder")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "report.html",
        "report.json",
        "report.md",
    ]
    assert files["html"].read_text(encoding="utf-8") == render_html(SMALL)
    assert files["md"].read_text(encoding="utf-8").startswith("# models/moods on a very/long")


def test_report_json_holds_everything_and_is_json(tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = write_report(SMALL, tmp_path)["json"].read_text(encoding="utf-8")
    found = json.loads(text, parse_constant=refuse)
    for key in ("task", "model", "data", "metrics", "baselines", "findings", "figures"):
        assert key in found
    assert set(found) >= {"tables", "ledger", "versions"}
    assert [finding["severity"] for finding in found["findings"]] == [
        "alarm",
        "note",
        "fine",
        "not asked",
    ]
    assert set(found["findings"][0]) == {"question", "severity", "text", "numbers"}
    assert found["metrics"]["accuracy"] == {"value": 0.8, "low": 0.75, "high": 0.85}
    assert found["metrics"]["loss"]["value"] is None
    assert found["figures"][0]["series"][0]["y"] == [0.8, 0.7]
    assert found["findings"][0]["numbers"]["token"] == AWKWARD
    assert "ไทย" in text


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    write_report(SMALL, tmp_path)
    write_report(EMPTY, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["count"] == 0
    assert len(list(tmp_path.iterdir())) == 3


def test_the_page_alone_goes_where_it_is_wanted(tmp_path: Path) -> None:
    write_page(SMALL, tmp_path / "sent.html")
    assert (tmp_path / "sent.html").read_text(encoding="utf-8") == render_html(SMALL)


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BothwaysError, match="file"):
        write_report(EMPTY, tmp_path / "file" / "inside")


def test_the_same_report_is_the_same_text() -> None:
    assert report_json(SMALL) == report_json(SMALL)
