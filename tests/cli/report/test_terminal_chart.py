"""Charts as text: as wide as the terminal, without colour in a pipe, and in ASCII where that is all."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from headwater.cli.report.chart import BarChart, Chart, TimeChart
from headwater.cli.report.terminal_chart import HEIGHT, TerminalChart, room_of, shortened

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
HOURLY = TimeChart("T", "messages", 3600, [(NOON + timedelta(hours=n), float(n * 100)) for n in range(30)])
BARS = BarChart("B", "messages", [("orders.eu", 75.0), ("x" * 200, 25.0), ("none", 0.0)], 100.0)


def drawn(chart: Chart, width: int, **options: object) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width, **options).print(TerminalChart(chart))  # type: ignore[arg-type]
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("chart", [HOURLY, BARS, TimeChart("T", "bytes", 60, ())])
def test_no_line_is_wider_than_the_terminal(chart: Chart, width: int) -> None:
    assert max(map(len, drawn(chart, width))) <= width


def test_the_highest_column_reaches_the_top_and_a_small_value_is_visible() -> None:
    points = [(NOON, 1.0), (NOON + timedelta(minutes=1), 0.0), (NOON + timedelta(minutes=2), 10_000.0)]
    lines = drawn(TimeChart("S", "messages", 60, points), 40)
    assert lines[0] == "S (2026-11-16 UTC)"
    assert lines[1].startswith("10,000 │")
    assert lines[1].rstrip().endswith("█")
    assert len(lines) == HEIGHT + 3
    assert lines[HEIGHT] == "       │" + "▁" * 9 + " " * 11 + "█" * 9
    assert lines[-1].split() == ["12:00", "12:01", "12:02"]


def test_bars_have_values_and_shares() -> None:
    lines = drawn(BARS, 60)
    assert lines[1].startswith("orders.eu ")
    assert lines[1].endswith(" 75  75.0%")
    assert lines[2].startswith("xxxx")
    assert "…" in lines[2]
    assert "█" not in lines[3]
    assert drawn(BarChart("B", "messages", [], 0.0), 60)[1] == "no messages"


def test_a_pipe_gets_no_colour_and_an_ascii_terminal_no_blocks() -> None:
    assert "\x1b" not in "".join(drawn(HOURLY, 80))
    assert "\x1b" in "".join(drawn(HOURLY, 80, force_terminal=True, color_system="standard"))
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=file, width=60).print(TerminalChart(HOURLY))  # which raises where a character does not fit
    assert room_of(20) == room_of(40)


def test_a_long_name_keeps_both_ends() -> None:
    assert shortened("orders.eu.new", 20) == "orders.eu.new"
    assert shortened("orders.europe.west.new", 9) == "orde….new"
