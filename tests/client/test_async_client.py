"""The client of `headwater.connect`, against an engine and against a plain nats-server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater
from client.clients import fill, jetstream_of, nats_mirror
from headwater import AsyncClient, CatchUpError, Error, Phase, connect
from headwater.bus.free_port import free_port
from headwater.client.jetstream_api import UnreachableError
from headwater.upstreams.upstreams import NO_REPLICATOR_YET
from servers import nats_server
from waits import until

KINDS = ("engine", "nats-server")


async def seen(client: AsyncClient) -> None:
    """Return once the origin of COPY was seen."""

    async def is_known() -> bool:
        return (await client.stream("COPY")).lag is not None

    await until(is_known, "the origin was seen")


@pytest.mark.parametrize("kind", KINDS)
async def test_streams_and_their_upstreams_are_listed(tmp_path: Path, kind: str) -> None:
    async with jetstream_of(kind, tmp_path) as client:
        assert (await client.streams(), await client.stream_names(), await client.offline()) == ([], [], {})
        await fill(client, 3)
        assert sorted(await client.stream_names()) == ["COPY", "ORDERS"]
        assert await client.stream_names("orders") == ["ORDERS"]
        copy, orders = sorted(await client.streams(), key=lambda stream: stream.name)
        assert (orders.messages, orders.last_seq, orders.upstreams, orders.lag) == (3, 3, (), 0)
        (upstream,) = copy.upstreams
        assert (upstream.name, upstream.is_mirror) == ("ORDERS", True)
        assert (await client.stream("ORDERS")).messages == 3


async def test_an_engine_reports_phase_lag_and_gaps_and_a_plain_server_reports_none(tmp_path: Path) -> None:
    async with jetstream_of("engine", tmp_path) as client:
        await fill(client, 3)
        await seen(client)
        (upstream,) = (await client.stream("COPY")).upstreams
        assert (upstream.lag, upstream.origin_last_seq, upstream.gap_count) == (3, 3, 0)
        assert upstream.phase in (Phase.CATCHING_UP, Phase.LIVE)
    async with jetstream_of("nats-server", tmp_path) as client:
        await fill(client, 3)
        (upstream,) = (await client.catch_up("COPY", within=60)).upstreams
        assert (upstream.lag, upstream.phase, upstream.gap_count, upstream.seq) == (0, None, None, None)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_empty_origin_that_was_seen_is_caught_up_with(tmp_path: Path, kind: str) -> None:
    async with jetstream_of(kind, tmp_path) as client:
        await fill(client, 0)
        assert (await client.catch_up("COPY", within=60)).lag == 0


async def test_a_plain_server_is_waited_for_until_all_is_copied(tmp_path: Path) -> None:
    async with jetstream_of("nats-server", tmp_path) as client:
        await fill(client, 50)
        assert (await client.catch_up("COPY", within=60)).messages == 50


async def test_a_plain_server_that_has_just_begun_to_copy_is_waited_for(tmp_path: Path) -> None:
    """It reports a lag of zero until the first message has arrived."""
    async with jetstream_of("nats-server", tmp_path) as client:
        await fill(client, 50)
        js = client.nats.jetstream(timeout=60)

        async def copied(name: str) -> int:
            await js.add_stream(name=name, mirror=nats_mirror("ORDERS"))
            return (await client.catch_up(name, within=60)).messages

        assert set(await asyncio.gather(*(copied(f"COPY{n}") for n in range(10)))) == {50}


async def test_a_copy_that_nothing_copies_is_not_caught_up(tmp_path: Path) -> None:
    async with jetstream_of("engine", tmp_path) as client:
        await fill(client, 3)
        await seen(client)
        with pytest.raises(CatchUpError, match=r"COPY has not caught up after .*3 messages behind") as caught:
            await client.catch_up("COPY", within=0.3)
        assert caught.value.reasons == (f"ORDERS: 3 messages behind, {NO_REPLICATOR_YET}",)
        with pytest.raises(CatchUpError):
            await client.catch_up("COPY", within=0)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_origin_that_does_not_exist_is_never_caught_up_with(tmp_path: Path, kind: str) -> None:
    async with jetstream_of(kind, tmp_path) as client:
        await fill(client, 1)
        await client.nats.jetstream(timeout=60).delete_stream("ORDERS")
        with pytest.raises(CatchUpError):
            await client.catch_up("COPY", within=2)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_does_not_exist_is_an_error_of_headwater(tmp_path: Path, kind: str) -> None:
    async with jetstream_of(kind, tmp_path) as client:
        with pytest.raises(Error, match="stream not found"):
            await client.stream("NOPE")
        with pytest.raises(Error, match="stream not found"):
            await client.catch_up("NOPE")
        with pytest.raises(Error, match="cannot contain spaces"):
            await client.stream("a name")
        await fill(client, 0)
        with pytest.raises(Error, match="neither sources nor a mirror"):
            await client.catch_up("ORDERS")


async def test_a_server_without_jetstream_is_named(tmp_path: Path) -> None:
    async with nats_server() as server:
        async with connect(server.client_url) as client:
            with pytest.raises(
                UnreachableError, match=r"no responders on \$JS.API.STREAM.LIST: select a domain"
            ):
                await client.streams()


async def test_a_client_outlives_an_engine_that_goes_away_and_returns(tmp_path: Path) -> None:
    port = free_port()
    first = headwater.serve(tmp_path, port=port)
    await asyncio.to_thread(first.start)
    async with first.connect(timeout=1) as client:
        await client.nats.jetstream(timeout=60).add_stream(name="ORDERS", subjects=["orders"])
        await asyncio.to_thread(first.stop)
        with pytest.raises(Error):
            await client.stream("ORDERS")
        with pytest.raises(Error):
            await client.catch_up("ORDERS", within=60)
        async with headwater.serve(tmp_path, port=port):

            async def answers() -> bool:
                try:
                    return (await client.stream("ORDERS")).name == "ORDERS"
                except Error:
                    return False

            await until(answers, "the client is answered again")
