"""Thrift's compact protocol, as far as Parquet's footers and page headers use it: structs as plain values.

A struct is a dict from field numbers to pairs of type and value; a list is a pair of its elements' type and
the elements. What is not understood is kept, so that a footer can be changed in one place and written again.
"""

from __future__ import annotations

from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

Struct = dict[int, tuple[int, Any]]

_STOP = 0
_DOUBLE_BYTES = 8
_LONG_LIST = 15
_MOST_DELTA = 15
_NUMBER_BITS = 64
_SHORT = 127
"""The greatest number that takes one byte."""


class ThriftError(ValueError):
    """These bytes are no struct."""


def read_struct(data: bytes | memoryview, at: int = 0) -> tuple[Struct, int]:
    """Return the struct that begins at a place, and where it ends."""
    try:
        return _struct(data, at)
    except (IndexError, RecursionError):
        raise ThriftError("a struct is cut short") from None


def write_struct(struct: Struct) -> bytes:
    """Return a struct as bytes."""
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


def _struct(data: bytes | memoryview, at: int) -> tuple[Struct, int]:
    found: Struct = {}
    number = 0
    while (head := data[at]) != _STOP:
        at += 1
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            raw, at = _varint(data, at)
            number = _signed(raw)
        if I16 <= kind <= I64:
            # Most of a footer is numbers, and most of them are short: no calls for those.
            raw = data[at]
            at += 1
            if raw > _SHORT:
                raw, at = _varint(data, at - 1)
            found[number] = (kind, (raw >> 1) ^ -(raw & 1))
        elif kind > FALSE:
            value, at = _value(data, at, kind)
            found[number] = (kind, value)
        else:
            found[number] = (kind, kind == TRUE)
    return found, at + 1


def _value(data: bytes | memoryview, at: int, kind: int) -> tuple[Any, int]:
    if kind in (I16, I32, I64):
        raw, at = _varint(data, at)
        return _signed(raw), at
    if kind == BINARY:
        size, at = _varint(data, at)
        return _bytes(data, at, size), at + size
    if kind == STRUCT:
        return _struct(data, at)
    if kind in (LIST, SET):
        return _list(data, at)
    if kind in (BYTE, TRUE, FALSE):
        # In a list a truth is a byte.
        return data[at], at + 1
    if kind == DOUBLE:
        return _bytes(data, at, _DOUBLE_BYTES), at + _DOUBLE_BYTES
    raise ThriftError(f"type {kind} is not known")


def _list(data: bytes | memoryview, at: int) -> tuple[tuple[int, list[Any]], int]:
    head = data[at]
    at += 1
    size, kind = head >> 4, head & 15
    if size == _LONG_LIST:
        size, at = _varint(data, at)
    items = []
    for _ in range(size):
        item, at = _value(data, at, kind)
        items.append(item)
    return (kind, items), at


def _bytes(data: bytes | memoryview, at: int, size: int) -> bytes:
    found = bytes(data[at : at + size])
    if len(found) != size:
        raise ThriftError("a value is cut short")
    return found


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value, shift = byte & 127, 7
    while byte & 128:
        if shift >= _NUMBER_BITS:
            raise ThriftError("a number has no end")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
    return value, at


def _signed(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


def _put_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, (kind, value) in sorted(struct.items()):
        head = kind if kind > FALSE else (TRUE if value else FALSE)
        if 0 < number - before <= _MOST_DELTA:
            out.append((number - before) << 4 | head)
        else:
            out.append(head)
            _put_signed(out, number)
        before = number
        if I16 <= kind <= I64:
            raw = value << 1 if value >= 0 else ~(value << 1)
            if raw > _SHORT:
                _put_varint(out, raw)
            else:
                out.append(raw)
        elif kind > FALSE:
            _put(out, kind, value)
    out.append(_STOP)


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _put_signed(out, value)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _put_struct(out, value)
    elif kind in (LIST, SET):
        _put_list(out, *value)
    elif kind in (BYTE, TRUE, FALSE):
        out.append(value)
    else:
        assert kind == DOUBLE, kind
        out += value


def _put_list(out: bytearray, kind: int, items: list[Any]) -> None:
    if len(items) < _LONG_LIST:
        out.append(len(items) << 4 | kind)
    else:
        out.append(_LONG_LIST << 4 | kind)
        _put_varint(out, len(items))
    for item in items:
        _put(out, kind, item)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _put_signed(out: bytearray, value: int) -> None:
    _put_varint(out, value << 1 if value >= 0 else ~(value << 1))
