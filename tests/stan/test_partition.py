"""Tests of stan.partition."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cables import Cable
from doors import connected
from engines import RunningEngine, engine
from headwater.errors import SettingsError
from headwater.stan import refusals
from headwater.stan.partition import SERVING, Partition, decode_names, encode_names, gives_way, overlap
from headwater.stan.records import Records
from headwater.wire.stan_messages import PARTITIONING, CtrlMsg, MalformedError
from servers import nats_server
from stan_door import CLUSTER, StanClient

names = st.lists(st.text(max_size=30), max_size=30)


@given(names, st.integers(1, 100))
def test_names_read_back_from_any_number_of_pieces(listed: list[str], at_most: int) -> None:
    pieces = encode_names(listed, at_most)
    assert [name for piece in pieces for name in decode_names(piece)] == listed
    assert all(len(piece) <= at_most or len(decode_names(piece)) == 1 for piece in pieces)


@pytest.mark.parametrize("data", [b"\x05", b"\x05\x00abc", b"\x01\x00\xff"])
def test_a_piece_that_is_cut_off_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_names(data)


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        (["foo"], ["bar"], ""),
        (["foo"], ["bar", "foo"], "foo"),
        (["foo.*"], ["foo.bar"], "foo.*"),
        (["foo.bar"], ["foo.>"], "foo.bar"),
        (["a.*.c"], ["a.b.*"], "a.*.c"),
    ],
)
def test_patterns_overlap_where_a_channel_fits_both(ours: list[str], theirs: list[str], found: str) -> None:
    assert overlap(ours, theirs) == found


async def test_an_engine_refuses_channels_that_another_one_serves() -> None:
    async with nats_server() as server:
        connections = [await connected(server.client_url) for _ in range(3)]
        first, second, third = (
            Partition(connection, "_STAN.part.c", f"server{n}", patterns, 60.0 if n == 2 else 0.2)
            for n, (connection, patterns) in enumerate(
                zip(connections, (["foo.*"], ["bar", "foo"], ["baz", "foo.bar"]), strict=True)
            )
        )
        await first.claim()
        await second.claim()
        with pytest.raises(SettingsError, match=r"serves channel foo\.\*"):
            await third.claim()
        assert (first.serves("foo.x"), first.serves("foo"), second.serves("foo")) == (True, False, True)
        for connection in connections:
            await connection.close()


@pytest.mark.parametrize(
    ("ours", "serves", "theirs", "state", "goes"),
    [
        ("a", False, "b", "serving", True),
        ("b", True, "a", "claiming", False),
        ("a", True, "b", "serving", False),
        ("b", True, "a", "serving", True),
        ("b", False, "a", "claiming", True),
        ("a", True, "b", "", True),
    ],
)
def test_of_two_engines_with_one_channel_one_goes(
    ours: str, serves: bool, theirs: str, state: str, goes: bool
) -> None:
    assert gives_way(ours, serves, theirs, state) == goes
    if state:
        assert gives_way(theirs, state == "serving", ours, "serving" if serves else "claiming") != goes


async def test_of_engines_that_start_at_once_one_stays() -> None:
    async with nats_server() as server:
        connections = [await connected(server.client_url) for _ in range(3)]
        partitions = [
            Partition(connection, "_STAN.part.c", f"server{n}", ["foo"], 60.0 if n else 1.0)
            for n, connection in enumerate(connections)
        ]
        ends = await asyncio.gather(*(one.claim() for one in partitions), return_exceptions=True)
        assert ends[0] is None
        assert all(isinstance(end, SettingsError) for end in ends[1:])
        for connection in connections:
            await connection.close()


async def test_of_two_engines_that_discover_each_other_one_exits() -> None:
    async with nats_server(leaf=True) as hub, AsyncExitStack() as stack:
        cable = Cable(int(hub.leaf_url.rpartition(":")[2]))
        stack.push_async_callback(cable.cut)
        await cable.restore()
        await cable.cut()
        remote = f'leafnodes {{ reconnect: 1, remotes: [{{ url: "nats://127.0.0.1:{cable.port}" }}] }}'
        spoke = await stack.enter_async_context(nats_server(remote))
        connections = [await connected(url) for url in (hub.client_url, spoke.client_url)]
        stays, goes = (
            Partition(connection, "_STAN.part.c", f"server{n}", ["foo", f"own{n}"], 0.2, again_s=0.05)
            for n, connection in enumerate(connections)
        )
        await asyncio.gather(stays.claim(), goes.claim())
        kept = asyncio.create_task(stays.keep())
        await cable.restore()
        with pytest.raises(SettingsError, match="another engine serves channel foo"):
            await asyncio.wait_for(goes.keep(), 60)
        assert not kept.done()
        kept.cancel()
        for connection in connections:
            await connection.close()


async def test_an_engine_that_must_go_ends_in_order(tmp_path: Path) -> None:
    channels = tmp_path / "channels.toml"
    channels.write_text("[foo]\n")
    async with nats_server() as server:
        options = ("--nats", server.client_url, "--domain", "d", "--stan", CLUSTER)
        shared = ("--stan-partitioning", "true", "--stan-channels", str(channels))
        async with engine(tmp_path / "engine", *options, *shared) as running:
            other = await connected(server.client_url)
            # An engine with the smallest id there is, which has served all the while.
            claim = CtrlMsg(
                MsgType=PARTITIONING, ServerID="", Data=encode_names(["foo"], 100)[0], RefID=SERVING
            )
            other.publish(f"_STAN.part.{CLUSTER}".encode(), claim.SerializeToString())
            await other.flush()
            assert await running.ended() != 0
            assert "another engine serves channel foo" in running.log
            kept = Records(next(running.store.glob("stan.*.db")))
            assert kept.server()["stopped"] == "yes"
            kept.close()
            await other.close()


async def test_engines_share_the_channels_of_a_cluster_id(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.toml" for name in ("left", "right")}
    for name, file in files.items():
        file.write_text(f'["{name}.>"]\n')
    async with nats_server() as server, AsyncExitStack() as stack:
        for name, file in files.items():
            options = ("--nats", server.client_url, "--domain", name, "--stan", CLUSTER)
            shared = ("--stan-partitioning", "true", "--stan-channels", str(file))
            await stack.enter_async_context(engine(tmp_path / name, *options, *shared))
        client = StanClient(await connected(server.client_url))
        await client.connect()
        heard = [await client.subscribe(channel) for channel in ("left.a", "right.a")]
        for channel in ("left.a", "right.a"):
            answer = await client.publish(channel, channel.encode(), to=f"_STAN.pub.{CLUSTER}.{channel}")
            assert answer.error == ""
        for one, channel in zip(heard, ("left.a", "right.a"), strict=True):
            assert (await one.got(1)).datas == [channel.encode()]
            assert (await client.close_subscription(one)).error == ""
        stranger = StanClient(client.connection, "stranger")
        _, answer = await stranger.try_subscribe("left.a")
        assert answer.error == refusals.INVALID_SUBSCRIBE
        patient = ("--stan-partition-wait-s", "60")
        third = RunningEngine(tmp_path / "third", (*options[:3], "third", *options[4:], *shared, *patient))
        third.directory.mkdir()
        third.launch()
        assert await third.ended() != 0
        assert "another engine serves channel right.>" in third.log
        await client.connection.close()
