"""What is written is read back, and what pyarrow wrote means the same when it is written again."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.table import parquet
from headwater.table.pages import thrift
from headwater.table.pages.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
    Struct,
    ThriftError,
)
from table.samples import columns, columns_of, message

_TAIL = 8

_NUMBERS = {I16: 15, I32: 31, I64: 63}


def _plain() -> st.SearchStrategy[tuple[int, Any]]:
    """Draw a type and a value of it that holds no other."""
    numbers = [
        st.tuples(st.just(kind), st.integers(-(1 << bits), (1 << bits) - 1))
        for kind, bits in _NUMBERS.items()
    ]
    return st.one_of(
        *numbers,
        st.tuples(st.just(BYTE), st.integers(0, 255)),
        st.tuples(st.just(DOUBLE), st.binary(min_size=8, max_size=8)),
        st.tuples(st.just(BINARY), st.binary(max_size=200)),
        st.booleans().map(lambda truth: (TRUE if truth else FALSE, truth)),
    )


def _structs(values: st.SearchStrategy[tuple[int, Any]]) -> st.SearchStrategy[Struct]:
    return st.dictionaries(st.integers(1, 32_000), values, max_size=6)


@st.composite
def _list_of(draw: st.DrawFn, structs: st.SearchStrategy[Struct]) -> tuple[int, Any]:
    """Draw a list or a set, short or long."""
    size = draw(st.sampled_from([0, 1, 3, 14, 15, 16, 130]))
    kind, item = draw(
        st.sampled_from(
            [
                (I64, st.integers(-(1 << 63), (1 << 63) - 1)),
                (BINARY, st.binary(max_size=5)),
                (TRUE, st.integers(1, 2)),
                (STRUCT, structs),
            ]
        )
    )
    return draw(st.sampled_from([LIST, SET])), (kind, [draw(item) for _ in range(size)])


structs = st.recursive(
    _structs(_plain()),
    lambda inner: _structs(st.one_of(_plain(), st.tuples(st.just(STRUCT), inner), _list_of(inner))),
    max_leaves=6,
)


@given(structs, st.binary(max_size=3), st.binary(max_size=3))
def test_any_struct_is_read_back_from_where_it_stands(one: Struct, before: bytes, after: bytes) -> None:
    content = before + thrift.write_struct(one) + after
    found, end = thrift.read_struct(memoryview(content), len(before))
    assert found == one
    assert end == len(content) - len(after)


@given(structs)
def test_a_struct_that_is_cut_short_is_refused(one: Struct) -> None:
    written = thrift.write_struct(one)
    for end in {0, len(written) // 2, len(written) - 1}:
        with pytest.raises(ThriftError):
            thrift.read_struct(written[:end])


@given(st.binary(max_size=60))
def test_any_other_bytes_are_a_struct_or_refused(content: bytes) -> None:
    try:
        _, end = thrift.read_struct(content)
    except ThriftError:
        return
    assert 0 < end <= len(content)


@pytest.mark.parametrize(
    "content",
    [
        b"\x1b\x00\x00",  # a map, which no footer has
        b"\x15" + b"\xff" * 5000 + b"\x01\x00",  # a number without end
        b"\x18\xff\xff\xff\xff\x0fshort",
        b"\x1c" * 100_000,
    ],
    ids=["map", "number", "text", "depth"],
)
def test_what_no_footer_has_is_refused(content: bytes) -> None:
    with pytest.raises(ThriftError):
        thrift.read_struct(content)


def footers(directory: Path) -> dict[str, bytes]:
    """Return footers that pyarrow wrote, of our own files and of others."""
    ours, strange = directory / "ours", directory / "strange"
    parquet.write(ours, columns(range(1, 20_000)), 0, "s2")
    table = pa.table(
        {
            "n": pa.array([1.5, None, -2.5]),
            "list": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
            "flag": [True, False, None],
            "when": pa.array([1, 2, None], pa.timestamp("us", "UTC")),
            "price": pa.array([1, 2, 3]).cast(pa.decimal128(25, 3)),
        }
    )
    pq.write_table(
        table, strange, row_group_size=1, sorting_columns=[pq.SortingColumn(0)], write_page_index=True
    )
    return {"ours": ours.read_bytes(), "strange": strange.read_bytes()}


def _split(content: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack("<I", content[-_TAIL:-4])
    return content[: -_TAIL - length], content[-_TAIL - length : -_TAIL]


@pytest.mark.parametrize("kind", ["ours", "strange"])
def test_a_footer_of_pyarrow_means_the_same_when_it_is_written_again(tmp_path: Path, kind: str) -> None:
    content = footers(tmp_path)[kind]
    body, footer = _split(content)
    read, end = thrift.read_struct(footer)
    assert end == len(footer)
    again = thrift.write_struct(read)
    assert thrift.read_struct(again) == (read, len(again))
    whole = body + again + struct.pack("<I4s", len(again), b"PAR1")
    one, two = (pq.ParquetFile(pa.BufferReader(each)) for each in (content, whole))
    assert two.read().equals(one.read())
    assert two.metadata.to_dict() | {"serialized_size": 0} == one.metadata.to_dict() | {"serialized_size": 0}
    assert two.metadata.metadata == one.metadata.metadata


def test_the_fields_of_a_footer_are_those_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x"
    parquet.write(path, columns_of([message(seq) for seq in range(1, 11)]), 0)
    footer, _ = thrift.read_struct(_split(path.read_bytes())[1])
    _, elements = footer[2][1]
    assert [element[4][1] for element in elements[1:]] == [
        b"offset",
        b"subject",
        b"time",
        b"nanos",
        b"headers",
        b"data",
    ]
    assert footer[3] == (I64, 10)
