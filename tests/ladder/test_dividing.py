"""Parts that share no text, and what is taken out so that they do not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bothways.errors import DataError
from bothways.ladder.dividing import divide
from bothways.ladder.settings import LabelledSettings
from bothways.tasks.registry import make_task
from tests.ladder.planted import choosing, write_reviews


def texts(examples: list[object]) -> set[str]:
    return {example.text for example in examples}  # type: ignore[attr-defined]


def write_rows(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


def test_data_alone_is_cut_60_20_20_with_every_label_in_its_share(tmp_path: Path) -> None:
    data = write_reviews(tmp_path / "reviews.csv", 200)
    splits = divide(choosing(tmp_path / "out", ["a"], data), make_task("classify")).splits
    assert splits.dev is not None
    assert splits.test is not None
    parts = [splits.train, splits.dev, splits.test]
    assert [len(part) for part in parts] == [120, 40, 40]
    for part in parts:
        counts = Counter(example.label for example in part)
        assert counts["good"] == counts["bad"]
    assert not texts(splits.train) & (texts(splits.dev) | texts(splits.test))
    assert not texts(splits.dev) & texts(splits.test)


def test_the_seed_decides_the_cut_and_nothing_else_does(tmp_path: Path) -> None:
    data = write_reviews(tmp_path / "reviews.csv", 100)
    task = make_task("classify")

    def tested(seed: int) -> set[str]:
        settings = choosing(tmp_path / "out", ["a"], data, common=_seeded(seed))
        return texts(divide(settings, task).splits.test or [])

    assert tested(0) == tested(0)
    assert tested(0) != tested(1)


def _seeded(seed: int) -> object:
    from bothways.config import CommonSettings

    return CommonSettings(device="cpu", seed=seed)


def test_what_is_judged_on_is_taken_out_of_the_rest_and_counted(tmp_path: Path) -> None:
    plain = [(f"text number {number}", ("good", "bad")[number % 2]) for number in range(60)]
    train = write_rows(tmp_path / "train.csv", plain[:40])
    dev = write_rows(tmp_path / "dev.csv", plain[37:50])
    test = write_rows(tmp_path / "test.csv", [*plain[48:], *plain[:4]])
    files = LabelledSettings(train=train, dev=dev, test=test)
    found = divide(choosing(tmp_path / "out", ["a"], train, files=files), make_task("classify"))
    splits = found.splits
    assert found.removed_dev == 2
    assert found.removed == 4 + 3
    assert splits.test is not None
    assert splits.dev is not None
    assert len(splits.test) == 16
    assert len(splits.dev) == 11
    assert len(splits.train) == 33
    assert not texts(splits.train) & (texts(splits.dev) | texts(splits.test))


def test_nothing_left_to_learn_from_is_refused(tmp_path: Path) -> None:
    rows = [(f"text {number}", ("good", "bad")[number % 2]) for number in range(20)]
    train = write_rows(tmp_path / "train.csv", rows)
    dev = write_rows(tmp_path / "dev.csv", [("other", "good"), ("another", "bad")])
    files = LabelledSettings(train=train, dev=dev, test=train)
    with pytest.raises(DataError, match="nothing is left of it"):
        divide(choosing(tmp_path / "out", ["a"], train, files=files), make_task("classify"))
