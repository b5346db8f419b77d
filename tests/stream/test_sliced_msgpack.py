"""Slices decode to the same as what is encoded at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.stream.sliced_msgpack import SLICE, encode


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1, "b": b"bytes", "c": None, "d": [1, 2], "e": {"f": {}}},
        {"large": {b"s.%d" % n: n for n in range(SLICE + 1)}},
        {"large": {b"s.%d" % n: ((n, 1), (n + 1, 2)) for n in range(3 * SLICE)}, "after": [b"x"]},
        {b"s.%d" % n: n for n in range(2 * SLICE + 7)},
        {"exact": {n: -n for n in range(SLICE)}},
        [1, 2, 3],
        {"list": [(n, b"id%d" % n, n) for n in range(2 * SLICE + 1)], "after": 1},
        70_000,
    ],
)
def test_slices_are_read_as_one(value: Any) -> None:
    whole = msgspec.msgpack.decode(msgspec.msgpack.encode(value))
    assert msgspec.msgpack.decode(encode(value)) == whole
