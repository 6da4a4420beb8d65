"""What candidates cost: times over rounds, memory at its peak, and what trying all would take."""

from __future__ import annotations

import sys

import pytest

from bothways.evaluation.result import Metric
from bothways.ladder.climbing import Rung
from bothways.ladder.costs import Cost, Round, over_rounds
from bothways.ladder.entries import Entry, best_of, cost_of_all, entries_of
from bothways.ladder.memory import peak_of

# Of 100 megabytes: what the interpreter takes and hands back meanwhile.
BESIDES = 10.0
MEGABYTES = 100


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process")
def test_memory_counts_what_is_given_back_before_the_end() -> None:
    def work() -> int:
        return len(bytearray(MEGABYTES * 1_000_000))

    for _ in range(2):  # the second time the memory was in use before
        length, grown = peak_of(work)
        assert length == MEGABYTES * 1_000_000
        assert grown == pytest.approx(MEGABYTES, abs=BESIDES)


def test_each_text_has_its_least_time_and_the_first_round_no_say_on_memory() -> None:
    rounds = [
        Round([9.0, 2.0, 3.0], 50.0),
        Round([1.0, 8.0, 3.5], 20.0),
        Round([5.0, 5.0, 5.0], 21.0),
    ]
    assert over_rounds(rounds) == {"latency_ms": 2.0, "memory_mb": 21.0}
    assert over_rounds([Round([4.0], None)]) == {"latency_ms": 4.0, "memory_mb": None}


def entry(name: str, estimated: float, taken: float | None, score: float = 0.5) -> Entry:
    made = Entry(name, name, 1, cost=Cost(1.0, None, 1.0, estimated))
    if taken is not None:
        made.rung, made.seconds = Rung(Metric(score), {}, "a"), taken
    return made


def test_estimates_are_corrected_by_what_the_first_ones_took() -> None:
    """Twice as long as estimated, so the rest is taken to be so too."""
    assert cost_of_all([entry("a", 10.0, 20.0), entry("b", 30.0, None)]) == pytest.approx(80.0)
    assert cost_of_all([entry("b", 30.0, None)]) == pytest.approx(30.0)


def test_the_chosen_one_is_best_whatever_the_others_reached() -> None:
    entries = [entry("a", 1, 1, 0.9), entry("b", 1, 1, 0.8), entry("c", 1, None)]
    best = best_of(entries, 1)
    assert best is not None
    assert best.name == "a"
    worst = best_of(entries, -1)
    assert worst is not None
    assert worst.name == "b"
    entries[1].settle("chosen", "")
    chosen = best_of(entries, 1)
    assert chosen is not None
    assert chosen.name == "b"
    assert best_of(entries[2:], 1) is None


def test_names_are_short_where_that_tells_candidates_apart() -> None:
    names = [each.name for each in entries_of(["x/small", "y/small", "org/large/"])]
    assert names == ["x/small", "y/small", "large"]
