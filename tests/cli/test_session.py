"""Requests to a JetStream: answers, pages, refusals, and no server."""

from __future__ import annotations

import asyncio

import pytest
from nats.aio.client import Client

from headwater.cli.session import (
    Json,
    RequestRefusedError,
    UnreachableError,
    answer_of,
    connected,
    flushed,
)
from headwater.client.connection_settings import ConnectionSettings
from jetstreams import Shell
from servers import nats_server


def test_a_refusal_keeps_its_numbers_and_says_what_to_do() -> None:
    body = b'{"error":{"code":404,"err_code":10059,"description":"stream not found"}}'
    with pytest.raises(
        RequestRefusedError, match=r"stream not found \(10059\): `headwater stream ls` lists"
    ) as caught:
        answer_of(body, "STREAM.INFO.X")
    assert (caught.value.code, caught.value.err_code) == (404, 10059)


def test_a_refusal_without_advice_is_shown_in_the_server_s_words() -> None:
    body = b'{"error":{"code":400,"err_code":10034,"description":"stream mirrors can not contain subjects"}}'
    with pytest.raises(RequestRefusedError) as caught:
        answer_of(body, "STREAM.CREATE.X")
    assert str(caught.value) == "stream mirrors can not contain subjects (10034)"


def test_requests_reach_both_kinds_of_server(shell: Shell, stream: str) -> None:
    async def ask() -> tuple[Json, dict[str, int]]:
        async with connected(ConnectionSettings(server=shell.url)) as session:
            return await session.stream_info(stream), await session.subject_counts(stream, f"{stream}.a")

    info, counts = asyncio.run(ask())
    assert info["config"]["name"] == stream
    assert counts == {f"{stream}.a": 1}


async def test_where_nothing_listens_it_is_said_at_once() -> None:
    with pytest.raises(UnreachableError, match="connection refused; start an engine with `headwater serve"):
        async with connected(ConnectionSettings(server="nats://127.0.0.1:1")):
            pass


async def test_refused_credentials_name_the_flags_that_help() -> None:
    async with nats_server("authorization { user: a, password: b }") as server:
        with pytest.raises(UnreachableError, match="pass --user and --password"):
            async with connected(ConnectionSettings(server=server.client_url, user="a", password="wrong")):
                pass
        async with connected(ConnectionSettings(server=server.client_url, user="a", password="b")) as session:
            assert session.nats.is_connected


async def test_where_no_jetstream_answers_the_domain_is_asked_for() -> None:
    async with nats_server() as server:
        async with connected(ConnectionSettings(server=server.client_url, domain="lake")) as session:
            with pytest.raises(
                UnreachableError, match=r"no responders on \$JS.lake.API.INFO: select a domain"
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
