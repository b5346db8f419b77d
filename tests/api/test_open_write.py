"""The parts of an open write take their chunks in order, and leave nothing when it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bulk import rows_of
from doors import services
from headwater.api.open_write import OpenWrite
from headwater.api.staged_load import NOTHING, StagedLoad
from headwater.model.stream import StreamConfig
from headwater.stream.bulk.staged_part import BulkRefusedError
from headwater.stream.stream import Stream
from headwater.wire.bulk_requests import VERSION, PartChunk

CONFIG = StreamConfig(name="T", subjects=("t",))


def chunk(index: int, *, last: bool = False, part: str = "p") -> PartChunk:
    return PartChunk(VERSION, "w", part, index, last, rows_of([("t", b"%d" % index)]).encode())


async def test_chunks_that_arrive_together_are_written_in_their_order(tmp_path: Path) -> None:
    async with services(tmp_path) as shared:
        stream = await Stream.open(tmp_path / "T", CONFIG, created_ns=1, services=shared)
        write = OpenWrite(stream, 0, StagedLoad())
        await asyncio.gather(*(write.take(chunk(index, last=index == 9)) for index in range(10)))
        assert await stream.bulk.commit("q", 0, write.files(["p"])) == 10
        found = [m.data async for many in stream.reading.scan(1) for m in many]
        assert found == [b"%d" % index for index in range(10)]
        await write.close()
        await stream.close()


async def test_a_part_that_failed_takes_no_more_and_others_do(tmp_path: Path) -> None:
    async with services(tmp_path) as shared:
        stream = await Stream.open(tmp_path / "T", CONFIG, created_ns=1, services=shared)
        write = OpenWrite(stream, 0, StagedLoad())
        with pytest.raises(BulkRefusedError, match="does not have the subject"):
            await write.take(PartChunk(VERSION, "w", "p", 0, False, rows_of([("u", b"")]).encode()))
        with pytest.raises(BulkRefusedError, match="does not have the subject"):
            await write.take(chunk(0))
        await write.take(chunk(0, last=True, part="other"))
        assert write.nbytes == len("t0")
        with pytest.raises(BulkRefusedError, match="does not have part"):
            write.files(["other", "p"])
        with pytest.raises(BulkRefusedError, match="is not the next one"):
            await write.take(chunk(1, part="other"))
        await write.close()
        assert not list((tmp_path / "T" / "staging").iterdir())
        await stream.close()


async def test_an_account_counts_what_its_parts_take(tmp_path: Path) -> None:
    async with services(tmp_path) as shared:
        stream = await Stream.open(tmp_path / "T", CONFIG, created_ns=1, services=shared)
        load = StagedLoad()
        writes = [OpenWrite(stream, 0, load) for _ in range(2)]
        await writes[0].take(chunk(0, last=True))
        await writes[1].take(chunk(0))
        await writes[1].take(chunk(1))
        assert load.total[:3] == (2, 1, 2)
        assert load.total.held_bytes > 0
        with pytest.raises(BulkRefusedError):
            await writes[1].take(chunk(7))
        await writes[1].take(chunk(2, last=True))
        assert load.total == (2, 0, 2, 0)
        for write in writes:
            await write.close()
        assert load.total == NOTHING
        await stream.close()
