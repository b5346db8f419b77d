"""What a report shows, with its units, and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime

from headwater.cli.report.chart import BarChart, TimeChart, as_json, said

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def test_values_have_their_units() -> None:
    assert said(1204, "messages") == "1,204"
    assert said(3 << 20, "bytes") == "3.0 MiB"
    assert TimeChart("T", "messages", 60, ()).highest == 0


def test_charts_are_json_with_whole_numbers() -> None:
    assert as_json(TimeChart("T", "messages", 60, [(NOON, 3.0)])) == {
        "title": "T",
        "unit": "messages",
        "step_s": 60,
        "points": [{"time": "2026-11-16T12:00:00Z", "messages": 3}],
    }
    assert as_json(BarChart("B", "bytes", [("a", 2.0)], 5.0)) == {
        "title": "B",
        "unit": "bytes",
        "total": 5,
        "subjects": [{"subject": "a", "bytes": 2}],
    }
