"""Values in the form of plain pages are the same values, whole, in part and joined."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.table.pages import plain_values
from headwater.table.pages.plain_values import LONG_BYTES, PlainValues, concat, found, of


def body(values: Sequence[bytes]) -> memoryview:
    """Return values as a page has them."""
    return memoryview(b"".join(struct.pack("<I", len(value)) + value for value in values))


def listed(values: PlainValues) -> list[bytes]:
    """Return the values one by one, which lie where they say that they do."""
    assert sum(map(len, values.parts)) == values.ends[-1]
    assert values.nbytes == sum(map(len, values.array().to_pylist()))
    found: list[bytes] = values.array().to_pylist()
    assert body(found) == b"".join(values.parts)
    assert list(accumulate((len(value) + 4 for value in found), initial=0)) == values.ends.tolist()
    return found


@st.composite
def pages(draw: st.DrawFn) -> list[list[bytes]]:
    """Draw the values of some pages: of any length, or of one."""
    size = draw(st.none() | st.integers(0, 9))
    value = st.binary(max_size=20) if size is None else st.binary(min_size=size, max_size=size)
    return draw(st.lists(st.lists(value, min_size=1, max_size=12), min_size=1, max_size=4))


def in_pages(pages: Sequence[Sequence[bytes]]) -> PlainValues:
    with patch.object(plain_values, "LONG_BYTES", 0):
        values = found([body(page) for page in pages], [len(page) for page in pages])
    assert values is not None
    return values


@given(pages(), st.data())
def test_values_of_pages_are_found_chosen_and_cut(pages: list[list[bytes]], data: st.DataObject) -> None:
    values, wanted = in_pages(pages), [value for page in pages for value in page]
    assert listed(values) == wanted
    mask = data.draw(st.lists(st.booleans(), min_size=len(wanted), max_size=len(wanted)))
    chosen = values.take(np.flatnonzero(mask))
    assert len(chosen) == sum(mask)
    assert listed(chosen) == [value for value, is_chosen in zip(wanted, mask, strict=True) if is_chosen]
    start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, len(wanted))])))
    part = values.slice(start, stop - start)
    assert listed(part) == wanted[start:stop]
    first, last = values.ends[[start, stop]].tolist()
    assert b"".join(values.between(first, last)) == body(wanted[start:stop])
    again = data.draw(st.lists(st.booleans(), min_size=len(part), max_size=len(part)))
    kept = [value for value, is_chosen in zip(wanted[start:stop], again, strict=True) if is_chosen]
    assert listed(part.take(np.flatnonzero(again))) == kept


@given(st.lists(pages(), min_size=1, max_size=3))
def test_joined_values_are_those_of_all(parts: list[list[list[bytes]]]) -> None:
    joined = concat([in_pages(part) for part in parts])
    assert listed(joined) == [value for part in parts for page in part for value in page]
    assert len(joined.parts) == sum(map(len, parts)), "nothing is copied"


@given(st.lists(st.binary(max_size=20), max_size=20), st.data())
def test_values_of_an_array_are_the_same(values: list[bytes], data: st.DataObject) -> None:
    assert listed(of(pa.array(values, pa.binary()))) == values
    start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, len(values))])))
    assert listed(of(pa.array(values, pa.binary())[start:stop])) == values[start:stop]


def test_what_is_not_chosen_is_not_copied() -> None:
    values = in_pages([[b"a" * 100] * 50, [b"b" * 10, b"c" * 20]])
    mask = np.zeros(52, np.bool_)
    assert values.take(np.flatnonzero(mask)).parts == ()
    mask[51] = True
    assert [bytes(part) for part in values.take(np.flatnonzero(mask)).parts] == [
        struct.pack("<I", 20) + b"c" * 20
    ]


@pytest.mark.parametrize("lengths", [[0, 1], [LONG_BYTES - 100, LONG_BYTES + 50]])
def test_short_values_of_different_lengths_are_not_looked_for(lengths: list[int]) -> None:
    values = [bytes(length) for length in lengths * 9]
    assert found([body(values)], [len(values)]) is None
    assert found([body(values[:1]), body(values)], [1, len(values)]) is None
    longer = [bytes(length + LONG_BYTES) for length in lengths * 9]
    assert listed_or_none(found([body(longer)], [len(longer)])) == longer


def listed_or_none(values: PlainValues | None) -> list[bytes] | None:
    return None if values is None else listed(values)


@given(st.data())
def test_lengths_that_do_not_end_with_the_page_are_refused(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.binary(max_size=9), min_size=1, max_size=9))
    content = bytearray(body(values))
    ends = list(accumulate((len(value) + 4 for value in values), initial=0))
    with patch.object(plain_values, "LONG_BYTES", 0):
        for count in {len(values) - 1, len(values) + 1, 0}:
            assert found([memoryview(content)], [count]) is None
        assert found([memoryview(content)[:-1]], [len(values)]) is None
        for (start, _), change in zip(pairwise(ends), [1, 255, 1 << 31] * 3, strict=False):
            length = struct.unpack_from("<I", content, start)[0]
            struct.pack_into("<I", content, start, length ^ change)
            refused = found([memoryview(bytes(content))], [len(values)])
            assert refused is None or listed(refused) != values
            struct.pack_into("<I", content, start, length)
