"""The leaf connection, against real servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import nats
import pytest

from headwater.bus.connection import Connection
from headwater.bus.leaf import LeafConnection
from headwater.bus.options import ConnectOptions
from headwater.cli.session import flushed
from headwater.errors import BusError
from headwater.wire.leaf_frames import lmsgs
from identities import Certificates, make_operator, new_key, public, write_seed
from servers import RunningServer, nats_server
from sinks import KeptSink
from waits import until

ACK = b"$JS.ACK.S.C.1.1.1.1700000000000000000.0"
HEADERS = b"NATS/1.0\r\nK: V\r\n\r\n"


async def delivers(leaf_options: ConnectOptions, client_options: ConnectOptions) -> bool:
    """Return whether a delivery over the leaf reaches a client with stored subject and ack reply."""
    leaf, client, sink = LeafConnection(leaf_options), Connection(client_options), KeptSink()
    await leaf.connect()
    await client.connect()
    client.subscribe(b"inbox.1", sink)
    await client.flush()
    await until(lambda: leaf.interest.has(b"inbox.1"))
    leaf.deliver(b"inbox.1", ACK + b"@stored.subject", HEADERS, b"data")
    frames = await sink.got(1)
    await leaf.close()
    await client.close()
    return frames == [(b"stored.subject", ACK, HEADERS, b"data")]


async def test_an_official_client_sees_the_stored_subject_and_the_ack_reply() -> None:
    async with nats_server(leaf=True) as server:
        client = await nats.connect(server.client_url)
        subscription = await client.subscribe("inbox.1")
        await flushed(client)
        leaf = LeafConnection(ConnectOptions((server.leaf_url,)), "lake")
        await leaf.connect()
        assert leaf.interest.has(b"inbox.1")  # received before connect returned
        assert leaf.deliver(b"inbox.1", ACK + b"@stored.subject", b"", b"plain")
        assert leaf.deliver(b"inbox.1", ACK + b"@stored.subject", HEADERS, b"headed")
        leaf.write(lmsgs(b"inbox.1", [(ACK + b"@s.%d" % i, b"", b"%d" % i) for i in range(3)]))
        got = [await subscription.next_msg(timeout=60) for _ in range(5)]
        assert [m.subject for m in got] == ["stored.subject"] * 2 + ["s.0", "s.1", "s.2"]
        assert {m.reply for m in got} == {ACK.decode()}
        assert got[1].headers == {"K": "V"}
        assert got[0].metadata.sequence.stream == 1
        await client.close()
        await leaf.close()


async def test_one_member_of_a_queue_group_gets_a_delivery_and_every_plain_subscriber() -> None:
    async with nats_server(leaf=True) as server:
        client = Connection(ConnectOptions((server.client_url,)))
        leaf = LeafConnection(ConnectOptions((server.leaf_url,)))
        await client.connect()
        await leaf.connect()
        members, plain = [KeptSink(), KeptSink()], KeptSink()
        for member in members:
            client.subscribe(b"work", member, b"workers")
        client.subscribe(b"work", plain)
        await until(lambda: leaf.interest.queues(b"work") == {b"workers", b""})
        for _ in range(10):
            leaf.deliver(b"work", ACK + b"@stored", b"", b"x")
        await plain.got(10)
        await until(lambda: sum(len(member.frames) for member in members) == 10)
        await client.close()
        await leaf.close()


async def test_interest_comes_and_goes_with_the_subscribers() -> None:
    async with nats_server(leaf=True) as server:
        changes: list[int] = []
        leaf = LeafConnection(ConnectOptions((server.leaf_url,)))
        leaf.interest.change_callbacks.append(lambda: changes.append(1))
        client = Connection(ConnectOptions((server.client_url,)))
        await leaf.connect()
        await client.connect()
        assert not leaf.deliver(b"_INBOX.me.7", b"", b"", b"nobody hears")
        sid = client.subscribe(b"_INBOX.me.*", KeptSink())
        while not leaf.interest.has(b"_INBOX.me.7"):
            await leaf.interest.changed()
        assert changes
        assert not any(subject.startswith(b"$LDS.") for subject, _ in leaf.interest)
        client.unsubscribe(sid)
        await until(lambda: not leaf.interest.has(b"_INBOX.me.7"))
        client.subscribe(b"again", KeptSink())
        await until(lambda: leaf.interest.has(b"again"))
        await client.close()
        await until(lambda: not leaf.interest.has(b"again"))
        await leaf.close()


async def test_after_a_killed_server_interest_and_subscriptions_are_there_again() -> None:
    async with nats_server(leaf=True) as server:
        mine, theirs = KeptSink(), KeptSink()
        leaf = LeafConnection(ConnectOptions((server.leaf_url,)), sink=mine)
        client = Connection(ConnectOptions((server.client_url,)))
        await leaf.connect()
        await client.connect()
        client.subscribe(b"inbox", theirs)
        leaf.subscribe(b"to.leaf")
        leaf.subscribe(b"to.leaf.too", b"q")
        leaf.subscribe(b"not.any.more")
        leaf.unsubscribe(b"not.any.more")
        await until(lambda: leaf.interest.has(b"inbox"))
        await server.kill()
        await until(lambda: not leaf.connected and not leaf.interest.has(b"inbox"))
        await server.start()
        await until(lambda: leaf.connected and leaf.interest.has(b"inbox"))
        leaf.deliver(b"inbox", ACK + b"@stored", b"", b"back")
        assert [frame[3] for frame in await theirs.got(1)] == [b"back"]
        await leaf.flush()
        client.publish(b"not.any.more", b"")
        client.publish(b"to.leaf", b"1", b"r", HEADERS)
        client.publish(b"to.leaf.too", b"2")
        assert await mine.got(2) == [(b"to.leaf", b"r", HEADERS, b"1"), (b"to.leaf.too", b"", b"", b"2")]
        await client.close()
        await leaf.close()


async def test_user_and_password_of_the_leaf_port_are_shown() -> None:
    async with nats_server(leaf="authorization { user: leaf, password: p }") as server:
        options = ConnectOptions((server.leaf_url,), user="leaf", password="p")
        assert await delivers(options, ConnectOptions((server.client_url,)))
        with pytest.raises(BusError, match="Authorization Violation") as caught:
            await LeafConnection(ConnectOptions((server.leaf_url,), user="leaf", password="x")).connect()
        assert caught.value.fix.startswith("leafnodes { authorization")


async def test_an_nkey_or_a_credentials_file_opens_the_leaf_port(tmp_path: Path) -> None:
    pair = new_key()
    async with nats_server(f"authorization {{ users: [ {{ nkey: {public(pair)} }} ] }}", leaf=True) as server:
        seed = write_seed(tmp_path / "seed", pair)
        await both(server, nkey_file=seed)
    operator = make_operator(tmp_path)
    async with nats_server(operator.config, leaf=True) as server:
        await both(server, creds_file=operator.creds_file)


async def both(server: RunningServer, **credentials: Any) -> None:
    """Deliver with the same credentials on both connections."""
    leaf, client = (
        replace(ConnectOptions((url,)), **credentials) for url in (server.leaf_url, server.client_url)
    )
    assert await delivers(leaf, client)


async def test_the_leaf_port_may_require_tls(certificates: Certificates) -> None:
    async with nats_server(leaf=certificates.config()) as server:
        options = ConnectOptions((server.leaf_url,), tls_ca=certificates.ca)
        assert await delivers(options, ConnectOptions((server.client_url,)))


async def test_the_wrong_port_is_named() -> None:
    async with nats_server(leaf=True) as server:
        with pytest.raises(BusError, match="not a leaf port") as caught:
            await LeafConnection(ConnectOptions((server.client_url,))).connect()
        assert caught.value.fix == "leafnodes { listen: 127.0.0.1:7422 }"
        with pytest.raises(BusError, match="leaf node port"):
            await Connection(ConnectOptions((server.leaf_url,))).connect()
