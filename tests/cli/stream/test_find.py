"""Finding streams by what they are: each condition alone, inverted, and on real servers."""

from __future__ import annotations

import pytest

from headwater.cli.stream.find import StreamCriteria, conditions, matching
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
        (StreamCriteria(), "ORDERS ARCHIVE REPORT sales fresh EMPTY"),
        (StreamCriteria(sourced=True), "ARCHIVE sales"),
        (StreamCriteria(mirrored=True), "REPORT fresh"),
        (StreamCriteria(empty=True), "fresh EMPTY"),
        (StreamCriteria(subject="ORDERS.new"), "ORDERS"),
        (StreamCriteria(subject="*.x"), "ORDERS sales EMPTY"),
        (StreamCriteria(consumers=1), "ARCHIVE REPORT fresh EMPTY"),
        (StreamCriteria(replicas=1), "ORDERS ARCHIVE REPORT fresh"),
        (StreamCriteria(cluster="^c2$"), "ORDERS ARCHIVE REPORT sales"),
        (StreamCriteria(leader="nats-1"), "sales"),
        (StreamCriteria(server_name="nats-[02]"), "sales"),
        (StreamCriteria(api_level=2), "sales"),
        (StreamCriteria(idle=3600 * 10**9), "fresh EMPTY"),
        (StreamCriteria(idle=3599 * 10**9), "ORDERS ARCHIVE REPORT sales fresh EMPTY"),
        (StreamCriteria(created=7200 * 10**9), ""),
        (StreamCriteria(expression="state.messages == 100"), "ORDERS"),
        (StreamCriteria(empty=True, mirrored=True), "fresh"),
    ],
)
def test_each_condition_finds_what_it_says(wanted: StreamCriteria, names: str) -> None:
    found = matching(INFOS, conditions(wanted, NOW), invert=False)
    assert [each["config"]["name"] for each in found] == names.split()


def test_inverted_conditions_find_the_others() -> None:
    found = matching(INFOS, conditions(StreamCriteria(empty=True), NOW), invert=True)
    assert [each["config"]["name"] for each in found] == ["ORDERS", "ARCHIVE", "REPORT", "sales"]


def test_a_pattern_without_sense_is_refused() -> None:
    with pytest.raises(SettingsError, match="--cluster is not a regular expression"):
        conditions(StreamCriteria(cluster="("), NOW)


def test_streams_are_found_on_a_server(shell: Shell, stream: str) -> None:
    assert shell.ok("stream", "find", "--subject", f"{stream}.a", "--names") == f"{stream}\n"
    expression = f'config.name == "{stream}" and state.messages == 3'
    assert shell.json("stream", "query", "--expression", expression, "-n") == [stream]
    assert stream not in shell.ok("stream", "find", "--empty", "-n")
    assert stream in shell.ok("stream", "find", "--empty", "-n", "--invert")
    assert shell.ok("stream", "find", "--created", "1000y") == "No Streams defined\n"
