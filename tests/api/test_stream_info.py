"""A stream's info has the parts that the request calls for."""

from __future__ import annotations

import errno
from pathlib import Path

from doors import PROGRESS, Asker, Wanted, opened_door
from headwater.errors import DiskError

S = {"name": "S", "subjects": ["s.>"], "metadata": {"b": "1", "a": "2"}}


async def test_versions_are_shown_beside_the_stored_metadata_but_not_in_lists(ask: Asker) -> None:
    created = (await ask.ask("STREAM.CREATE.S", S))["config"]["metadata"]
    assert list(created) == ["_nats.level", "_nats.req.level", "_nats.ver", "a", "b"]
    assert (created["_nats.level"], created["_nats.ver"]) == ("5", "2.15.1")
    listed = (await ask.ask("STREAM.LIST"))["streams"][0]["config"]["metadata"]
    assert list(listed) == ["_nats.req.level", "a", "b"]


async def test_versions_sent_back_by_a_client_are_not_stored(ask: Asker) -> None:
    created = (await ask.ask("STREAM.CREATE.S", S))["config"]
    assert "did_create" in await ask.ask("STREAM.CREATE.S", created)
    updated = await ask.ask("STREAM.UPDATE.S", {**created, "description": "x"})
    assert updated["config"]["metadata"] == created["metadata"]
    listed = (await ask.ask("STREAM.LIST"))["streams"][0]["config"]["metadata"]
    assert list(listed) == ["_nats.req.level", "a", "b"]


async def test_only_info_names_the_leader(ask: Asker) -> None:
    assert "cluster" not in await ask.ask("STREAM.CREATE.S", S)
    assert (await ask.ask("STREAM.INFO.S"))["cluster"] == {"leader": "probe"}
    assert "cluster" not in (await ask.ask("STREAM.LIST"))["streams"][0]


async def test_a_cluster_names_the_leader_everywhere(tmp_path: Path) -> None:
    async with opened_door(tmp_path, Wanted(cluster_name="hub")) as door:
        shown = {"name": "hub", "leader": "probe"}
        assert (await door.asker.ask("STREAM.CREATE.S", S))["cluster"] == shown
        assert (await door.asker.ask("STREAM.LIST"))["streams"][0]["cluster"] == shown


async def test_the_progress_of_upstreams_is_shown_only_on_request(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    await ask.ask("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}})
    await ask.ask("STREAM.CREATE.T", {"name": "T", "sources": [{"name": "S"}]})
    other = b"NATS/1.0\r\nOther: 1\r\n\r\n"
    known = {"name", "lag", "seq", "active", "error"}
    for headers, shows in ((other, False), (PROGRESS, True)):
        mirror = (await ask.ask("STREAM.INFO.M", headers=headers))["mirror"]
        (source,) = (await ask.ask("STREAM.INFO.T", headers=headers))["sources"]
        listed = (await ask.ask("STREAM.LIST", headers=headers))["streams"]
        upstreams = [mirror, source, listed[0]["mirror"], listed[2]["sources"][0]]
        assert ["headwater" in upstream for upstream in upstreams] == [shows] * 4
        assert all(set(upstream) - {"headwater"} <= known for upstream in upstreams)


async def test_why_nothing_can_be_stored_is_shown_on_request(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        await door.asker.ask("STREAM.CREATE.S", S)
        assert "headwater" not in await door.asker.ask("STREAM.INFO.S", headers=PROGRESS)
        door.domain.stream("S").folder.failure = DiskError(tmp_path, "write", errno.ENOSPC)
        shown = await door.asker.ask("STREAM.INFO.S", headers=PROGRESS)
        assert "the disk is full" in shown["headwater"]["error"]
        other = b"NATS/1.0\r\nOther: 1\r\n\r\n"
        assert "headwater" not in await door.asker.ask("STREAM.INFO.S", headers=other)


async def test_a_list_follows_every_change_of_a_stream(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    requests = (
        ("STREAM.PURGE.S", None),
        (
            "CONSUMER.DURABLE.CREATE.S.C",
            {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}},
        ),
        ("STREAM.UPDATE.S", {**S, "max_msgs": 5}),
        ("STREAM.MSG.DELETE.S", {"seq": 2}),
    )
    for subject, body in requests:
        for _ in range(3):
            await ask.publish("s.a", b"x")
        await ask.ask(subject, body)
        listed = (await ask.ask("STREAM.LIST"))["streams"][0]
        shown = await ask.ask("STREAM.INFO.S")
        assert listed["state"] == shown["state"]
        assert listed["config"]["max_msgs"] == shown["config"]["max_msgs"]
        assert listed.keys() == shown.keys() - {"cluster", "type", "total", "offset", "limit"}
