"""Requests about consumers, answered as nats-server answers them; messages are another matter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from api.conftest import Twins
from doors import Asker, Door, Wanted, opened_door, opened_jetstream

S = {"name": "S", "subjects": ["s.>"]}


def body(**config: Any) -> dict[str, Any]:
    """Return a create request."""
    return {"stream_name": "S", "config": config}


@pytest.mark.parametrize("stream", ["S", "X"])
@pytest.mark.parametrize("verb", ["NAMES", "LIST"])
async def test_where_there_are_none_none_are_listed(twins: Any, stream: str, verb: str) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    for request in (None, {"offset": 3}, "xx", "{x"):
        await twins.ask(f"CONSUMER.{verb}.{stream}", request)


@pytest.mark.parametrize("stream", ["S", "X"])
@pytest.mark.parametrize("verb", ["INFO", "DELETE", "PAUSE"])
async def test_a_request_about_none_is_refused(twins: Any, stream: str, verb: str) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    await twins.ask(f"CONSUMER.{verb}.{stream}.c")
    if verb != "PAUSE":
        await twins.ask(f"CONSUMER.{verb}.{stream}.c", "x")


async def test_a_consumer_is_created_shown_changed_and_deleted(twins: Any) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    await twins.publish("s.a", b"x")
    created = await twins.ask("CONSUMER.CREATE.S.c", body(durable_name="c", ack_policy="explicit"))
    assert created["num_pending"] == 1
    await twins.ask("CONSUMER.INFO.S.c")
    changed = body(durable_name="c", ack_policy="explicit", description="new")
    await twins.ask("CONSUMER.DURABLE.CREATE.S.c", changed)
    await twins.ask("CONSUMER.LIST.S")
    assert (await twins.ask("CONSUMER.NAMES.S"))["consumers"] == ["c"]
    assert (await twins.ask("STREAM.INFO.S"))["state"]["consumer_count"] == 1
    await twins.ask("CONSUMER.PAUSE.S.c", {"pause_until": "1999-01-01T00:00:00Z"})
    await twins.ask("CONSUMER.PAUSE.S.c")
    await twins.ask("CONSUMER.RESET.S.c", {"seq": 2})
    await twins.ask("CONSUMER.UNPIN.S.c", {"group": "g"})
    await twins.ask("CONSUMER.DELETE.S.c")
    await twins.ask("CONSUMER.INFO.S.c")


async def test_many_consumers_are_listed_in_pages(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    for number in range(300):
        await ask.ask(f"CONSUMER.CREATE.S.c{number:03}", body(durable_name=f"c{number:03}"))
    first = await ask.ask("CONSUMER.LIST.S")
    assert (first["total"], first["offset"], first["limit"]) == (300, 0, 256)
    assert [info["name"] for info in first["consumers"]] == [f"c{n:03}" for n in range(256)]
    second = await ask.ask("CONSUMER.LIST.S", {"offset": 256})
    assert [info["name"] for info in second["consumers"]] == [f"c{n:03}" for n in range(256, 300)]
    names = await ask.ask("CONSUMER.NAMES.S", {"offset": 299})
    assert names["consumers"] == ["c299"]


async def test_a_replication_consumer_learns_the_stream_s_identity(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    sourcing = body(
        name="JS_SRC", deliver_subject="to", ack_policy="none", max_deliver=1, direct=True, sourcing=True
    )
    frame = await ask.raw("$JS.API.CONSUMER.CREATE.S", sourcing)
    assert b"Nats-Stream-Identity: " in frame[2]
    known = frame[2].split(b"Nats-Stream-Identity: ")[1].split(b"\r\n")[0]
    same = b"NATS/1.0\r\nNats-Stream-Identity: " + known + b"\r\n\r\n"
    assert "error" not in await ask.ask("CONSUMER.CREATE.S", sourcing, same)
    await ask.ask("STREAM.DELETE.S")
    await ask.ask("STREAM.CREATE.S", S)
    refused = await ask.ask("CONSUMER.CREATE.S", sourcing, same)
    assert refused["error"]["err_code"] == 10225


@pytest.fixture
async def delivering(tmp_path: Path) -> AsyncIterator[Door]:
    """Run an engine that delivers."""
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        yield door


async def test_a_message_is_pulled_and_acknowledged_as_from_nats_server(delivering: Door) -> None:
    async with opened_jetstream() as theirs:
        seen = []
        for asker in (delivering.asker, theirs):
            await asker.ask("STREAM.CREATE.S", S)
            await asker.publish("s.a", b"x")
            await asker.ask("CONSUMER.CREATE.S.c", body(durable_name="c", ack_policy="explicit"))
            box = asker.listen("box")
            asker.connection.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.c", b"1", b"box")
            message = await box.next()
            answer = await asker.raw(message[1].decode(), b"+ACK")
            info = await asker.ask("CONSUMER.INFO.S.c")
            reply = message[1].split(b".")
            seen.append(
                (message[0], reply[:7], reply[8], message[2:], answer[2:], info["ack_floor"]["stream_seq"])
            )
        assert seen[0] == seen[1]


async def test_a_required_level_too_high_is_refused_for_pulls(delivering: Door) -> None:
    asker = delivering.asker
    await asker.ask("STREAM.CREATE.S", S)
    await asker.ask("CONSUMER.CREATE.S.c", body(durable_name="c"))
    level = b"NATS/1.0\r\nNats-Required-Api-Level: 999\r\n\r\n"
    answer = await asker.raw("$JS.API.CONSUMER.MSG.NEXT.S.c", b"1", level)
    assert answer[2] == b"NATS/1.0 412 Required Api Level\r\n\r\n"


async def test_twins_cannot_be_distinguished(twins: Twins) -> None:
    await twins.ask("STREAM.CREATE.S", S)
    for request in (
        body(name="x", filter_subject="s..a"),
        body(name="x", deliver_subject="s.>"),
        body(name="x", max_waiting=-1),
        body(name="x", backoff=[1, 2], max_deliver=1),
        {"stream_name": "S", "config": {"name": "x"}, "action": "update"},
    ):
        await twins.ask("CONSUMER.CREATE.S.x", request)
