"""A source is stored slice by slice, each once, and continues where it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from doors import Asker, Door, connected, opened_door
from headwater.errors import SettingsError
from headwater.replication.work import NatsOrigin
from headwater.spark.backfill import Backfill, BackfillSource, MessageShape
from headwater.spark.bulk_client import SinkError, bulk_client
from servers import nats_server


def table(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"subject": [f"b.{n % 3}" for n in numbers], "data": [str(n) for n in numbers]})


def folder(path: Path) -> Path:
    """Return a folder with 25 rows in three files."""
    path.mkdir()
    for start, count in ((0, 10), (10, 4), (14, 11)):
        pq.write_table(table(start, count), path / f"part-{start:03d}.parquet", row_group_size=3)
    return path


async def declared(door: Door, **config: object) -> None:
    answer = await door.asker.ask("STREAM.CREATE.B", {"name": "B", "subjects": ["b.>"], **config})
    assert "error" not in answer


async def stored(door: Door) -> list[tuple[str, str]]:
    stream = door.domain.find("B")
    assert stream is not None
    return [(m.subject.decode(), m.data.decode()) async for many in stream.reading.scan(1) for m in many]


async def run(url: str, source: BackfillSource, use: Callable[[Backfill], object], name: str = "") -> object:
    def work() -> object:
        with bulk_client(NatsOrigin(servers=(url,), api_prefix="$JS.API", stream="B")) as client:
            return use(Backfill(source, client, slice_rows=4, name=name))

    return await asyncio.to_thread(work)


async def test_an_interrupted_backfill_continues(tmp_path: Path) -> None:
    source = BackfillSource(str(folder(tmp_path / "source")), MessageShape())
    assert source.rows == 25

    def interrupted(backfill: Backfill) -> None:
        def stop(rows: int) -> None:
            slices.append(rows)
            if len(slices) == 3:
                raise KeyboardInterrupt

        slices: list[int] = []
        with pytest.raises(KeyboardInterrupt):
            backfill.run(stop)
        assert slices == [4, 4, 4]

    async with opened_door(tmp_path / "store") as door:
        await declared(door)
        await run(door.client_url, source, interrupted)
        assert await run(door.client_url, source, lambda backfill: (backfill.done, backfill.run())) == (
            12,
            13,
        )
        expected = [(f"b.{n % 3}", str(n)) for n in range(25)]
        assert await stored(door) == expected
        again = await run(door.client_url, source, lambda backfill: (backfill.done, backfill.run()))
        assert again == (25, 0)
        assert await run(door.client_url, source, lambda backfill: backfill.run(), "once-more") == 25
        assert await stored(door) == [*expected, *expected]
        with pytest.raises(SettingsError, match="the name of a backfill"):
            await run(door.client_url, source, lambda backfill: backfill.run(), "a b")


async def test_a_delta_table_becomes_json_under_a_template(tmp_path: Path) -> None:
    rows = pa.table({"region": ["eu", "us"], "amount": [1, 2]})
    write_deltalake(tmp_path / "delta", rows, partition_by=["region"])
    source = BackfillSource(str(tmp_path / "delta"), MessageShape(subject="b.{region}.x{amount}"))
    async with opened_door(tmp_path / "store") as door:
        await declared(door, max_msgs_per_subject=5)
        assert await run(door.client_url, source, lambda backfill: backfill.run()) == 2
        found = [(subject, json.loads(data)) for subject, data in await stored(door)]
        assert found == [
            ("b.eu.x1", {"region": "eu", "amount": 1}),
            ("b.us.x2", {"region": "us", "amount": 2}),
        ]


async def test_a_fixed_subject_and_a_column_of_payload(tmp_path: Path) -> None:
    pq.write_table(pa.table({"payload": [b"1", b"2"], "more": [1, 2]}), tmp_path / "one.parquet")
    source = BackfillSource(str(tmp_path / "one.parquet"), MessageShape("b.all", "payload"))
    async with opened_door(tmp_path / "store") as door:
        await declared(door)
        assert await run(door.client_url, source, lambda backfill: backfill.run()) == 2
        assert await stored(door) == [("b.all", "1"), ("b.all", "2")]


async def test_a_plain_nats_server_is_refused(tmp_path: Path) -> None:
    source = BackfillSource(str(folder(tmp_path / "source")), MessageShape())
    async with nats_server("", jetstream=True) as server:
        client = await connected(server.client_url)
        await Asker(client).ask("STREAM.CREATE.B", {"name": "B", "subjects": ["b.>"], "storage": "memory"})
        await client.close()
        with pytest.raises(SinkError, match="takes no bulk writes"):
            await run(server.client_url, source, lambda backfill: backfill.run())


def test_another_source_has_another_identity(tmp_path: Path) -> None:
    path = folder(tmp_path / "source")
    source = BackfillSource(str(path), MessageShape())
    same = BackfillSource(str(path), MessageShape())
    assert source.identity(4) == same.identity(4) != source.identity(5)
    assert BackfillSource(str(path), MessageShape("b.x")).identity(4) != source.identity(4)
    pq.write_table(table(25, 1), path / "part-025.parquet")
    assert BackfillSource(str(path), MessageShape()).identity(4) != source.identity(4)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not exist"):
        BackfillSource(str(tmp_path / "none"), MessageShape())
    (tmp_path / "x.parquet").write_bytes(b"no parquet")
    with pytest.raises(SettingsError, match="cannot read"):
        BackfillSource(str(tmp_path / "x.parquet"), MessageShape())
    path = folder(tmp_path / "source")
    with pytest.raises(SettingsError, match="no column 'key'; it has subject, data"):
        BackfillSource(str(path), MessageShape("b.{key}"))
