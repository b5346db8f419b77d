"""A client writes parts in chunks and commits them, and repeats a commit until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from doors import Door, opened_door
from headwater.replication.work import NatsOrigin
from headwater.spark import bulk_client as module
from headwater.spark.bulk_client import BulkClient, SinkError, bulk_client
from headwater.spark.message_rows import MessageRows
from headwater.wire.bulk_rows import BulkRows


def chunks(count: int, most_bytes: int = 1 << 20, size: int = 1) -> list[BulkRows]:
    batch = pa.record_batch({"subject": ["w"] * count, "data": [f"{n:0{size}d}" for n in range(count)]})
    return list(MessageRows(batch).chunks(most_bytes))


async def using(door: Door, work: Callable[[BulkClient], object], stream: str = "W") -> object:
    """Return what blocking work with a client returns."""

    def run() -> object:
        origin = NatsOrigin(servers=(door.client_url,), api_prefix="$JS.API", stream=stream)
        with bulk_client(origin) as client:
            return work(client)

    return await asyncio.to_thread(run)


async def declared(door: Door, **config: object) -> None:
    answer = await door.asker.ask("STREAM.CREATE.W", {"name": "W", "subjects": ["w"], **config})
    assert "error" not in answer


async def datas(door: Door) -> list[bytes]:
    stream = door.domain.find("W")
    assert stream is not None
    return [m.data async for many in stream.reading.scan(1) for m in many]


async def test_many_chunks_of_two_parts_are_committed_once(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        await declared(door)

        def write(client: BulkClient) -> tuple[bool, bool]:
            assert 900_000 < client.chunk_bytes <= module.CHUNK_BYTES
            names = []
            for name in ("a", "b"):
                part = client.part("w", name)
                for rows in chunks(500, most_bytes=400):
                    part.append(rows)
                assert part.finish() == 500
                names.append(part.name)
            first = client.commit("w", "q", 0, names, 1000)
            return first, client.commit("w", "q", 0, names, 1000)

        assert await using(door, write) == (True, False)
        assert await datas(door) == [b"%d" % n for n in range(500)] * 2


async def test_a_refusal_says_why(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        await declared(door, max_msg_size=3)

        def write(client: BulkClient) -> None:
            part = client.part("w", "a")
            part.append(chunks(1, size=4)[0])
            part.finish()
            client.commit("w", "q", 0, ["a"], 1)

        with pytest.raises(SinkError, match="message size exceeds maximum allowed"):
            await using(door, write)

        def too_large(client: BulkClient) -> None:
            part = client.part("w", "a")
            part.append(chunks(1, size=2 << 20)[0])
            part.finish()

        with pytest.raises(SinkError, match="does not fit into a request"):
            await using(door, too_large)
        await using(door, lambda client: client.abort("w"))
        assert await datas(door) == []


async def test_a_commit_without_an_answer_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.01)
    async with opened_door(tmp_path) as door:
        await declared(door)
        lost = [1]
        send = door.api._writes._send

        def losing(reply: bytes, members: dict[str, object]) -> None:
            if "duplicate" in members and lost:
                lost.pop()
                monkeypatch.setattr(module, "TRY_S", 10.0)
                return
            send(reply, members)

        monkeypatch.setattr(door.api._writes, "_send", losing)
        monkeypatch.setattr(module, "TRY_S", 1.0)

        def write(client: BulkClient) -> bool:
            part = client.part("w", "a")
            part.append(chunks(3)[0])
            part.finish()
            return client.commit("w", "q", 0, ["a"], 3)

        assert await using(door, write) is False, "the second answer says that it was there"
        assert not lost
        assert await datas(door) == [b"0", b"1", b"2"]
