"""Pull requests are read with nats-server's leniencies, and refused in its words."""

from __future__ import annotations

import pytest

from headwater.model.consumer import PullRequest
from headwater.wire.pull_request import BadPullRequestError, parse_pull_request

S = 1_000_000_000


@pytest.mark.parametrize(
    ("body", "batch"), [(b"", 1), (b"  ", 1), (b"5", 5), (b" 12 ", 12), (b"+3", 3), (b"-3", -3), (b"x", 1)]
)
def test_a_plain_body_is_a_number_or_means_one(body: bytes, batch: int) -> None:
    assert parse_pull_request(body) == PullRequest(batch=batch)


def test_an_object_says_more() -> None:
    body = (
        b'{"batch":5,"expires":30000000000,"max_bytes":1000,"no_wait":true,"idle_heartbeat":5000000000,'
        b'"group":"g","min_pending":1,"min_ack_pending":2,"id":"p","priority":3,"other":null}'
    )
    assert parse_pull_request(body) == PullRequest(
        batch=5,
        expires=30 * S,
        max_bytes=1000,
        no_wait=True,
        idle_heartbeat=5 * S,
        group="g",
        min_pending=1,
        min_ack_pending=2,
        id="p",
        priority=3,
        formal=True,
    )
    assert parse_pull_request(b"{}") == PullRequest(batch=0, formal=True)
    assert parse_pull_request(b'{"Batch":2}').batch == 2


# Each of these was put to nats-server 2.15.1.
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"batch":"x"}', "json: cannot unmarshal string into Go struct field .batch of type int"),
        (b'{"group":1}', "json: cannot unmarshal number into Go struct field .group of type string"),
        (b'{"BATCH":"x"}', "json: cannot unmarshal string into Go struct field .BATCH of type int"),
        (b'{"batch":1.5}', "json: cannot unmarshal number 1.5 into Go struct field .batch of type int"),
        (
            b'{"expires":1e3}',
            "json: cannot unmarshal number 1e3 into Go struct field .expires of type time.Duration",
        ),
        (b'{"batch":1} x', "invalid character 'x' after top-level value"),
        (b'{"batch":', "unexpected end of JSON input"),
        (b"{x}", "invalid character 'x' looking for beginning of object key string"),
        (b'{"idle_heartbeat":5,"expires":9}', "heartbeat value too large"),
        (b'{"idle_heartbeat":5}', "heartbeat value too large"),
    ],
)
def test_what_cannot_be_read_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(BadPullRequestError) as refused:
        parse_pull_request(body)
    assert str(refused.value) == reason
