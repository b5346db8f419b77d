"""Permissions in a real nats-server: engines' subjects are closed, spokes reach only their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from doors import connected
from headwater.bus import permissions
from headwater.bus.connection import Connection, DeniedError, NoRespondersError
from headwater.bus.options import ConnectOptions
from headwater.bus.preflight import preflight
from servers import RunningServer, nats_server
from sinks import KeptSink
from waits import until

STORE_ID = "store1"
PLAN = f"$HEADWATER.{STORE_ID}.REPLICATION.PLAN".encode()


def user(name: str, rules: dict[str, Any] | None = None) -> str:
    """Return a user of nats-server's config."""
    shown = f", permissions: {json.dumps(rules)}" if rules else ""
    return f"{{ user: {name}, password: p{shown} }}"


class Echo:
    """Answers every request with its subject."""

    def __init__(self, connection: Connection) -> None:
        self.items: list[Any] = []
        self.subjects: list[bytes] = []
        self._connection = connection

    def flush(self) -> None:
        """Answer."""
        for subject, reply, _, _ in self.items:
            self.subjects.append(subject)
            if reply:
                self._connection.publish(reply, subject)
        self.items.clear()


@asynccontextmanager
async def as_user(
    server: RunningServer, name: str, **fields: Any
) -> AsyncIterator[tuple[Connection, list[str]]]:
    """Connect, and keep what is denied."""
    denied: list[str] = []
    options = ConnectOptions(servers=(server.client_url,), user=name, password="p", **fields)
    connection = Connection(options, on_denied=lambda each: denied.append(f"{each.operation} {each.subject}"))
    await connection.connect()
    try:
        yield connection, denied
    finally:
        await connection.close()


async def test_an_engine_may_serve_and_a_replicator_ask_and_a_client_neither() -> None:
    users = [
        user("engine", permissions.engine()),
        user("replicator", permissions.replicator(STORE_ID)),
        user("client", permissions.client()),
    ]
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            nats_server(f"authorization {{ users: [ {', '.join(users)} ] }}", leaf=True)
        )
        engine, _ = await stack.enter_async_context(as_user(server, "engine"))
        own = {"inbox_prefix": f"$HEADWATER.{STORE_ID}.INBOX"}
        replicator, refused = await stack.enter_async_context(as_user(server, "replicator", **own))
        # A task of the replicator reads streams with the same user and an ordinary inbox.
        reader, _ = await stack.enter_async_context(as_user(server, "replicator"))
        client, denied = await stack.enter_async_context(as_user(server, "client"))
        options = ConnectOptions(servers=(server.client_url,), user="engine", password="p")
        assert len(await preflight(options, None, "lake")) == 1
        echo = Echo(engine)
        engine.subscribe(b"$HEADWATER.>", echo)
        engine.subscribe(b"$JS.lake.API.>", echo)
        await engine.flush()

        assert (await replicator.request(PLAN, b"", 20))[3] == PLAN
        info = b"$JS.lake.API.STREAM.INFO.S"
        assert (await reader.request(info, b"", 20))[3] == info
        with pytest.raises(DeniedError):
            await reader.request(b"$JS.lake.API.STREAM.DELETE.S", b"", 20)
        replicator.publish(b"orders.new", b"")
        await until(lambda: "publish orders.new" in refused)

        with pytest.raises(DeniedError):
            await client.request(PLAN, b"", 20)
        assert (await client.request(info, b"", 20))[3] == info
        closed = ["$HEADWATER.>", f"$HEADWATER.{STORE_ID}.INBOX.>", "$JS.lake.API.>", "$JS.API.>"]
        for subject in closed:
            client.subscribe(subject.encode(), KeptSink())
        await until(lambda: len(denied) >= 5)
        assert denied[1:] == [f"subscribe {subject}" for subject in closed]
        everything = KeptSink()
        client.subscribe(b">", everything)
        await client.flush()
        await replicator.request(PLAN, b"", 20)
        engine.publish(b"orders.new", b"seen")
        await everything.got(1)
        assert [frame[0] for frame in everything.frames] == [b"orders.new"]
        assert echo.subjects.count(PLAN) == 2


