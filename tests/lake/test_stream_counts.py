"""Counts of a stream's table: by time, by subject, and of the samples in an engine's history."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headwater.disk import RealDisk
from headwater.lake import dataset
from headwater.lake.stream_counts import StreamCounts
from headwater.lake.stream_sql import StreamQuerySource
from headwater.model.message import Message
from headwater.spark import range_reader
from headwater.table import Table
from table.samples import columns_of

HOUR = 3_600_000_000_000
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
START = int(MONDAY.timestamp()) * 1_000_000_000


def counts_of(directory: Path, messages: list[Message]) -> StreamCounts:
    """Return the counts of a stream with these messages, which has a schema that counts ignore."""
    table = Table.open(directory / "S" / "table", RealDisk(sync=False))
    table.commit([table.write(columns_of(messages))])
    return StreamCounts(StreamQuerySource({"path": str(directory / "S")}, {"properties": {"n": {}}}))


@pytest.fixture
def hourly(tmp_path: Path) -> StreamCounts:
    """Three messages of 10 bytes in each of two hours, and one an hour later."""
    hours = [0, 0, 0, 1, 1, 1, 3]
    return counts_of(
        tmp_path,
        [
            Message(seq, START + hour * HOUR + seq, b"orders.%d.x" % (seq % 2), b"", b"0123456789")
            for seq, hour in enumerate(hours, 1)
        ],
    )


def test_messages_are_counted_by_time_and_subject(hourly: StreamCounts) -> None:
    assert hourly.span() == (MONDAY, MONDAY.replace(hour=3))
    found = [(each.start.hour, each.messages, each.bytes) for each in hourly.by_time(3600)]
    assert found == [(0, 3, 0), (1, 3, 0), (3, 1, 0)]
    assert [each.bytes for each in hourly.by_time(7200, with_bytes=True)] == [60, 10]
    assert [tuple(each) for each in hourly.by_subject(1)] == [("orders.1.x", 4, 0)]
    assert [tuple(each) for each in hourly.by_subject(9, tokens=1, with_bytes=True)] == [("orders", 7, 70)]
    assert hourly.total(with_bytes=True) == (7, 70)


def test_payload_is_read_only_for_bytes(hourly: StreamCounts, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    batches = range_reader.read_batches

    def recording(part: Any, origin: Any, names: list[str], *rest: Any) -> Any:
        read.update(names)
        return batches(part, origin, names, *rest)

    monkeypatch.setattr(dataset, "read_batches", recording)
    hourly.by_time(3600)
    hourly.by_subject(3)
    assert "data" not in read
    hourly.by_time(3600, with_bytes=True)
    assert "data" in read


def test_a_stream_without_messages_has_no_span(tmp_path: Path) -> None:
    (tmp_path / "EMPTY" / "table").mkdir(parents=True)
    empty = StreamCounts(StreamQuerySource({"path": str(tmp_path / "EMPTY")}))
    assert (empty.span(), empty.by_time(60), empty.by_subject(3), empty.total()) == (None, [], [], (0, 0))


def test_the_lag_of_a_stream_is_in_the_history_of_its_engine(tmp_path: Path) -> None:
    payloads = [
        (b"headwater.history.s.stream._G.A", b'{"stream": "$G/A", "lag": 4}'),
        (b"headwater.history.s.stream._G.A_B", b'{"stream": "$G/A_B", "lag": 5}'),
        (b"headwater.history.s.stream.other.A", b'{"stream": "other/A", "lag": 6}'),
        (b"headwater.history.s.stream._G.A", b'{"stream": "$G/A"}'),
        (b"headwater.history.s.engine", b'{"lag": 7}'),
    ]
    history = counts_of(
        tmp_path,
        [Message(seq, START + seq, subject, b"", data) for seq, (subject, data) in enumerate(payloads, 1)],
    )
    assert [lag for _, lag in history.lags("A")] == [4.0, 6.0]
    assert [lag for _, lag in history.lags("A", "$G")] == [4.0]
    assert history.lags("it's") == []
