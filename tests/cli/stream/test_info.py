"""What is said of one stream, against fixed data."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.text import Text

from golden import assert_golden
from headwater.cli.render import LabelledRows, console, show
from headwater.cli.stream.info import info_rows, state_rows
from stream_infos import ARCHIVE, FRESH, REPORT, SALES, Json, info

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def written(rows: LabelledRows, width: int | None) -> str:
    """Return what is written in this width."""
    out = io.StringIO()
    show(rows, to=console(out, width))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120, None])
@pytest.mark.parametrize(
    ("name", "held"), [("sales", SALES), ("archive", ARCHIVE), ("report", REPORT), ("fresh", FRESH)]
)
def test_the_information_looks_as_agreed(name: str, held: Json, width: int | None) -> None:
    text = written(info_rows(held), width)
    assert_golden(GOLDEN, f"info_{name}_{width or 'piped'}", text)
    assert max(map(len, text.splitlines())) <= (width or 200)


def test_the_state_looks_as_agreed() -> None:
    assert_golden(GOLDEN, "state_sales", written(state_rows(SALES), 80))


def test_trouble_is_coloured_in_the_information() -> None:
    lines = dict(line for title, rows in info_rows(SALES).sections for line in rows if "Information" in title)
    error, replica = lines["Lag"], lines["Replica"]
    assert isinstance(error, Text)
    assert isinstance(replica, Text)
    assert (error.style, replica.style) == ("yellow", "bold red")


def test_a_config_with_the_least_in_it_is_shown() -> None:
    bare = info("X")
    bare["config"] = {"name": "X", "retention": "workqueue"}
    text = written(info_rows(bare), None)
    assert "Retention: WorkQueue" in text
    assert "Maximum Messages: unlimited" in text
