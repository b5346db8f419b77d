"""The remaining tables, compared exactly: on narrow and wide terminals, and in a pipe."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from golden import assert_golden
from headwater.cli import reports
from headwater.cli.check import rendered
from headwater.cli.context_commands import context_rows, contexts_sheet
from headwater.cli.contexts import ContextFolder, SavedContext
from headwater.cli.health import Figure, Health
from headwater.cli.render import console, show
from headwater.cli.stream.messages import gaps_sheet
from headwater.cli.stream.subject_report import SubjectCounts
from stream_infos import STORY

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (80, 120, None)


def written(*items: object, width: int | None) -> str:
    """Return what a terminal of this width shows, or a pipe."""
    out = io.StringIO()
    show(*items, to=console(out, width))
    return out.getvalue()


def agreed(name: str, text: str, width: int | None) -> None:
    """Compare with the golden page; there is no colour, and no line is wider than the terminal."""
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= (width or 400)
    assert_golden(GOLDEN, f"{name}_{width or 'piped'}", text)


@pytest.mark.parametrize("width", WIDTHS)
def test_gaps_and_leaders_and_absent_streams_look_as_agreed(width: int | None) -> None:
    agreed("gaps", written(gaps_sheet("ORDERS", [[2, 2], [1000, 2_000_000]]), width=width), width)
    agreed("leaders", written(reports.leaders([*STORY, *STORY[:1]]), width=width), width)
    names = ["A_STREAM_WITH_A_LONG_NAME_INDEED", "B", "C", "D", "E"]
    agreed("absent", written(reports.inaccessible("Offline Streams", names), width=width), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_contexts_look_as_agreed(width: int | None, tmp_path: Path) -> None:
    folder = ContextFolder(tmp_path)
    folder.save("hub", SavedContext(description="the hub, where all spokes meet", url="nats://hub:4222"))
    folder.save(
        "spoke", SavedContext(url="nats://spoke-1:4222,nats://spoke-2:4222", password="secret", user="u")
    )
    folder.select("hub")
    agreed("contexts", written(contexts_sheet(folder), width=width), width)
    shown = written(context_rows(folder, "spoke"), width=width)
    agreed("context", re.sub(r"Path:(\s+\S+)+\n", "Path: PATH\n", shown), width)
    assert "secret" not in shown


@pytest.mark.parametrize("width", WIDTHS)
def test_a_check_for_people_looks_as_agreed(width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if width:
        monkeypatch.setenv("COLUMNS", str(width))
    health = Health(
        "REPORT", oks=["2 sources"], warnings=["few messages"], criticals=["Source ORDERS is 12 behind"]
    )
    health.figures.append(Figure("lag", 12, help="How many operations behind the origin", critical=10))
    agreed("check", rendered(health, "text") + "\n", width)


@pytest.mark.parametrize("width", WIDTHS)
def test_counted_subjects_look_as_agreed(width: int | None) -> None:
    tally = SubjectCounts()
    for subject, nbytes in (("orders.new", 10), ("orders.new", 4096), ("a.b", 0)):
        tally.add(subject, nbytes)
    agreed("counted", written(tally.sheet(10), width=width), width)
