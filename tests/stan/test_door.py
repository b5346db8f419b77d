"""Tests of stan.door."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from doors import Wanted, opened_door
from headwater import bounded
from headwater.control.summed_tables import Op
from headwater.errors import SettingsError
from headwater.stan.channels import Channels
from headwater.stan.records import Records
from headwater.wire.stan_messages import FIRST
from stan_door import CLUSTER, stan_on
from waits import until


async def test_a_second_server_of_the_cluster_id_does_not_start(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door, stan_on(door) as server:
        with pytest.raises(SettingsError, match="another streaming server with cluster id 'test-cluster'"):
            async with stan_on(door):
                pass
        await until(lambda: len(server.stan.clients) == 0)


async def test_a_store_of_another_cluster_id_is_refused(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door):
            pass
        with pytest.raises(SettingsError, match=f"under cluster id '{CLUSTER}', not 'other'"):
            async with stan_on(door, stan="other"):
                pass


async def test_clients_and_durables_are_known_after_a_restart(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            client = await server.client()
            heard = await client.subscribe("foo", durableName="dur", startPosition=FIRST)
            await client.publish_all("foo", [b"x"] * 5)
            await heard.got(5)
            await client.close_subscription(heard)
            first_id = server.stan.server_id
        async with stan_on(door) as server:
            assert server.stan.server_id == first_id
            assert (await client.ping()).error == ""
            await client.publish("foo", b"y")
            again = await client.subscribe("foo", durableName="dur", startPosition=FIRST)
            assert (await again.got(1)).seqs == [6]


async def test_a_client_that_died_while_we_were_away_is_replaced(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            client = await server.client()
            await client.subscribe("foo")
            await client.die()
        async with stan_on(door) as server:
            await server.client()
            assert len(server.stan.subscriptions) == 0


async def test_a_channel_that_hangs_does_not_keep_the_door_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(channels: Channels) -> None:
        await asyncio.Event().wait()

    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            client = await server.client()
            await client.publish_all("foo", [b"x"] * 2)
            monkeypatch.setattr(bounded, "CLOSE_WITHIN_S", 0.1)
            monkeypatch.setattr(Channels, "close", never)
        assert "closing NATS Streaming channels did not end in time" in caplog.text
        monkeypatch.undo()
        async with stan_on(door):
            pass  # what was not stopped in time is served again


async def test_records_that_hang_do_not_keep_the_door_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    write = Records.write

    def hangs(kept: Records, ops: Iterable[Op]) -> None:
        release.wait()
        write(kept, ops)

    async with opened_door(tmp_path, Wanted(leaf=True)) as door:
        async with stan_on(door) as server:
            await server.client()
            monkeypatch.setattr(bounded, "CLOSE_WITHIN_S", 0.1)
            monkeypatch.setattr(Records, "write", hangs)
        assert "recording NATS Streaming subscriptions did not end in time" in caplog.text
        release.set()
