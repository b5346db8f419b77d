"""INFO shows the leader, and for a stream or consumer with replicas the servers that keep its copies."""

from __future__ import annotations

from pathlib import Path

from doors import Wanted, opened_door
from headwater.control.account import AccountLimits
from headwater.journal.head_journal import JournalPeer

PEERS = (JournalPeer("n1", True, False, 200, 0), JournalPeer("n2", False, True, 9_000, 7))
SHOWN = [
    {"name": "n1", "current": True, "active": 200},
    {"name": "n2", "current": False, "active": 9_000, "offline": True, "lag": 7},
]
THREE = Wanted(limits=AccountLimits(max_replicas=3), peers=PEERS, domain_name="lake")
S = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}


async def test_streams_and_consumers_with_replicas_show_the_leader_and_the_lag_of_its_peers(
    tmp_path: Path,
) -> None:
    async with opened_door(tmp_path, THREE) as door:
        ask = door.asker.ask
        await ask("STREAM.CREATE.S", S)
        expected = {"name": "lake", "leader": "probe", "replicas": SHOWN}
        assert (await ask("STREAM.INFO.S"))["cluster"] == expected
        for replicas, name in ((0, "as-the-stream"), (3, "three"), (2, "two")):
            config = {"name": name, "durable_name": name, "ack_policy": "explicit", "num_replicas": replicas}
            created = await ask(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
            assert created["cluster"] == expected
            assert (await ask(f"CONSUMER.INFO.S.{name}"))["cluster"] == expected
        listed = (await ask("CONSUMER.LIST.S"))["consumers"]
        assert [each["cluster"] for each in listed] == [expected] * 3


async def test_without_replicas_no_peer_is_shown(tmp_path: Path) -> None:
    async with opened_door(tmp_path, THREE) as door:
        ask = door.asker.ask
        await ask("STREAM.CREATE.S", {**S, "num_replicas": 1})
        assert (await ask("STREAM.INFO.S"))["cluster"] == {"leader": "probe"}
        config = {"name": "c", "durable_name": "c", "ack_policy": "explicit"}
        assert "cluster" not in await ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})


async def test_a_consumer_has_no_more_replicas_than_its_stream_or_the_journal(tmp_path: Path) -> None:
    async with opened_door(tmp_path, THREE) as door:
        ask = door.asker.ask
        await ask("STREAM.CREATE.S", {**S, "num_replicas": 2})
        config = {"name": "c", "durable_name": "c", "ack_policy": "explicit"}
        for replicas, code in ((3, 10126), (4, 10074)):
            body = {"stream_name": "S", "config": {**config, "num_replicas": replicas}}
            assert (await ask("CONSUMER.CREATE.S.c", body))["error"]["err_code"] == code
