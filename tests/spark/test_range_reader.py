"""Ranges become Arrow batches: of real files, and of a JetStream of either kind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from headwater.errors import CorruptionError
from headwater.model.message import Message
from headwater.objects.address import BucketAddress
from headwater.replication.work import NatsOrigin
from headwater.spark.columns import COLUMNS
from headwater.spark.range_reader import GoneError, read_batches
from headwater.spark.read_range import ReadRange
from headwater.table.datafile import DataFile
from headwater.table.stored_bytes import ObjectBytes
from replication.origins import KINDS, site_of
from spark.files import file_of
from table.samples import message

ALL = COLUMNS.names


def rows_of(part: ReadRange, names: list[str], origin: NatsOrigin | None = None) -> list[dict[str, Any]]:
    """Return a range's rows."""
    return [row for batch in read_batches(part, origin, names) for row in batch.to_pylist()]


def range_of(file: DataFile, **fields: Any) -> ReadRange:
    """Return a whole file as a range."""
    return ReadRange(**{"first_seq": file.first_seq, "last_seq": file.last_seq, "file": file, **fields})


def test_a_file_is_read_with_sequences_counted_from_its_base(tmp_path: Path) -> None:
    file = file_of(tmp_path, [message(seq) for seq in range(1, 6)])
    moved = file.at(100, file.path)
    assert [row["seq"] for row in rows_of(range_of(moved), ["seq"])] == [101, 102, 103, 104, 105]


def test_removed_rows_and_those_outside_the_range_are_left_out(tmp_path: Path) -> None:
    file = file_of(tmp_path, [message(seq) for seq in range(1, 40_001)])
    part = range_of(file, first_seq=16_383, last_seq=16_387, removed=BitMap64([16_384]).serialize())
    assert [row["seq"] for row in rows_of(part, ["seq"])] == [16_383, 16_385, 16_386, 16_387]


def test_a_file_in_a_bucket_is_read_by_requests_for_the_wanted_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, [message(seq) for seq in range(1, 40_001)])
    bucket = BucketAddress(f"file://{tmp_path}")
    remote = range_of(replace(file, path=str(Path(file.path).relative_to(tmp_path))), bucket=bucket)
    assert rows_of(remote, ALL) == rows_of(range_of(file), ALL)
    requested: list[int] = []
    read = ObjectBytes.read

    def noted(self: ObjectBytes, start: int, length: int, crc: int | None = None) -> bytes:
        requested.append(length)
        return read(self, start, length, crc)

    monkeypatch.setattr(ObjectBytes, "read", noted)
    assert [row["seq"] for row in rows_of(remote, ["seq"])] == list(range(1, 40_001))
    assert (len(requested), sum(requested) < file.size_bytes / 4) == (3, True), "one for each row group"


def test_columns_come_as_they_were_asked_for(tmp_path: Path) -> None:
    ts = 1_790_000_000_123_456_789
    headers = b"NATS/1.0\r\nA: 1\r\nB: x\r\nA: 2\r\n\r\n"
    file = file_of(tmp_path, [Message(1, ts, b"a.b", headers, b"\xff"), Message(2, ts, b"a.c", b"", b"")])
    first, second = rows_of(range_of(file), ALL)
    assert list(first) == ALL
    assert (first["subject"], first["nanos"], first["data"]) == ("a.b", 789, b"\xff")
    assert first["time"].timestamp() == 1_790_000_000.123456
    assert first["headers"] == [("A", ["1", "2"]), ("B", ["x"])]
    assert second["headers"] is None
    assert rows_of(range_of(file), ["data", "seq"])[1] == {"data": b"", "seq": 2}


def test_a_subject_that_is_no_text_is_shown_as_the_table_shows_it(tmp_path: Path) -> None:
    file = file_of(tmp_path, [Message(1, 1, b"a.\xff", b"", b"")])
    assert rows_of(range_of(file), ["subject"]) == [{"subject": "\ufffda.ÿ"}]


def test_a_file_that_was_replaced_meanwhile_says_so(tmp_path: Path) -> None:
    file = file_of(tmp_path, [message(1)])
    Path(file.path).unlink()
    with pytest.raises(GoneError, match="read again"):
        rows_of(range_of(file), ALL)


def test_flipped_bytes_are_never_served(tmp_path: Path) -> None:
    payload = b"a payload that can be found"
    file = file_of(tmp_path, [Message(1, 1, b"a", b"", payload)])
    path = Path(file.path)
    content = bytearray(path.read_bytes())
    content[content.index(payload)] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptionError):
        rows_of(range_of(file), ALL)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_no_file_holds_is_read_through_the_api(kind: str, tmp_path: Path) -> None:
    async with site_of(kind, tmp_path) as site:
        await site.make(allow_direct=True)
        for number in range(5):
            await site.publish(f"orders.{number}", b"%d" % number, {"N": str(number)})
        stored = await site.remember()
        rows = await asyncio.to_thread(rows_of, ReadRange(2, 4), ALL, site.origin())
    assert [row["seq"] for row in rows] == [2, 3, 4]
    assert [row["data"] for row in rows] == [b"1", b"2", b"3"]
    assert [row["subject"] for row in rows] == ["orders.1", "orders.2", "orders.3"]
    assert [row["headers"] for row in rows] == [[("N", [str(n)])] for n in (1, 2, 3)]
    since = [row["time"] - datetime(1970, 1, 1, tzinfo=UTC) for row in rows]
    times = [
        each // timedelta(microseconds=1) * 1000 + row["nanos"] for each, row in zip(since, rows, strict=True)
    ]
    assert times == [each.ts for each in stored[1:4]]
