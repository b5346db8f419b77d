"""`consumer find`: each condition alone, several at once, and turned around."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.cli.consumer.find import ConsumerCriteria, conditions
from headwater.cli.stream.find import matching
from headwater.errors import SettingsError
from headwater.model.times import SECOND, format_time
from jetstreams import Shell

NOW = 1_790_000_000 * SECOND


def consumer_of(name: str, **info: Any) -> dict[str, Any]:
    """Return a consumer's info."""
    counts = dict.fromkeys(("num_waiting", "num_ack_pending", "num_pending"), 0)
    return {"name": name, "config": {}, **counts, "created": format_time(NOW - 100 * SECOND), **info}


CONSUMERS = [
    consumer_of("PULL", num_waiting=2, num_pending=5, config={"num_replicas": 3}),
    consumer_of(
        "PUSH", config={"deliver_subject": "x", "metadata": {"_nats.req.level": "2"}}, push_bound=True
    ),
    consumer_of(
        "BUSY",
        num_ack_pending=9,
        delivered={"last_active": format_time(NOW - SECOND)},
        created=format_time(NOW - SECOND),
        cluster={"leader": "n1"},
        priority_groups=[{"group": "a", "pinned_client_id": "p"}],
    ),
]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (ConsumerCriteria(), ["PULL", "PUSH", "BUSY"]),
        (ConsumerCriteria(pull=True), ["PULL", "BUSY"]),
        (ConsumerCriteria(push=True), ["PUSH"]),
        (ConsumerCriteria(bound=True), ["PULL", "PUSH"]),
        (ConsumerCriteria(pinned=True), ["BUSY"]),
        (ConsumerCriteria(waiting=2), ["PUSH", "BUSY"]),
        (ConsumerCriteria(ack_pending=9), ["PULL", "PUSH"]),
        (ConsumerCriteria(pending=5), ["PUSH", "BUSY"]),
        (ConsumerCriteria(idle=10 * SECOND), ["PULL", "PUSH"]),
        (ConsumerCriteria(created=50 * SECOND), ["PULL", "PUSH"]),
        (ConsumerCriteria(replicas=1), ["PUSH", "BUSY"]),
        (ConsumerCriteria(leader="^n"), ["BUSY"]),
        (ConsumerCriteria(api_level=1), ["PUSH"]),
        (ConsumerCriteria(expression="state.num_pending > 4"), ["PULL"]),
        (ConsumerCriteria(pull=True, waiting=1), ["BUSY"]),
    ],
)
def test_consumers_are_found_by_what_they_are(wanted: ConsumerCriteria, names: list[str]) -> None:
    found = matching(CONSUMERS, conditions(wanted, NOW), invert=False)
    assert [info["name"] for info in found] == names


def test_the_condition_turned_around_finds_the_others() -> None:
    assert [
        each["name"]
        for each in matching(CONSUMERS, conditions(ConsumerCriteria(pull=True), NOW), invert=True)
    ] == ["PUSH"]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="--leader is not a regular expression"):
        conditions(ConsumerCriteria(leader="("), NOW)


def test_a_real_server_is_asked(shell: Shell, stream: str) -> None:
    shell.ok("consumer", "add", stream, "WORK", "--pull", "--defaults")
    shell.ok("consumer", "add", stream, "PUSH", "--target", f"to.{stream}", "--defaults")
    assert shell.ok("consumer", "find", stream, "--pull", "--names") == "WORK\n"
    assert shell.json("consumer", "query", stream, "--push", "--names") == ["PUSH"]
    assert "WORK" in shell.ok("consumer", "find", stream, "--pending", "4")
    assert shell.ok("consumer", "find", stream, "--pinned") == "No Consumers found\n"
