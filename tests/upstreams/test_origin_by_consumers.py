"""An origin of which only consumers are shown: how far it is, and what its errors are called."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from doors import Asker, connected
from headwater.errors import ApiError
from headwater.model.upstream import hash8
from headwater.upstreams.origin_by_consumers import (
    OriginUnansweredError,
    answer_of,
    extent_by_consumers,
    request,
    seq_at,
)
from servers import nats_server


@asynccontextmanager
async def origin(config: str = "") -> AsyncIterator[Asker]:
    """Run a JetStream with an empty stream S."""
    async with nats_server(config, jetstream=True) as server:
        connection = await connected(server.client_url)
        try:
            yield Asker(connection)
        finally:
            await connection.close()


async def test_first_last_and_identity_are_learnt_from_consumers_that_are_gone_afterwards() -> None:
    async with origin() as site:
        created = (await site.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]}))["created"]
        empty = await extent_by_consumers(site.connection, "$JS.API", "S", "deliver")
        assert (empty.identity, empty.first_seq, empty.last_seq) == (hash8(created), 1, 0)
        for _ in range(5):
            await site.publish("s")
        await site.ask("STREAM.PURGE.S", {"seq": 3})
        extent = await extent_by_consumers(site.connection, "$JS.API", "S", "deliver")
        assert (extent.identity, extent.first_seq, extent.last_seq) == (hash8(created), 3, 5)
        await site.connection.flush()
        assert (await site.ask("CONSUMER.NAMES.S"))["consumers"] == []


@pytest.mark.parametrize("retention", ["limits", "workqueue", "interest"])
async def test_a_stream_that_removes_acknowledged_messages_is_recognized_by_its_answer(
    retention: str,
) -> None:
    async with origin() as site:
        await site.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "retention": retention})
        extent = await extent_by_consumers(site.connection, "$JS.API", "S", "deliver")
        assert (extent.retention == "limits") == (retention == "limits")
        await site.connection.flush()
        assert (await site.ask("CONSUMER.NAMES.S"))["consumers"] == []


async def test_a_time_is_found_and_what_is_behind_the_last_message_is_not_there_yet() -> None:
    async with origin() as site:
        await site.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        for _ in range(5):
            await site.publish("s")
        third = (await site.ask("STREAM.MSG.GET.S", {"seq": 3}))["message"]["time"]
        assert await seq_at(site.connection, "$JS.API", "S", "deliver", third) == 3
        assert await seq_at(site.connection, "$JS.API", "S", "deliver", "2001-01-01T00:00:00Z") == 1
        assert await seq_at(site.connection, "$JS.API", "S", "deliver", "2200-01-01T00:00:00Z") == 6
        await site.connection.flush()
        assert (await site.ask("CONSUMER.NAMES.S"))["consumers"] == []


async def test_an_origin_that_is_not_there_answers_with_its_own_error() -> None:
    async with origin() as site:
        with pytest.raises(ApiError, match="stream not found") as refused:
            await extent_by_consumers(site.connection, "$JS.API", "NONE", "deliver")
        assert refused.value.err_code == 10059


async def test_an_unanswered_subject_is_named() -> None:
    async with origin() as site:
        with pytest.raises(OriginUnansweredError, match=r"no responders on \$JS\.acme\.API\.CONSUMER"):
            await extent_by_consumers(site.connection, "$JS.acme.API", "S", "deliver")


def test_an_origin_that_answered_before_needs_no_export() -> None:
    shown = OriginUnansweredError("$JS.acme.API.STREAM.INFO.S").of_known_origin().description
    assert shown == "no responders on $JS.acme.API.STREAM.INFO.S: the origin is unreachable"


async def test_a_subject_that_permissions_keep_from_us_is_named_at_once() -> None:
    allowed = 'users: [ { user: u, password: p, permissions: { publish: { deny: "$JS.acme.>" } } } ]'
    async with nats_server(f"authorization {{ {allowed} }}") as server:
        connection = await connected(server.client_url.replace("//", "//u:p@"))
        with pytest.raises(ApiError, match=r"no permission to publish to \$JS\.acme\.API\.STREAM\.INFO\.S: "):
            await request(connection, "$JS.acme.API.STREAM.INFO.S")
        await connection.close()


def test_an_error_in_an_answer_is_raised_as_it_is() -> None:
    body = {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}
    with pytest.raises(ApiError, match="stream not found"):
        answer_of((b"", b"", b"", json.dumps(body).encode()))
    assert answer_of((b"", b"", b"", b'{"a":1}')) == {"a": 1}
