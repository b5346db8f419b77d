"""The client connection, against real servers."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from headwater.bus.connection import Connection, Denial, NoRespondersError, denial
from headwater.bus.free_port import free_port
from headwater.bus.options import ConnectOptions
from headwater.cli.session import flushed
from headwater.errors import BusError
from headwater.wire.frames import answers, pubs
from identities import Certificates, make_operator, new_key, public, write_seed
from servers import nats_server
from sinks import KeptSink
from waits import until

HEADERS = b"NATS/1.0\r\nK: V\r\n\r\n"


async def echoes(options: ConnectOptions) -> bool:
    """Return whether a connection with these options receives a message that it sends."""
    connection, sink = Connection(options), KeptSink()
    await connection.connect()
    connection.subscribe(b"echo", sink)
    connection.publish(b"echo", b"data", b"reply", HEADERS)
    frames = await sink.got(1)
    await connection.close()
    return frames == [(b"echo", b"reply", HEADERS, b"data")]


async def test_messages_arrive_with_subject_reply_headers_and_data() -> None:
    async with nats_server() as server:
        assert await echoes(ConnectOptions((server.client_url,)))


async def test_an_official_client_and_ours_understand_each_other() -> None:
    async with nats_server() as server:
        connection, sink = Connection(ConnectOptions((server.client_url,))), KeptSink()
        await connection.connect()
        connection.subscribe(b"orders.*", sink, b"workers")
        await connection.flush()
        client = await nats.connect(server.client_url)
        pending = asyncio.create_task(client.request("orders.new", b"hello", timeout=60, headers={"A": "b"}))
        ((subject, reply, headers, data),) = await sink.got(1)
        assert (subject, data) == (b"orders.new", b"hello")
        assert b"A: b" in headers
        connection.write(answers([(reply, b"done")]))
        assert (await pending).data == b"done"
        await client.close()
        await connection.close()


async def test_many_messages_in_one_write_arrive_in_order() -> None:
    async with nats_server() as server:
        connection, sink = Connection(ConnectOptions((server.client_url,))), KeptSink()
        await connection.connect()
        connection.subscribe(b"many.*", sink)
        frames = [
            (b"many.%d" % i, b"r", HEADERS if i % 7 == 0 else b"", b"x" * (i % 300)) for i in range(20_000)
        ]
        connection.write(pubs(frames))
        assert await sink.got(len(frames)) == frames
        await connection.close()


async def test_a_payload_near_8_mib_crosses_many_reads() -> None:
    async with nats_server("max_payload: 8388608") as server:
        connection, sink = Connection(ConnectOptions((server.client_url,))), KeptSink()
        await connection.connect()
        connection.subscribe(b"big", sink)
        data = os.urandom(connection.max_payload)
        connection.publish(b"big", data)
        connection.publish(b"big", b"after")
        assert [frame[3] for frame in await sink.got(2)] == [data, b"after"]
        with pytest.raises(BusError, match="larger"):
            connection.publish(b"big", data + b"x")
        await connection.close()


async def test_an_ended_subscription_gets_nothing_more() -> None:
    async with nats_server() as server:
        connection, sink = Connection(ConnectOptions((server.client_url,))), KeptSink()
        await connection.connect()
        sid = connection.subscribe(b"a", sink)
        connection.publish(b"a", b"1")
        await sink.got(1)
        connection.unsubscribe(sid)
        connection.publish(b"a", b"2")
        await connection.flush()
        assert sink.datas == [b"1"]
        await connection.close()


async def test_requests_are_answered_or_say_why_not() -> None:
    async with nats_server() as server:
        connection = Connection(ConnectOptions((server.client_url,)))
        await connection.connect()
        with pytest.raises(NoRespondersError, match=r"nobody\.here"):
            await connection.request(b"nobody.here", b"", 5)
        connection.subscribe(b"silent", KeptSink())
        with pytest.raises(TimeoutError):
            await connection.request(b"silent", b"", 0.01)
        client = await nats.connect(server.client_url)

        async def answer(message: Msg) -> None:
            await message.respond(message.data.upper())

        await client.subscribe("loud", cb=answer)
        await flushed(client)
        replies = await asyncio.gather(*(connection.request(b"loud", b"m%d" % i, 5) for i in range(20)))
        assert [reply[3] for reply in replies] == [b"M%d" % i for i in range(20)]
        await client.close()
        await connection.close()


async def test_after_a_killed_server_everything_is_subscribed_again() -> None:
    async with nats_server() as server:
        seen: list[str] = []
        connection, sink = (
            Connection(
                ConnectOptions((server.client_url,)),
                on_connected=lambda: seen.append("up"),
                on_disconnected=lambda reason: seen.append("down"),
            ),
            KeptSink(),
        )
        await connection.connect()
        connection.subscribe(b"a", sink)
        gone = connection.subscribe(b"b", sink)
        connection.unsubscribe(gone)
        for round_ in range(3):
            await server.kill()
            await until(lambda: not connection.connected)
            connection.publish(b"a", b"into the void")
            late = connection.subscribe(b"late.%d" % round_, sink)
            await server.start()
            await until(lambda: connection.connected)
            connection.publish(b"a", b"a%d" % round_)
            connection.publish(b"b", b"nobody hears")
            connection.publish(b"late.%d" % round_, b"late%d" % round_)
            await sink.got(2 * round_ + 2)
            connection.unsubscribe(late)
        assert sink.datas == [b"a0", b"late0", b"a1", b"late1", b"a2", b"late2"]
        assert seen == ["up", "down"] * 3 + ["up"]
        await connection.close()


async def test_a_second_server_takes_over() -> None:
    async with nats_server() as first, nats_server() as second:
        connection, sink = Connection(ConnectOptions((first.client_url, second.client_url))), KeptSink()
        await connection.connect()
        connection.subscribe(b"a", sink)
        await first.kill()
        await until(lambda: connection.connected and connection.info["port"] == second.port)
        connection.publish(b"a", b"on the second")
        assert [frame[3] for frame in await sink.got(1)] == [b"on the second"]
        await connection.close()


async def test_a_lame_duck_is_left_for_a_server_it_announced() -> None:
    routes = [free_port(), free_port()]

    def cluster(mine: int, other: int) -> str:
        return f'cluster {{ name: c, listen: "127.0.0.1:{mine}", routes: ["nats://127.0.0.1:{other}"] }}'

    async with nats_server(cluster(*routes)) as first, nats_server(cluster(*reversed(routes))) as second:
        connection, sink = Connection(ConnectOptions((first.client_url,))), KeptSink()
        await connection.connect()
        connection.subscribe(b"a", sink)
        await until(lambda: f"127.0.0.1:{second.port}" in connection.info.get("connect_urls", ()))
        os.kill(first.pid, signal.SIGUSR2)
        await until(lambda: connection.connected and connection.info["port"] == second.port)
        connection.publish(b"a", b"moved")
        assert [frame[3] for frame in await sink.got(1)] == [b"moved"]
        await connection.close()
        await first.kill()


async def test_draining_waits_for_nothing_once_nothing_may_be_sent(caplog: pytest.LogCaptureFixture) -> None:
    async with nats_server() as server:
        allowed = [True]
        options = ConnectOptions(servers=(server.client_url,), may_send=lambda: allowed[0])
        connection = Connection(options)
        await connection.connect()
        allowed[0] = False
        await connection.drain()
    assert "cannot drain" not in caplog.text


async def test_draining_takes_what_is_under_way_and_sends_what_waits() -> None:
    async with nats_server() as server:
        connection, other = (Connection(ConnectOptions((server.client_url,))) for _ in range(2))
        mine, theirs = KeptSink(), KeptSink()
        await connection.connect()
        await other.connect()
        connection.subscribe(b"in", mine)
        other.subscribe(b"out", theirs)
        await other.flush()
        connection.publish(b"in", b"under way")
        connection.publish(b"out", b"waits")
        await connection.drain()
        assert mine.datas == [b"under way"]
        assert [frame[3] for frame in await theirs.got(1)] == [b"waits"]
        assert not connection.connected
        await other.close()


async def test_a_denied_subject_is_reported() -> None:
    config = """authorization { users: [ { user: u, password: p, permissions: {
        subscribe: { allow: ["ok.>"] }, publish: { deny: ["no.pub"] } } } ] }"""
    async with nats_server(config) as server:
        denials: list[Denial] = []
        options = ConnectOptions((server.client_url,), user="u", password="p")
        connection, sink = Connection(options, on_denied=denials.append), KeptSink()
        await connection.connect()
        connection.subscribe(b"ok.1", sink)
        connection.subscribe(b"no.sub", sink, b"group")
        connection.publish(b"no.pub", b"")
        connection.publish(b"ok.1", b"", b"$JS.ACK.S.C.1.1.1.1.0")
        await connection.flush()
        assert denials == [
            Denial("subscribe", "no.sub"),
            Denial("publish", "no.pub"),
            Denial("publish", "$JS.ACK.S.C.1.1.1.1.0"),
        ]
        assert connection.connected
        await connection.close()


def test_other_errors_are_no_denials() -> None:
    assert denial("Slow Consumer") is None


async def test_what_the_server_complains_about_is_logged_and_passed_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with nats_server() as server:
        said: list[str] = []
        connection = Connection(ConnectOptions((server.client_url,)), on_error=said.append)
        await connection.connect()
        connection.write(b"NONSENSE\r\n")
        await until(lambda: said)
        assert "Unknown Protocol Operation" in said[0]
        assert "Unknown Protocol Operation" in caplog.text
        await until(lambda: connection.connected)
        await connection.close()


async def test_user_and_password_are_shown_and_a_wrong_one_is_refused() -> None:
    async with nats_server("authorization { user: u, password: p }") as server:
        assert await echoes(ConnectOptions((server.client_url,), user="u", password="p"))
        assert await echoes(ConnectOptions((f"nats://u:p@127.0.0.1:{server.port}",)))
        with pytest.raises(BusError, match="Authorization Violation") as caught:
            await Connection(ConnectOptions((server.client_url,), user="u", password="wrong")).connect()
        assert "user: u" in caught.value.fix


async def test_a_token_is_shown() -> None:
    async with nats_server("authorization { token: hush }") as server:
        assert await echoes(ConnectOptions((server.client_url,), token="hush"))
        with pytest.raises(BusError, match="Authorization Violation"):
            await Connection(ConnectOptions((server.client_url,))).connect()


async def test_an_nkey_signs_what_the_server_asks(tmp_path: Path) -> None:
    pair, stranger = new_key(), new_key()
    async with nats_server(f"authorization {{ users: [ {{ nkey: {public(pair)} }} ] }}") as server:
        seed = write_seed(tmp_path / "seed", pair)
        assert await echoes(ConnectOptions((server.client_url,), nkey_file=seed))
        other = ConnectOptions((server.client_url,), nkey_file=write_seed(tmp_path / "other", stranger))
        with pytest.raises(BusError, match="Authorization Violation"):
            await Connection(other).connect()


async def test_a_credentials_file_is_enough_in_operator_mode(tmp_path: Path) -> None:
    operator = make_operator(tmp_path)
    async with nats_server(operator.config) as server:
        assert await echoes(ConnectOptions((server.client_url,), creds_file=operator.creds_file))
        with pytest.raises(BusError, match="Authorization Violation"):
            await Connection(ConnectOptions((server.client_url,))).connect()


async def test_tls_is_used_when_the_server_requires_it(certificates: Certificates) -> None:
    async with nats_server(certificates.config()) as server:
        assert await echoes(ConnectOptions((server.client_url,), tls_ca=certificates.ca))
        with pytest.raises(BusError, match="TLS handshake"):
            await Connection(ConnectOptions((server.client_url,))).connect()


async def test_a_client_certificate_is_shown(certificates: Certificates) -> None:
    async with nats_server(certificates.config("verify: true")) as server:
        shown = ConnectOptions(
            (server.client_url,),
            tls_ca=certificates.ca,
            tls_cert=certificates.client_cert,
            tls_key=certificates.client_key,
        )
        assert await echoes(shown)
        with pytest.raises(BusError):
            await Connection(ConnectOptions((server.client_url,), tls_ca=certificates.ca)).connect()


async def test_tls_may_come_before_the_first_byte(certificates: Certificates) -> None:
    async with nats_server(certificates.config("handshake_first: true")) as server:
        assert await echoes(ConnectOptions((server.client_url,), tls_ca=certificates.ca, tls_first=True))


async def test_a_server_without_tls_is_refused_when_tls_is_wanted() -> None:
    async with nats_server() as server:
        with pytest.raises(BusError, match="offers no TLS"):
            await Connection(ConnectOptions((f"tls://127.0.0.1:{server.port}",))).connect()


async def test_a_server_that_is_not_there_is_named() -> None:
    port = free_port()
    with pytest.raises(BusError, match=str(port)) as caught:
        await Connection(ConnectOptions((f"nats://127.0.0.1:{port}",))).connect()
    assert caught.value.fix == f"listen: 127.0.0.1:{port}"


async def test_reading_continues_when_all_that_paused_it_resume_it() -> None:
    async with nats_server() as server:
        connection, sink = Connection(ConnectOptions((server.client_url,))), KeptSink()
        other = Connection(ConnectOptions((server.client_url,)))
        await connection.connect()
        await other.connect()
        connection.subscribe(b"a", sink)
        await connection.flush()
        one, two = object(), object()
        connection.pause_reading(one)
        connection.pause_reading(two)
        connection.resume_reading(two)
        other.publish(b"a", b"1")
        await other.flush()
        await asyncio.sleep(0.05)
        assert sink.datas == []
        connection.resume_reading(two)
        connection.resume_reading(one)
        await sink.got(1)
        await connection.close()
        await other.close()


async def test_a_request_that_is_cancelled_as_its_answer_arrives_is_cancelled() -> None:
    """A caller that asks in a loop would never end if the cancellation were lost."""
    async with nats_server() as server:
        connection = Connection(ConnectOptions((server.client_url,)))
        await connection.connect()
        connection.subscribe(b"asked", KeptSink())
        asking = asyncio.create_task(connection.request(b"asked", b"", 60))
        await until(lambda: connection._inbox.waiting)
        next(iter(connection._inbox.waiting.values())).set_result((b"", b"", b"", b"answer"))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await connection.close()


async def test_no_answer_is_asked_for_where_only_engines_speak() -> None:
    async with nats_server() as server:
        connection, sink = Connection(ConnectOptions((server.client_url,))), KeptSink()
        await connection.connect()
        connection.subscribe(b"orders.*", sink)
        connection.subscribe(b"$HEADWATER.id.PLAN", sink)
        internal = b"$HEADWATER.id.COMMIT"
        connection.publish(b"orders.1", b"plain", internal)
        connection.publish(b"orders.2", b"with headers", internal, HEADERS)
        connection.publish(b"orders.3", b"$HEADWATER. as data", b"_INBOX.1")
        connection.publish(b"$HEADWATER.id.PLAN", b"from a replicator", b"$HEADWATER.id.INBOX.1")
        assert await sink.got(4) == [
            (b"orders.1", b"", b"", b"plain"),
            (b"orders.2", b"", HEADERS, b"with headers"),
            (b"orders.3", b"_INBOX.1", b"", b"$HEADWATER. as data"),
            (b"$HEADWATER.id.PLAN", b"$HEADWATER.id.INBOX.1", b"", b"from a replicator"),
        ]
        await connection.close()
