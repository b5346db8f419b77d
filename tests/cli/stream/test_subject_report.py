"""Subjects counted instead of shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden import assert_golden
from headwater.cli.render import console
from headwater.cli.stream.subject_report import SubjectCounts
from jetstreams import Shell

GOLDEN = Path(__file__).parents[1] / "golden"


def tally() -> SubjectCounts:
    """Return a tally of three subjects."""
    counted = SubjectCounts()
    for subject, count, nbytes in (("orders.new", 1200, 10), ("orders.paid", 7, 4096), ("a.b", 7, 0)):
        for _ in range(count):
            counted.add(subject, nbytes)
    return counted


@pytest.mark.parametrize(("name", "width"), [("80", 80), ("120", 120)])
def test_the_busiest_subjects_are_shown_first(name: str, width: int) -> None:
    out = console(width=width)
    with out.capture() as written:
        out.print(tally().sheet(2))
    assert_golden(GOLDEN, f"subject_report_{name}", written.get())


def test_a_stream_is_counted_by_subject_and_piped_without_colour(shell: Shell, stream: str) -> None:
    shell.ok("pub", f"{stream}.a", "again", "--jetstream", "-q")
    said = shell.ok(
        "sub", "--stream", stream, "--all", "--terminate-at-end", "--report-subjects", "--report-top", "2"
    )
    assert f"│ {stream}.a" in said
    assert "2 of 3 active subjects" in said
    assert "\x1b[" not in said
    rows = shell.json("sub", "--stream", stream, "--all", "--terminate-at-end", "--report-subjects")
    assert rows[0] == {"subject": f"{stream}.a", "messages": 2, "bytes": 14}
