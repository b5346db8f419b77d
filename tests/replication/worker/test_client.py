"""The blocking client: greetings, credentials, TLS, requests, and servers that say no."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.bus.options import ConnectOptions
from headwater.errors import BusError
from headwater.replication.worker.bulk_deliveries import BulkDeliveries
from headwater.replication.worker.client import BlockingClient
from identities import make_certificates, make_operator, new_key, public, write_seed
from servers import nats_server


def echoes(options: ConnectOptions) -> bool:
    """Return whether the client receives a message that it sends."""
    with BlockingClient(options) as client:
        inbox = client.open()
        client.publish(inbox.subject, b"hello\r\nthere")
        frames = inbox.read(5)
    return [frame[3] for frame in frames] == [b"hello\r\nthere"]


async def accepted(url: str, **fields: str) -> bool:
    """Return whether the server takes these credentials."""
    return await asyncio.to_thread(echoes, ConnectOptions(servers=(url,), **fields))  # type: ignore[arg-type]


async def test_a_message_comes_back_over_a_plain_connection() -> None:
    async with nats_server() as server:
        assert await accepted(server.client_url)


async def test_user_and_password_are_shown() -> None:
    async with nats_server("authorization { users: [ { user: me, password: hush } ] }") as server:
        assert await accepted(server.client_url, user="me", password="hush")
        with pytest.raises(BusError, match="Authorization Violation"):
            await accepted(server.client_url, user="me", password="wrong")


async def test_a_token_is_shown() -> None:
    async with nats_server("authorization { token: hush }") as server:
        assert await accepted(server.client_url, token="hush")


async def test_an_nkey_signs(tmp_path: Path) -> None:
    pair = new_key()
    seed = write_seed(tmp_path / "seed", pair)
    async with nats_server(f"authorization {{ users: [ {{ nkey: {public(pair)} }} ] }}") as server:
        assert await accepted(server.client_url, nkey_file=seed)


async def test_a_credentials_file_is_used(tmp_path: Path) -> None:
    operator = make_operator(tmp_path)
    async with nats_server(operator.config) as server:
        assert await accepted(server.client_url, creds_file=operator.creds_file)


async def test_tls_is_used_where_it_is_wanted(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    async with nats_server(certificates.config("verify: true")) as server:
        own = {"tls_cert": certificates.client_cert, "tls_key": certificates.client_key}
        assert await accepted(server.client_url, tls_ca=certificates.ca, **own)
        with pytest.raises(BusError, match="TLS"):
            await accepted(server.client_url)


async def test_a_server_without_tls_is_refused_when_tls_is_wanted() -> None:
    async with nats_server() as server:
        with pytest.raises(BusError, match="offers no TLS"):
            await accepted(f"tls://127.0.0.1:{server.port}")


async def test_the_next_server_is_tried_when_one_is_away() -> None:
    async with nats_server() as server:
        options = ConnectOptions(servers=("nats://127.0.0.1:1", server.client_url))
        assert await asyncio.to_thread(echoes, options)


def test_servers_that_are_away_are_named() -> None:
    with pytest.raises(BusError, match=r"cannot reach 127\.0\.0\.1:1"):
        BlockingClient(ConnectOptions(servers=("nats://127.0.0.1:1",)))


async def test_a_request_without_responders_is_an_error_at_once() -> None:
    async with nats_server() as server:
        with BlockingClient(ConnectOptions(servers=(server.client_url,))) as client:
            with pytest.raises(BusError, match="no responders on nowhere"):
                await asyncio.to_thread(client.request, "nowhere")


async def test_an_answer_that_does_not_come_in_time_is_an_error() -> None:
    async with nats_server() as server:
        with BlockingClient(ConnectOptions(servers=(server.client_url,))) as client:
            with pytest.raises(BusError, match="in time"):
                client.open().read(0.01)


async def test_a_server_that_dies_is_an_error() -> None:
    async with nats_server() as server:
        with BlockingClient(ConnectOptions(servers=(server.client_url,))) as client:
            inbox = client.open()
            await server.kill()
            with pytest.raises((BusError, OSError)):
                inbox.read(10)


async def test_what_is_not_allowed_is_an_error() -> None:
    denied = "authorization { users: [ { user: a, password: b, permissions: { publish: { deny: x } } } ] }"
    async with nats_server(denied) as server:
        options = ConnectOptions(servers=(server.client_url,), user="a", password="b")
        with BlockingClient(options) as client:
            with pytest.raises(BusError, match="Permissions Violation"):
                client.request("x")


@pytest.fixture
def stranger() -> Iterator[int]:
    """A server on loopback that speaks another protocol."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def test_a_server_of_another_kind_is_recognized(stranger: int) -> None:
    with pytest.raises(BusError, match="not a nats-server"):
        BlockingClient(ConnectOptions(servers=(f"nats://127.0.0.1:{stranger}",)))


async def test_a_new_connection_has_nothing_of_the_one_before() -> None:
    def read(url: str) -> list[bytes]:
        with BlockingClient(ConnectOptions(servers=(url,))) as client:
            before = client.open()
            for _ in range(1000):
                client.publish(before.subject, bytes(1000))
            client.renew()
            after = client.open()
            client.publish(before.subject, b"nobody listens any more")
            client.publish(after.subject, b"hello")
            return [frame[3] for frame in after.read(5)]

    async with nats_server() as server:
        assert await asyncio.to_thread(read, server.client_url) == [b"hello"]


async def test_received_bytes_are_processed_before_more_are_waited_for() -> None:
    def read(url: str) -> list[bytes]:
        with BlockingClient(ConnectOptions(servers=(url,))) as client:
            inbox = client.open()
            came = b"PING\r\nMSG other 99 1\r\nx\r\nMSG mine %b 5\r\nhello\r\n" % inbox.sid
            client._intake.put_back(came)
            return [item[3] for item in inbox.read_bulk(BulkDeliveries(inbox.sid), 0.001) if len(item) == 4]

    async with nats_server() as server:
        assert await asyncio.to_thread(read, server.client_url) == [b"hello"]
