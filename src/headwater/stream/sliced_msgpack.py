"""MessagePack in slices: encoding a large table in one call blocks the event loop, even from a thread."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

SLICE = 5_000
"""How many entries are encoded at a time."""
_FIXED_MAP, _MAP_16 = 0x80, 0xDE
_ENCODE = msgspec.msgpack.Encoder().encode


def encode(value: Any) -> bytes:
    """Return the same bytes as one call of the encoder, except for the width of lengths."""
    return b"".join(_parts(value))


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, list) and len(value) > SLICE:
        yield struct.pack(">BI", 0xDD, len(value))
        for start in range(0, len(value), SLICE):
            yield b"".join(map(_ENCODE, value[start : start + SLICE]))
            time.sleep(0)
    elif not isinstance(value, dict):
        yield _ENCODE(value)
    elif len(value) > SLICE:
        yield struct.pack(">BI", 0xDF, len(value))
        yield from _entries(value)
    else:
        yield struct.pack(">BI", 0xDF, len(value))
        for key, member in value.items():
            yield _ENCODE(key)
            yield from _parts(member)


def _entries(table: Mapping[Any, Any]) -> Iterator[bytes]:
    """Yield the entries of a large map, without its head, a slice at a time."""
    entries = iter(table.items())
    while some := dict(islice(entries, SLICE)):
        encoded = _ENCODE(some)
        yield encoded[_head_bytes(encoded[0]) :]
        # Another thread that waits for the interpreter lock gets it now.
        time.sleep(0)


def _head_bytes(first: int) -> int:
    """Return how long the head of a map is that begins with this byte."""
    if first & 0xF0 == _FIXED_MAP:
        return 1
    return 3 if first == _MAP_16 else 5