def test_what_a_client_may_and_may_not_do_already_stays() -> None:
    rules = permissions.client({"publish": "a.>", "subscribe": {"allow": ["b"], "deny": "c"}, "responses": 1})
    assert rules["publish"] == {"allow": "a.>", "deny": ["$HEADWATER.>"]}
    assert rules["subscribe"] == {"allow": ["b"], "deny": ["c", "$HEADWATER.>", "$JS.API.>", "$JS.*.API.>"]}
    assert rules["responses"] == 1
    assert permissions.client(rules) == rules


@asynccontextmanager
async def spoke(stack: AsyncExitStack, hub: RunningServer, name: str) -> AsyncIterator[Connection]:
    """Run a spoke of the hub, and connect to it."""
    url = hub.leaf_url.replace("//", f"//{name}:p@")
    remote = f'leafnodes {{ reconnect: 1, remotes: [ {{ url: "{url}" }} ] }}'
    server = await stack.enter_async_context(nats_server(f"server_name: {name}\n{remote}"))
    connection = await connected(server.client_url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_spoke_answers_for_its_own_domain_and_cannot_write_the_streams_of_another() -> None:
    users = [
        user("east", permissions.spoke("east", subjects=["east.>"], reads=[("west", "S")])),
        user("west", permissions.spoke("west", subjects=["west.>"])),
        user("hub"),
    ]
    async with AsyncExitStack() as stack:
        config = f"authorization {{ users: [ {', '.join(users)} ] }}"
        hub_server = await stack.enter_async_context(nats_server(config, leaf=True))
        hub, _ = await stack.enter_async_context(as_user(hub_server, "hub"))
        east = await stack.enter_async_context(spoke(stack, hub_server, "east"))
        west = await stack.enter_async_context(spoke(stack, hub_server, "west"))
        served = Echo(west)
        ack, other = (b"$JS.ACK.west.hash1234.%b.c.1.1.1.1.0" % stream for stream in (b"S", b"OTHER"))
        for subject in (
            *(b"$JS.west.API.>", b"$JS.east.API.>", b"west.>", b"east.>"),
            *(b"$JS.ACK.west.hash1234.S.>", b"$JS.ACK.west.hash1234.OTHER.>", b"$JS.ACK.OTHER.>"),
        ):
            west.subscribe(subject, served)
        await west.flush()

        async def answered(asker: Connection, subject: bytes, within_s: float = 60.0) -> bool:
            try:
                return (await asker.request(subject, b"", within_s))[3] == subject
            except (NoRespondersError, TimeoutError):
                return False

        info = b"$JS.west.API.STREAM.INFO.S"
        for asker in (hub, east):
            async with asyncio.timeout(60):
                while not await answered(asker, info, 1.0):
                    pass
        assert await answered(hub, b"$JS.west.API.STREAM.DELETE.S")
        assert not await answered(hub, b"$JS.east.API.STREAM.INFO.S", 1.0), "west answers for east"
        before = len(served.subjects)
        for subject in (
            *(b"$JS.west.API.STREAM.DELETE.S", b"$JS.west.API.STREAM.PURGE.S", b"west.tickets"),
            *(b"$JS.west.API.STREAM.INFO.OTHER", b"$JS.west.API.CONSUMER.DELETE.OTHER.c"),
            *(other, b"$JS.ACK.OTHER.c.1.1.1.1.0"),
        ):
            assert not await answered(east, subject, 1.0)
        assert await answered(east, info)
        assert await answered(east, ack)
        assert await answered(hub, other)
        assert set(served.subjects[before:]) == {info, ack, other}


def test_a_link_that_users_share_is_closed_to_internal_subjects_alone() -> None:
    assert permissions.closed() == {way: {"deny": ["$HEADWATER.>"]} for way in ("publish", "subscribe")}
    held = {"publish": ["a"], "subscribe": {"allow": "b", "deny": "c"}, "allow_responses": True}
    assert permissions.closed(held) == {
        "publish": {"allow": ["a"], "deny": ["$HEADWATER.>"]},
        "subscribe": {"allow": "b", "deny": ["c", "$HEADWATER.>"]},
        "allow_responses": True,
    }
