"""The end of a stream is read from the site that serves the stream, and from no other."""

from __future__ import annotations

from typing import Any

import pytest

from consoles import sampler_with, stream_answer
from headwater.client.connection_settings import ConnectionSettings
from headwater.console.query_heads import MOST_REMOVED, NOT_SERVED, head_of, heads_of, reading_options


@pytest.mark.parametrize(
    ("connection", "options"),
    [
        (ConnectionSettings(server="nats://a:1"), {"server": "nats://a:1", "apiPrefix": "$JS.API"}),
        (
            ConnectionSettings(server="a:1, tls://u:p%40@b:2", domain="hub"),
            {"server": "nats://a:1,tls://b:2", "apiPrefix": "$JS.hub.API"},
        ),
        (
            ConnectionSettings(server="nats://me:p%40w@a:1"),
            {"server": "nats://a:1", "apiPrefix": "$JS.API", "user": "me", "password": "p@w"},
        ),
        (
            ConnectionSettings(server="nats://tok@a:1"),
            {"server": "nats://a:1", "apiPrefix": "$JS.API", "token": "tok"},
        ),
        (
            ConnectionSettings(server="nats://a", creds="c", tls_ca="ca", user="u", password="p"),
            {
                "server": "nats://a",
                "apiPrefix": "$JS.API",
                "user": "u",
                "password": "p",
                "creds": "c",
                "tlsCa": "ca",
            },
        ),
        (ConnectionSettings(tls_first=True), {}),
        (ConnectionSettings(jwt="j", seed="s"), {}),
        (ConnectionSettings(server="wss://a"), {}),
    ],
)
def test_a_connection_becomes_the_options_of_a_read(
    connection: ConnectionSettings, options: dict[str, str]
) -> None:
    assert reading_options(connection) == options


def test_only_streams_that_a_query_may_name_are_passed_on() -> None:
    sampler = sampler_with(stream_answer("ORDERS", 7), stream_answer("EVENTS", 2))
    [head] = heads_of(sampler.sites.values(), "SELECT * FROM orders")
    assert (head["stream"], head["last_seq"], head["removed"]) == ("ORDERS", 7, 0)
    assert head["created_ns"] == 1_794_823_200 * 10**9


def head(**more: Any) -> dict[str, Any]:
    return {"stream": "A", "created_ns": 5, "last_seq": 9, "removed": 0, "options": {"server": "x"}, **more}


def test_the_time_of_creation_decides_which_site_has_the_stream_of_a_table() -> None:
    one, other = head(), head(created_ns=6)
    assert head_of([other, one], "A", 5) == (one, "")
    assert head_of([other], "A", 5) == (None, NOT_SERVED)
    assert head_of([one], "B", 5) == (None, NOT_SERVED)
    assert head_of([one], "A", 0) == (None, NOT_SERVED)
    assert head_of([one], "A", None) == (one, "")
    assert "several sites" in head_of([one, other], "A", None)[1]


def test_a_stream_that_cannot_be_read_says_why() -> None:
    assert "connected in a way" in head_of([head(options={})], "A", 5)[1]
    assert "too many removed" in head_of([head(removed=MOST_REMOVED + 1)], "A", 5)[1]
