"""A backup contains the consumers: restored, they continue where they were."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.test_restore import CHUNK, restored
from doors import Asker, Door, Replies, Wanted, opened_door, opened_jetstream
from headwater.delivery.state import ConsumerState
from headwater.model.consumer import ConsumerConfig
from headwater.table.archive import VERSION, ArchivedConsumer, ArchiveReader, ArchiveWriter, Manifest

S = {"name": "S", "subjects": ["s.>"]}
PULL = {"durable_name": "pull", "ack_policy": "explicit", "ack_wait": 3_600_000_000_000, "max_deliver": 7}
DELIVERING = Wanted(leaf=True)


async def archived(ask: Asker, name: str = "S", **asked: Any) -> bytes:
    """Return the archive of a stream."""
    replies = ask.listen(f"deliver.{name}")
    await ask.ask(f"STREAM.SNAPSHOT.{name}", {"deliver_subject": f"deliver.{name}", **asked})
    content = b""
    while (frame := await replies.next())[3]:
        content += frame[3]
        if frame[1]:  # nats-server's last chunk need not be acknowledged
            ask.connection.publish(frame[1], b"")
    return content


async def create(ask: Asker, **config: Any) -> Any:
    name = config.get("durable_name") or config["name"]
    made = await ask.ask(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
    assert "error" not in made, made
    return made


async def pulled(ask: Asker, name: str, count: int) -> list[bytes]:
    """Return the ack subjects of messages that are pulled."""
    replies: Replies = ask.listen(f"pulled.{name}.{count}")
    ask.connection.publish(
        f"$JS.API.CONSUMER.MSG.NEXT.S.{name}".encode(),
        b'{"batch":%d}' % count,
        f"pulled.{name}.{count}".encode(),
    )
    return [(await replies.next())[1] for _ in range(count)]


def standing(info: Any) -> Any:
    """Return what must be the same after a restore."""
    kept = (
        "delivered",
        "ack_floor",
        "num_ack_pending",
        "num_redelivered",
        "num_pending",
        "created",
        "config",
    )
    return {key: info[key] for key in kept}


async def busy(ask: Asker) -> None:
    """Make a stream with consumers in the middle of their work."""
    await ask.ask("STREAM.CREATE.S", S)
    for number in range(10):
        await ask.publish(f"s.{number % 2}", b"%d" % number)
    await create(ask, **PULL)
    acks = await pulled(ask, "pull", 6)
    for ack in (acks[0], acks[1], acks[4]):
        await ask.connection.request(ack, b"+ACK", 60)
    ask.connection.publish(acks[2], b"-NAK")
    await pulled(ask, "pull", 1)
    await create(ask, durable_name="push", deliver_subject="nobody.listens", ack_policy="all")
    await create(
        ask, name="filtered", filter_subject="s.1", ack_policy="none", inactive_threshold=3_600_000_000_000
    )
    await create(ask, durable_name="memory", mem_storage=True, ack_policy="explicit")
    await pulled(ask, "memory", 2)


async def infos(ask: Asker, *names: str) -> list[Any]:
    return [standing(await ask.ask(f"CONSUMER.INFO.S.{name}")) for name in names]


async def test_restored_consumers_continue_where_they_were(tmp_path: Path) -> None:
    names = ("pull", "push", "filtered", "memory")
    async with opened_door(tmp_path, DELIVERING) as door:
        ask = door.asker
        await busy(ask)
        before = await infos(ask, *names)
        assert before[0]["num_ack_pending"] == 3
        assert before[0]["ack_floor"] == before[0]["ack_floor"] | {"consumer_seq": 2, "stream_seq": 2}
        assert before[0]["num_redelivered"] == 1
        content = await archived(ask)
        await ask.ask("STREAM.DELETE.S")
        answer = await restored(ask, S, content)
        assert answer["state"]["consumer_count"] == 4
        assert await infos(ask, *names) == before
        listed = await ask.ask("CONSUMER.NAMES.S")
        assert listed["consumers"] == sorted(names)
    async with opened_door(tmp_path, DELIVERING) as door:
        assert await infos(door.asker, *names[:3]) == before[:3], "what is durable is there"
        assert (await door.asker.ask("STREAM.INFO.S"))["state"]["consumer_count"] == 3, (
            "and what is not is gone"
        )
        first = (await pulled(door.asker, "pull", 1))[0]
        assert first.split(b".")[-4:-2] == [b"7", b"8"], "stream sequence 7 is the eighth delivery"


async def test_an_ack_of_a_message_delivered_before_the_backup_counts_after_the_restore(
    tmp_path: Path,
) -> None:
    async with opened_door(tmp_path, DELIVERING) as door:
        ask = door.asker
        await ask.ask("STREAM.CREATE.S", {**S, "retention": "workqueue"})
        for number in range(3):
            await ask.publish("s.1", b"%d" % number)
        await create(ask, **PULL)
        acks = await pulled(ask, "pull", 3)
        content = await archived(ask)
        await ask.ask("STREAM.DELETE.S")
        await restored(ask, {**S, "retention": "workqueue"}, content)
        for ack in acks:
            await ask.connection.request(ack, b"+ACK", 60)
        assert (await ask.ask("STREAM.INFO.S"))["state"]["messages"] == 0
        assert (await ask.ask("CONSUMER.INFO.S.pull"))["num_ack_pending"] == 0


async def test_a_backup_without_consumers_is_one_that_older_releases_read(ask: Asker) -> None:
    await ask.ask("STREAM.CREATE.S", S)
    await create(ask, **PULL)
    without = ArchiveReader(io.BytesIO(await archived(ask, no_consumers=True)))
    assert (without.manifest.version, list(without.parts()), without.consumers) == (1, [], [])
    content = await archived(ask, "S", chunk_size=CHUNK)
    assert ArchiveReader(io.BytesIO(content)).manifest.version == VERSION


def archive_of(*consumers: ArchivedConsumer) -> bytes:
    writer = ArchiveWriter()
    manifest = Manifest(
        version=VERSION,
        config=msgspec.Raw(b'{"name":"S"}'),
        created_ns=1,
        first_seq=1,
        last_seq=5,
        last_ts=5,
        messages=0,
    )
    return writer.begin(manifest) + b"".join(map(writer.consumer, consumers)) + writer.end()


def consumer(**changes: Any) -> ArchivedConsumer:
    config = {"durable_name": "c", "name": "c", "ack_policy": "explicit"} | changes.pop("config", {})
    state = ConsumerState(ConsumerConfig(name="c"), 1).dump()
    values: dict[str, Any] = {
        "name": "c",
        "config": msgspec.Raw(json.dumps(config).encode()),
        "created_ns": 5,
        "state": state,
    }
    return ArchivedConsumer(**(values | changes))


@pytest.mark.parametrize(
    ("consumers", "reason"),
    [
        ([consumer(state=b"nonsense")], "cannot decode"),
        ([consumer(state=ConsumerState(ConsumerConfig(name="c"), 1 << 63).dump())], "sequences"),
        ([consumer(name="other")], "name"),
        ([consumer(), consumer()], "name"),
        ([consumer(created_ns=-1)], "no creation time"),
        ([consumer(config={"direct": True})], "to the server"),
        ([consumer(config={"ack_policy": "nonsense"})], "consumer 'c'"),
        ([consumer(config={"filter_subject": "other.>", "filter_subjects": ["a"]})], "consumer 'c'"),
        ([consumer(config={"max_waiting": -5, "deliver_subject": "s.1"})], "consumer 'c'"),
    ],
)
async def test_consumers_that_could_not_have_been_declared_are_refused_and_nothing_is_left(
    door: Door, consumers: list[ArchivedConsumer], reason: str
) -> None:
    answer = await restored(door.asker, S, archive_of(*consumers))
    assert answer["error"]["err_code"] == 10062
    assert reason in answer["error"]["description"]
    assert (await door.asker.ask("STREAM.NAMES"))["streams"] is None
    whole = await restored(door.asker, S, archive_of(consumer()))
    assert whole["state"]["consumer_count"] == 1


async def test_a_restore_that_cannot_enter_its_consumers_leaves_no_stream(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*given: object) -> None:
        await asyncio.sleep(0)
        raise OSError(28, "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(door.consumers, "declare_restored", fail)
        answer = await restored(door.asker, S, archive_of(consumer()))
    assert "the disk is full" in answer["error"]["description"]
    assert (await door.asker.ask("STREAM.NAMES"))["streams"] is None
    assert (await door.asker.ask("STREAM.CREATE.S", S))["state"]["consumer_count"] == 0


async def test_an_archive_of_one_server_is_refused_by_the_other(ask: Asker) -> None:
    async with opened_jetstream() as theirs:
        for server in (ask, theirs):
            await server.ask("STREAM.CREATE.S", S)
            await server.publish("s.1", b"one")
            await create(server, **PULL)
        archives = [await archived(server) for server in (ask, theirs)]
        for server in (ask, theirs):
            await server.ask("STREAM.DELETE.S")
        to_theirs = await restored(theirs, S, archives[0])
        assert to_theirs["error"]["err_code"] == 10062
        to_ours = await restored(ask, S, archives[1])
        assert "archive of nats-server" in to_ours["error"]["description"]
        for server, archive in zip((ask, theirs), archives, strict=True):
            back = await restored(server, S, archive)
            assert (back["state"]["messages"], back["state"]["consumer_count"]) == (1, 1)
