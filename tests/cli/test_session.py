"""Requests to a JetStream: answers, pages, refusals, and nobody there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from nats.aio.client import Client

from headwater.cli.connection import ConnectionSettings
from headwater.cli.session import (
    CommandRefusedError,
    Json,
    Session,
    UnreachableError,
    answer_of,
    connected,
    flushed,
)
from headwater.errors import Error
from jetstreams import Shell
from servers import nats_server


class Pages(Session):
    """A session that answers a list of seven names, three at a time."""

    def __init__(self) -> None:
        super().__init__(Client(), ConnectionSettings())
        self.asked: list[Any] = []

    async def request(
        self, endpoint: str, body: Mapping[str, Any] | None = None, *, wait: float | None = None
    ) -> Json:
        """Answer one page."""
        self.asked.append(body)
        offset = (body or {})["offset"]
        names = [f"S{i}" for i in range(7)][offset : offset + 3]
        return {"total": 7, "offset": offset, "limit": 3, "streams": names or None}


async def test_all_pages_of_a_list_are_asked_for() -> None:
    session = Pages()
    assert await session.stream_names("orders.>") == [f"S{i}" for i in range(7)]
    assert session.asked == [{"subject": "orders.>", "offset": offset} for offset in (0, 3, 6)]


def test_a_refusal_keeps_its_numbers_and_says_what_to_do() -> None:
    body = b'{"error":{"code":404,"err_code":10059,"description":"stream not found"}}'
    with pytest.raises(
        CommandRefusedError, match=r"stream not found \(10059\): `headwater stream ls` lists"
    ) as caught:
        answer_of(body, "STREAM.INFO.X")
    assert (caught.value.code, caught.value.err_code) == (404, 10059)


def test_a_refusal_without_advice_stands_in_the_words_of_the_server() -> None:
    body = b'{"error":{"code":400,"err_code":10034,"description":"stream mirrors can not contain subjects"}}'
    with pytest.raises(CommandRefusedError) as caught:
        answer_of(body, "STREAM.CREATE.X")
    assert str(caught.value) == "stream mirrors can not contain subjects (10034)"


def test_an_answer_that_is_no_json_is_refused() -> None:
    with pytest.raises(Error, match="is not JSON"):
        answer_of(b"hello", "INFO")


def test_requests_reach_both_kinds_of_server(shell: Shell, stream: str) -> None:
    async def ask() -> tuple[Json, dict[str, int]]:
        async with connected(ConnectionSettings(server=shell.url)) as session:
            return await session.stream_info(stream), await session.subject_counts(stream, f"{stream}.a")

    info, counts = asyncio.run(ask())
    assert info["config"]["name"] == stream
    assert counts == {f"{stream}.a": 1}


async def test_a_second_server_is_tried_when_nothing_listens_at_the_first() -> None:
    async with nats_server() as server:
        async with connected(ConnectionSettings(server=f"nats://127.0.0.1:1,{server.client_url}")) as session:
            assert session.nats.is_connected


async def test_where_nothing_listens_it_is_said_at_once() -> None:
    with pytest.raises(UnreachableError, match="nothing listens there; start one with `headwater serve"):
        async with connected(ConnectionSettings(server="nats://127.0.0.1:1")):
            pass


async def test_who_is_not_let_in_learns_which_flags_help() -> None:
    async with nats_server("authorization { user: a, password: b }") as server:
        with pytest.raises(UnreachableError, match="give --user and --password"):
            async with connected(ConnectionSettings(server=server.client_url, user="a", password="wrong")):
                pass
        async with connected(ConnectionSettings(server=server.client_url, user="a", password="b")) as session:
            assert session.nats.is_connected


async def test_where_no_jetstream_answers_the_domain_is_asked_for() -> None:
    async with nats_server() as server:
        async with connected(ConnectionSettings(server=server.client_url, domain="lake")) as session:
            with pytest.raises(
                UnreachableError, match=r"nobody answers on \$JS.lake.API.INFO: name the domain"
            ):
                await session.request("INFO")


async def test_an_answer_that_does_not_come_in_time_says_so() -> None:
    async with nats_server() as server:
        async with connected(ConnectionSettings(server=server.client_url, timeout=0.05)) as session:
            await session.nats.subscribe("$JS.API.INFO")
            with pytest.raises(UnreachableError, match=r"no answer on \$JS.API.INFO within 50ms"):
                await session.request("INFO")


async def test_once_flushed_the_server_has_read_what_was_sent_before() -> None:
    lines: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"max_payload": 1000}\r\n')
        while line := await reader.readline():
            lines.append(line.split(b" ")[0].strip())
            if lines[-1] == b"PING":
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        client = Client()
        await client.connect(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for _ in range(50):
            lines.clear()
            await client.subscribe("a")
            await flushed(client)
            assert b"SUB" in lines[: len(lines) - lines[::-1].index(b"PING")]
        await client.close()


async def test_a_cancellation_that_comes_with_an_answer_is_not_forgotten() -> None:
    asked = asyncio.Event()

    class Forgetful:
        """Answers although the question was given up."""

        async def request(self, subject: str, payload: bytes, **options: object) -> str:
            asked.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
            return "an answer"

    session = Session.__new__(Session)
    session.nats = Forgetful()  # type: ignore[assignment]
    session.timeout = 60.0
    asking = asyncio.create_task(session.ask("subject"))
    await asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
