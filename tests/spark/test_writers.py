"""What tasks and the driver do for a write, without Spark around them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from doors import Door, opened_door
from headwater.errors import SettingsError
from headwater.spark import writers as module
from headwater.spark.data_source import StreamDataSource
from headwater.spark.writers import BATCH_ID, QUERY_ID, BatchesWriter, BatchWriter, PartWritten

SCHEMA = StructType([StructField("subject", StringType()), StructField("data", BinaryType())])


class Task:
    """A task of Spark, as far as a writer asks it."""

    def __init__(self, partition: int, **properties: str) -> None:
        self._partition = partition
        self._properties = properties

    def get(self) -> Task:
        return self

    def partitionId(self) -> int:
        return self._partition

    def getLocalProperty(self, name: str) -> str | None:
        return self._properties.get(name)


def batch(*texts: str) -> pa.RecordBatch:
    return pa.record_batch({"subject": ["w"] * len(texts), "data": [text.encode() for text in texts]})


def source(door: Door, **options: str) -> StreamDataSource:
    return StreamDataSource({"stream": "W", "server": door.client_url, **options})


async def declared(door: Door) -> None:
    answer = await door.asker.ask("STREAM.CREATE.W", {"name": "W", "subjects": ["w"]})
    assert "error" not in answer


async def datas(door: Door) -> list[str]:
    stream = door.domain.find("W")
    assert stream is not None
    return [m.data.decode() async for many in stream.reading.scan(1) for m in many]


async def test_parts_of_successful_attempts_are_stored_in_the_order_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_door(tmp_path) as door:
        await declared(door)

        def job() -> None:
            writer = source(door).writer(SCHEMA, False)
            assert isinstance(writer, BatchWriter)
            messages: list[Any] = []
            for partition, texts in ((1, ("c", "d")), (0, ("a", "b")), (2, ())):
                monkeypatch.setattr(module, "TaskContext", Task(partition))
                writer.write(iter([batch("lost attempt")]))
                messages.append(writer.write(iter([batch(*texts)] if texts else [])))
            writer.commit([*messages, None])
            writer.commit(messages)

        await asyncio.to_thread(job)
        assert await datas(door) == ["a", "b", "c", "d"]


async def test_a_batch_of_a_query_is_stored_once_by_any_run_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_door(tmp_path) as door:
        await declared(door)

        def run(batch_id: int, *texts: str) -> None:
            writer = source(door, checkpointLocation="/x").streamWriter(SCHEMA, False)
            assert isinstance(writer, BatchesWriter)
            task = Task(0, **{QUERY_ID: "the-query", BATCH_ID: str(batch_id)})
            monkeypatch.setattr(module, "TaskContext", task)
            written = writer.write(iter([batch(*texts)]))
            assert written == PartWritten(written.part, len(texts), "the-query")
            writer.commit([written], batch_id)

        for batch_id, text in ((0, "a"), (0, "a"), (1, "b"), (0, "a"), (1, "b")):
            await asyncio.to_thread(run, batch_id, text)
        assert await datas(door) == ["a", "b"]


async def test_an_aborted_write_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened_door(tmp_path) as door:
        await declared(door)

        def job() -> None:
            monkeypatch.setattr(module, "TaskContext", Task(0, **{QUERY_ID: "q", BATCH_ID: "3"}))
            once = source(door).writer(SCHEMA, False)
            once.abort([once.write(iter([batch("a")]))])
            each = source(door).streamWriter(SCHEMA, False)
            each.abort([each.write(iter([batch("a")]))], 3)
            each.commit([], 4)

        await asyncio.to_thread(job)
        assert await datas(door) == []
        assert not list((tmp_path / "$G" / "W" / "staging").iterdir())


def test_a_task_must_know_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TaskContext", Task(0))
    with pytest.raises(SettingsError, match="gives the tasks of the query no"):
        module._property(QUERY_ID)
