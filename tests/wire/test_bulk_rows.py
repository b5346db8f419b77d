"""Messages of a bulk write are read as they were encoded, and bytes that lie are refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bulk import rows_of
from headwater.wire.bulk_rows import VERSION, BulkRows, BulkRowsError


def number(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def test_messages_are_read_as_they_were_encoded() -> None:
    rows = rows_of([("a", b"1", b"NATS/1.0\r\nx: y\r\n\r\n"), ("b", b""), ("a", b"three")])
    found = BulkRows.decode(rows.encode())
    assert list(found.subjects) == [b"a", b"b"]
    assert found.codes.tolist() == [0, 1, 0]
    assert found.header_lengths.tolist() == rows.header_lengths.tolist()
    assert (bytes(found.headers), bytes(found.datas)) == (rows.headers, b"1three")


def test_without_headers_their_lengths_are_left_out() -> None:
    encoded = rows_of([("a", b"1"), ("a", b"2")]).encode()
    assert msgspec.msgpack.decode(encoded)[3] == b""
    assert BulkRows.decode(encoded).header_lengths.tolist() == [0, 0]


GOOD: list[Any] = [VERSION, [b"a"], number(0, 0), b"", b"", number(1, 2), b"abc"]


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (0, VERSION + 1, "version"),
        (1, [], "no subject"),
        (2, number(0, 1), "no subject"),
        (2, number(0), "different lengths"),
        (2, number(0, 0)[:-1], "cut off"),
        (3, number(1), "different lengths"),
        (3, number(1, 1), "add up"),
        (4, b"x", "add up"),
        (5, number(1, 0xFFFFFFFF), "add up"),
        (6, b"abcd", "add up"),
        (6, 5, "cannot decode"),
    ],
)
def test_bytes_that_lie_are_refused(place: int, value: object, problem: str) -> None:
    assert len(BulkRows.decode(msgspec.msgpack.encode(GOOD))) == 2
    bad = [*GOOD[:place], value, *GOOD[place + 1 :]]
    with pytest.raises(BulkRowsError, match=problem):
        BulkRows.decode(msgspec.msgpack.encode(bad))


def test_other_bytes_are_refused() -> None:
    for other in (b"", b"\xc1", b"\x97", msgspec.msgpack.encode([*GOOD, 1])):
        with pytest.raises(BulkRowsError):
            BulkRows.decode(other)
