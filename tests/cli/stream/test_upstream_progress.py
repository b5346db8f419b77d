"""The progress of upstreams, as text and as tables, against fixed data."""

from __future__ import annotations

import io
from typing import Any

import pytest

from headwater.cli.render import Sheet, console, show
from headwater.cli.stream.upstream_progress import (
    extension,
    is_known,
    progress_lines,
    progress_sheet,
    upstream_gaps_sheet,
    waiting_note,
)

CATCHING_UP: dict[str, Any] = {
    "phase": "catching up",
    "seq": 4_500,
    "origin_last_seq": 10_000,
    "done": 0.45,
    "rate": {"msgs": 1234.4, "bytes": 2048.0},
    "copied": {"msgs": 4_500, "bytes": 5_000},
    "behind": 3_605.2,
    "caught_up_in": 61.7,
}
GAPS = {
    "count": 3,
    "sequences": 300,
    "recent": [
        {"first_seq": 3, "last_seq": 8, "time": "2026-01-02T03:04:05Z", "reason": "retention"},
        {"first_seq": 20, "last_seq": 20, "time": "2026-01-02T03:05:05Z", "reason": "purge"},
    ],
}


def upstream(name: str = "ORDERS", **progress: Any) -> dict[str, Any]:
    return {"name": name, "lag": 1, "active": 1, "headwater": progress}


def written(sheet: Sheet | None, width: int = 160) -> str:
    assert sheet is not None
    out = io.StringIO()
    show(sheet, to=console(out, width))
    return out.getvalue()


def test_nothing_is_shown_for_another_server() -> None:
    plain = {"name": "ORDERS", "lag": 3, "active": 1}
    assert extension(plain) == {}
    assert progress_lines(plain) == []
    assert progress_sheet([("COPY", plain)]) is None
    assert upstream_gaps_sheet([plain]) is None


def test_a_catch_up_shows_how_far_how_fast_and_how_long_yet() -> None:
    text = written(progress_sheet([("COPY", upstream(**CATCHING_UP))]))
    for said in ("COPY", "ORDERS", "catching up", "45.0%", "1,234 msgs/s", "2.0 KiB/s", "1h0m5s", "1m2s"):
        assert said in text
    assert "█" not in text
    drawn = written(progress_sheet([("COPY", upstream(**CATCHING_UP))], bars=True))
    assert "█" * 9 + "░" * 11 + " 45.0%" in drawn


def test_what_keeps_up_is_no_progress_unless_it_has_gaps() -> None:
    assert progress_sheet([("COPY", upstream(phase="live"))]) is None
    text = written(progress_sheet([("COPY", upstream(phase="live", gaps=GAPS))]))
    assert "3 (300 sequences)" in text


def test_dead_letters_are_shown_beside_what_keeps_up() -> None:
    failed = upstream(phase="live", pipeline={"dead_letters": 1_200})
    sheet = progress_sheet([("COPY", failed), ("OTHER", upstream(**CATCHING_UP))])
    assert sheet is not None
    assert [str(row[-1]) for row in sheet.rows] == ["1,200", ""]
    assert max(map(len, written(sheet, 80).splitlines())) <= 80
    assert progress_sheet([("COPY", upstream(phase="live", pipeline={"dead_letters": 0}))]) is None
    assert "Dead" not in written(progress_sheet([("OTHER", upstream(**CATCHING_UP))]))


def test_it_never_claims_to_be_done_before_it_is() -> None:
    text = written(progress_sheet([("COPY", upstream(**CATCHING_UP | {"done": 0.9999}))]))
    assert "99.9%" in text


def test_unknown_values_are_shown_as_unknown() -> None:
    known = {key: value for key, value in CATCHING_UP.items() if key not in ("behind", "caught_up_in")}
    lines = dict(progress_lines(upstream(**known)))
    assert (lines["Behind"], lines["Time Left"]) == ("unknown", "unknown")


def test_an_origin_that_is_away_leaves_everything_unknown() -> None:
    away = {key: CATCHING_UP[key] for key in ("seq", "origin_last_seq", "rate", "copied")}
    away["phase"] = "retrying"
    assert not is_known(upstream(**away))
    lines = dict(progress_lines(upstream(**away)))
    assert (lines["Progress"], lines["Behind"], lines["Time Left"]) == ("unknown",) * 3
    text = written(progress_sheet([("COPY", upstream(**away))], bars=True))
    assert "100" not in text
    assert "█" not in text
    assert "unknown" in text


@pytest.mark.parametrize(
    ("plain", "known"),
    [
        ({"active": 1}, True),
        ({"active": -1}, False),
        ({"active": 0}, False),
        ({}, False),
        ({"active": 1, "error": {"description": "away"}}, False),
        ({"active": 1, "headwater": {"done": 0.0}, "error": {"description": "no room"}}, True),
        ({"active": 1, "headwater": {"phase": "retrying"}}, False),
        ({"active": -1, "headwater": {"done": 1.0}}, False),
    ],
)
def test_whether_a_lag_is_known(plain: dict[str, Any], known: bool) -> None:
    assert is_known({"name": "ORDERS", "lag": 0, **plain}) is known


def test_the_lines_of_one_upstream() -> None:
    progress = CATCHING_UP | {
        "gaps": GAPS,
        "restarts": {"count": 2, "time": "2026-01-02T03:04:05Z"},
        "phase": "retrying",
        "next_attempt": "2026-01-02T03:04:05Z",
    }
    lines = {label: str(value) for label, value in progress_lines(upstream(**progress))}
    assert lines["Phase"] == "retrying"
    assert lines["Progress"] == "45.0% of 10,000"
    assert lines["Gaps"] == "3 (300 sequences)"
    assert lines["Origin Re-created"].startswith("2, last 2026-01-0")
    assert lines["Next Attempt"].startswith("2026-01-0")
    assert lines["Copied"] == "4,500 messages, 4.9 KiB"
    assert "Failing Since" not in lines


def test_gaps_are_listed_with_their_reason() -> None:
    text = written(upstream_gaps_sheet([upstream(gaps=GAPS), upstream("RETURNS")]))
    assert "3 gaps in replication, 300 sequences, the last 2" in text
    for said in ("retention", "purge", "ORDERS", "│ 3 ", "│ 8 "):
        assert said in text
    assert "RETURNS" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = written(progress_sheet([("COPY", upstream(gaps=GAPS, **CATCHING_UP))], bars=True), width)
    assert max(map(len, text.splitlines())) <= width


def test_a_report_says_once_what_upstreams_wait_for() -> None:
    waiting = upstream(**CATCHING_UP, waiting="no replicator has asked for work yet")
    note = waiting_note([upstream(**CATCHING_UP), waiting, waiting])
    assert note is not None
    assert note.plain == "Waiting: no replicator has asked for work yet"
    assert ("Waiting", "no replicator has asked for work yet") in progress_lines(waiting)
    assert waiting_note([upstream(**CATCHING_UP)]) is None
