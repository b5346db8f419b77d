"""Tests of console.query_bars."""

from __future__ import annotations

from headwater.console.query_bars import LEFT, LONGEST_LABEL, MOST_BARS, bars_of


def test_each_text_has_a_bar_as_long_as_its_number() -> None:
    found = bars_of(["subject", "messages", "last"], [("a", 10, 3), ("b", 5, 2), ("c", None, 1)])
    assert found is not None
    assert found.title == "messages"
    assert [bar.value for bar in found.bars] == ["10", "5", "NULL"]
    assert found.bars[0].width == 2 * found.bars[1].width > 0
    assert found.bars[2].width == 0
    assert {bar.x for bar in found.bars} == {LEFT}
    assert found.size[1] > found.bars[-1].y


def test_a_negative_number_begins_left_of_zero() -> None:
    found = bars_of(["name", "change"], [("up", 10), ("down", -10)])
    assert found is not None
    up, down = found.bars
    assert up.x == found.zero
    assert down.x + down.width == found.zero


def test_long_labels_are_cut() -> None:
    found = bars_of(["name", "n"], [("x" * 100, 1), ("y", 2)])
    assert found is not None
    assert len(found.bars[0].label) == LONGEST_LABEL


def test_times_numbers_and_many_rows_have_no_bars() -> None:
    assert bars_of(["t", "n"], [("2026-01-01 00:00:00", 1), ("2026-01-02 00:00:00", 2)]) is None
    assert bars_of(["n", "m"], [(1, 1), (2, 2)]) is None
    assert bars_of(["a", "b"], [("x", "y"), ("z", "w")]) is None
    assert bars_of(["a", "n"], [(str(place), place) for place in range(MOST_BARS + 1)]) is None
    assert bars_of([], []) is None
