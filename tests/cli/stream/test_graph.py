"""How a stream's counts become rates and bars."""

from __future__ import annotations

from headwater.cli.stream.graph import History, plot
from jetstreams import Shell


def test_rates_come_from_two_looks() -> None:
    history = History()
    history.note(10.0, {"messages": 100, "last_seq": 100})
    assert history.line() == "100 messages, 0 stored/s, 0 removed/s"
    history.note(12.0, {"messages": 140, "last_seq": 160})
    assert history.line() == "140 messages, 30 stored/s, 10 removed/s"


def test_a_re_created_stream_has_no_negative_rates() -> None:
    history = History()
    history.note(10.0, {"messages": 100, "last_seq": 100})
    history.note(11.0, {"messages": 5, "last_seq": 5})
    assert history.line() == "5 messages, 0 stored/s, 95 removed/s"


def test_the_highest_value_reaches_the_top() -> None:
    assert plot([0, 4, 8], 20, 2) == ["         8 │  █", "         4 │ ██"]


def test_parts_of_a_row_are_drawn_in_eighths() -> None:
    assert plot([8, 1, 4], 20, 1)[0].endswith("│█▁▄")


def test_nothing_but_noughts_is_an_empty_plot() -> None:
    assert [line.strip().removesuffix("│").strip() for line in plot([0, 0], 20, 2)] == ["1", "0"]


def test_only_the_last_values_are_shown_when_there_are_many() -> None:
    assert len(plot([1.0] * 500, 30, 1)[0]) == 30


def test_without_a_terminal_each_look_is_a_line(shell: Shell, stream: str) -> None:
    lines = shell.ok("stream", "graph", stream, "--count", "2", "--interval", "50ms").splitlines()
    assert lines == ["3 messages, 0 stored/s, 0 removed/s"] * 2
