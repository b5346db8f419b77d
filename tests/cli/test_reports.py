"""The two reports against fixed data, compared exactly, and what is coloured in them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from golden import assert_golden
from headwater.cli import reports
from headwater.cli.render import Sheet, console, show
from stream_infos import ARCHIVE, FRESH, ORDERS, SALES, STORY, TROUBLE, Json, cluster, info

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = {"80": 80, "120": 120, "piped": None}


def written(*sheets: Sheet | Text | None, width: int | None) -> str:
    """Return what a pipe, or a file of this width, gets to see."""
    out = io.StringIO()
    show(*filter(None, sheets), to=console(out, width))
    return out.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "infos"), [("story", STORY), ("trouble", TROUBLE)])
def test_the_reports_look_as_agreed(name: str, infos: list[Json], width: str) -> None:
    text = written(reports.stream_report(infos), reports.replication_report(infos), width=WIDTHS[width])
    assert_golden(GOLDEN, f"report_{name}_{width}", text)


def test_raw_numbers_are_not_dressed_up() -> None:
    text = written(
        reports.stream_report(TROUBLE, raw=True), reports.replication_report(TROUBLE, raw=True), width=None
    )
    assert_golden(GOLDEN, "report_trouble_raw", text)


def test_the_tables_of_absent_streams_and_leaders_look_as_agreed() -> None:
    text = written(
        reports.leaders([*STORY, *STORY[:1]]),
        reports.inaccessible("Inaccessible Streams", ["A", "B", "C", "D", "E"]),
        width=80,
    )
    assert_golden(GOLDEN, "report_absent", text)


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = written(reports.stream_report(TROUBLE), reports.replication_report(TROUBLE), width=width)
    assert max(map(len, text.splitlines())) <= width


def test_where_nothing_is_replicated_there_is_no_second_table() -> None:
    assert reports.replication_report([ORDERS]) is None


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("bytes", ["fresh", "ORDERS", "sales"]),
        ("name", ["ORDERS", "fresh", "sales"]),
        ("messages", ["fresh", "ORDERS", "sales"]),
        ("consumers", ["fresh", "ORDERS", "sales"]),
        ("storage", ["fresh", "sales", "ORDERS"]),
    ],
)
def test_streams_are_sorted_by_what_is_asked(sort: str, names: list[str]) -> None:
    assert [str(row[0]) for row in reports.stream_report(TROUBLE, sort).rows] == names


def test_streams_of_equal_size_stand_by_name() -> None:
    infos = [info("B"), info("C"), info("A")]
    assert [str(row[0]) for row in reports.stream_report(infos).rows] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("upstream", "colours"),
    [
        ({"lag": 0, "active": 10**9}, ("", "")),
        ({"lag": 1, "active": 10**9}, ("yellow", "")),
        ({"lag": 1000, "active": 30 * 10**9}, ("bold red", "yellow")),
        ({"lag": 0, "active": 120 * 10**9}, ("", "bold red")),
        ({"lag": 0, "active": -1}, ("yellow", "yellow")),
    ],
)
def test_trouble_is_coloured(upstream: Json, colours: tuple[str, str]) -> None:
    assert (reports.lag(upstream).style, reports.active(upstream).style) == colours


def test_errors_are_red_and_absent_when_there_is_none() -> None:
    wrong = reports.error(SALES["sources"][0])
    assert (str(wrong), wrong.style) == ("stream not found (10059)", "bold red")
    assert not reports.error(FRESH["mirror"])


def test_a_terminal_sees_colour_and_a_pipe_does_not() -> None:
    sheet = reports.replication_report(TROUBLE)
    screen = io.StringIO()
    Console(file=screen, width=120, force_terminal=True, color_system="standard").print(sheet)
    assert "\x1b[1;31m" in screen.getvalue()
    assert "\x1b" not in written(sheet, width=120)


def test_replicas_show_who_leads_and_who_is_behind() -> None:
    assert (
        reports.replicas(cluster("nats-1", "nats-0", "nats-2", behind="nats-2")) == "nats-0, nats-1*, nats-2!"
    )
    assert reports.replicas({"leader": "alone"}) == "alone*"
    assert reports.replicas(None) == ""


def test_sources_stand_in_one_order_whatever_the_server_says() -> None:
    assert [upstream["name"] for _, upstream in reports.upstreams(ARCHIVE)] == ["ORDERS", "RETURNS"]


def test_a_watched_report_has_rates_of_streams_that_were_seen_before() -> None:
    def at(name: str, last_seq: int) -> Json:
        return {"config": {"name": name}, "state": {"last_seq": last_seq}}

    rates = reports.stored_rates([at("A", 10), at("B", 9)], [at("A", 2_010), at("B", 5), at("C", 7)], 2.0)
    assert rates == {"A": 1000.0, "B": 0.0}
    sheet = reports.stream_report([at("A", 2_010), at("C", 7)], "name", rates=rates)
    place = [column.heading for column in sheet.columns].index("Rate")
    assert [str(row[place]) for row in sheet.rows] == ["1,000/s", "-"]
    assert len(sheet.columns) == len(sheet.rows[0])
