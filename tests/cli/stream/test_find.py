"""Finding streams by what they are: each condition alone, inverted, and on real servers."""

from __future__ import annotations

import pytest

from headwater.cli.stream.find import Wanted, conditions, matching
from headwater.errors import SettingsError
from headwater.model.times import parse_time
from jetstreams import Shell
from stream_infos import ARCHIVE, FRESH, ORDERS, REPORT, SALES, info

INFOS = [
    ORDERS,
    ARCHIVE,
    REPORT,
    SALES,
    FRESH,
    info("EMPTY", config={"subjects": ["e.*"], "num_replicas": 3}),
]
NOW = parse_time("2026-01-02T04:05:00Z") or 0


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Wanted(), "ORDERS ARCHIVE REPORT sales fresh EMPTY"),
        (Wanted(sourced=True), "ARCHIVE sales"),
        (Wanted(mirrored=True), "REPORT fresh"),
        (Wanted(empty=True), "fresh EMPTY"),
        (Wanted(subject="ORDERS.new"), "ORDERS"),
        (Wanted(subject="*.x"), "ORDERS sales EMPTY"),
        (Wanted(consumers=1), "ARCHIVE REPORT fresh EMPTY"),
        (Wanted(replicas=1), "ORDERS ARCHIVE REPORT fresh"),
        (Wanted(cluster="^c2$"), "ORDERS ARCHIVE REPORT sales"),
        (Wanted(leader="nats-1"), "sales"),
        (Wanted(server_name="nats-[02]"), "sales"),
        (Wanted(api_level=2), "sales"),
        (Wanted(idle=3600 * 10**9), "fresh EMPTY"),
        (Wanted(idle=3599 * 10**9), "ORDERS ARCHIVE REPORT sales fresh EMPTY"),
        (Wanted(created=7200 * 10**9), ""),
        (Wanted(expression="state.messages == 100"), "ORDERS"),
        (Wanted(empty=True, mirrored=True), "fresh"),
    ],
)
def test_each_condition_finds_what_it_says(wanted: Wanted, names: str) -> None:
    found = matching(INFOS, conditions(wanted, NOW), invert=False)
    assert [each["config"]["name"] for each in found] == names.split()


def test_inverted_conditions_find_the_others() -> None:
    found = matching(INFOS, conditions(Wanted(empty=True), NOW), invert=True)
    assert [each["config"]["name"] for each in found] == ["ORDERS", "ARCHIVE", "REPORT", "sales"]


def test_a_pattern_without_sense_is_refused() -> None:
    with pytest.raises(SettingsError, match="--cluster is not a regular expression"):
        conditions(Wanted(cluster="("), NOW)


def test_streams_are_found_on_a_server(shell: Shell, stream: str) -> None:
    assert shell.ok("stream", "find", "--subject", f"{stream}.a", "--names") == f"{stream}\n"
    expression = f'config.name == "{stream}" and state.messages == 3'
    assert shell.json("stream", "query", "--expression", expression, "-n") == [stream]
    assert stream not in shell.ok("stream", "find", "--empty", "-n")
    assert stream in shell.ok("stream", "find", "--empty", "-n", "--invert")
    assert shell.ok("stream", "find", "--created", "1000y") == "No Streams defined\n"
