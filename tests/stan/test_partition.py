"""Tests of stan.partition."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doors import connected
from engines import RunningEngine, engine
from headwater.errors import SettingsError
from headwater.stan import refusals
from headwater.stan.partition import Partition, decode_names, encode_names, overlap
from headwater.wire.stan_messages import MalformedError
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
