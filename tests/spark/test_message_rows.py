"""Rows become messages as they are, in chunks of a bounded size."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import SettingsError
from headwater.model import headers as header_block
from headwater.spark.message_rows import ROW_BYTES, MessageRows, check_columns
from headwater.wire.bulk_rows import BulkRows

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def messages(chunks: list[BulkRows]) -> list[tuple[bytes, bytes, bytes]]:
    """Return the subject, headers and data of each message."""
    found = []
    for rows in chunks:
        at = block = 0
        for code, length, data in zip(rows.codes, rows.header_lengths, rows.data_lengths, strict=True):
            headers = rows.headers[block : block + int(length)]
            found.append((rows.subjects[code], headers, bytes(rows.datas[at : at + int(data)])))
            at, block = at + int(data), block + int(length)
    return found


def test_rows_are_messages_with_text_or_bytes() -> None:
    for data in (
        pa.array(["x", None, "z"]),
        pa.array([b"x", None, b"z"]),
        pa.array([b"x", b"", b"z"], pa.large_binary()),
    ):
        rows = MessageRows(batch_of(subject=["a", "b", "a"], data=data))
        expected = [(b"a", b"", b"x"), (b"b", b"", b""), (b"a", b"", b"z")]
        assert messages(list(rows.chunks(1 << 20))) == expected


def test_a_slice_of_a_batch_has_its_own_rows() -> None:
    whole = batch_of(subject=[f"s{n}" for n in range(10)], data=[str(n) for n in range(10)])
    found = messages(list(MessageRows(whole.slice(4, 3)).chunks(1 << 20)))
    assert [(subject, data) for subject, _, data in found] == [(b"s4", b"4"), (b"s5", b"5"), (b"s6", b"6")]


def test_chunks_are_as_large_as_they_may_be() -> None:
    rows = MessageRows(batch_of(subject=["ab"] * 100, data=["x" * n for n in range(100)]))
    chunks = list(rows.chunks(500))
    assert [data for _, _, data in messages(chunks)] == [b"x" * n for n in range(100)]
    for chunk in chunks:
        assert len(chunk) * (ROW_BYTES + 2) + len(chunk.datas) <= 500
        assert len(BulkRows.decode(chunk.encode())) == len(chunk)
    assert [len(chunk) for chunk in rows.chunks(1)] == [1] * 100


def test_headers_have_all_their_values_and_the_id() -> None:
    maps = pa.array(
        [[("A", ["1", "2"]), ("Nats-Msg-Id", ["old"])], None, [("Nats-Stream-Source", ["x"])]], HEADERS
    )
    rows = MessageRows(batch_of(subject=["s"] * 3, data=[""] * 3, headers=maps, msg_id=["new", "only", None]))
    assert rows.headers.to_pylist() == [
        header_block.build([(b"A", b"1"), (b"A", b"2"), (b"Nats-Msg-Id", b"new")]),
        header_block.build([(b"Nats-Msg-Id", b"only")]),
        b"",
    ]
    plain = pa.array([[("A", "1")], [], None], pa.map_(pa.string(), pa.string()))
    rows = MessageRows(batch_of(subject=["s"] * 3, data=[""] * 3, headers=plain))
    assert rows.headers.to_pylist() == [header_block.build([(b"A", b"1")]), b"", b""]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_ids_alone_become_the_same_blocks_as_with_other_headers(kind: pa.DataType) -> None:
    ids = ["a", None, "", "b\r\nNats-Rollup: all", "é" * 50]
    alone = MessageRows(batch_of(subject=["s"] * 5, data=[""] * 5, msg_id=pa.array(ids, kind)))
    empty = pa.array([[], None, None, None, None], HEADERS)
    beside = MessageRows(
        batch_of(subject=["s"] * 5, data=[""] * 5, headers=empty, msg_id=pa.array(ids, kind))
    )
    assert alone.headers.to_pylist() == beside.headers.to_pylist()
    assert [headers for _, headers, _ in messages(list(alone.chunks(1)))] == alone.headers.to_pylist()


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb"])
def test_a_header_must_have_a_name_of_one_line(name: str) -> None:
    maps = pa.array([[(name, ["1"])]], HEADERS)
    with pytest.raises(SettingsError, match="not the name of a header"):
        MessageRows(batch_of(subject=["s"], data=[""], headers=maps))


def test_a_value_cannot_begin_another_header() -> None:
    maps = pa.array([[("A", ["1\r\nNats-Rollup: all"])]], HEADERS)
    rows = MessageRows(batch_of(subject=["s"], data=[""], headers=maps))
    assert header_block.parse(rows.headers[0].as_py()) == [(b"A", b"1  Nats-Rollup: all")]


def test_a_message_needs_a_subject() -> None:
    with pytest.raises(SettingsError, match="column 'subject' has a null"):
        MessageRows(batch_of(subject=pa.array(["a", None]), data=["", ""]))


def test_the_columns_of_the_reader_can_be_written() -> None:
    types = {
        "seq": "bigint",
        "subject": "string",
        "time": "timestamp",
        "nanos": "smallint",
        "headers": "map<string,array<string>>",
        "data": "binary",
    }
    check_columns(list(types), list(types.values()))


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ({"data": "binary"}, "no column 'subject'"),
        ({"subject": "string"}, "no column 'data'"),
        ({"subject": "string", "data": "int"}, "must be binary or string, not int"),
        ({"subject": "string", "data": "binary", "key": "string"}, "no column 'key'"),
        ({"subject": "string", "data": "binary", "headers": "string"}, "must be map"),
    ],
)
def test_other_columns_are_refused(types: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        check_columns(list(types), list(types.values()))
