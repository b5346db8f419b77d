"""The header block of a message, read and changed as raw bytes without parsing all of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

VERSION = b"NATS/1.0"
EMPTY = b"NATS/1.0\r\n\r\n"
DEMANDS = (b"Nats-Expected-", b"Nats-Batch-")
"""Prefixes of headers with which a publisher sets conditions for the stream; copies omit them."""
MESSAGE_ID = b"Nats-Msg-Id"
"""The header with the id of a message, so that a stream stores it once."""
_MOST_DIGITS = 9
"""Of a status; Python refuses to read a number with thousands of digits."""


class HeaderStatus(NamedTuple):
    """The status in the first line of a block."""

    code: int
    description: bytes


def valid(raw: bytes) -> bool:
    """Return whether the bytes are a complete header block; no headers at all are valid, too."""
    return parse(raw) is not None


def get(raw: bytes, name: bytes) -> bytes | None:
    """Return the first value of the header, or None; names are case-sensitive."""
    start = _find(raw, name)
    if start < 0:
        return None
    start += len(name) + 1
    end = raw.find(b"\r\n", start)
    value = raw[start:] if end < 0 else raw[start:end]
    return value.lstrip(b" ")


def get_str(raw: bytes, name: bytes) -> str | None:
    """Return the first value as text, or None if there is none or it is not UTF-8."""
    value = get(raw, name)
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _find(raw: bytes, name: bytes) -> int:
    """Return where the line of this header begins, or -1."""
    start = raw.find(b"\r\n" + name + b":")
    return -1 if start < 0 else start + 2


def parse(raw: bytes) -> list[tuple[bytes, bytes]] | None:
    """Return the headers in order, or None when the block is malformed."""
    if not raw:
        return []
    if not raw.startswith(VERSION) or not raw.endswith(b"\r\n\r\n"):
        return None
    pairs = []
    for line in raw[:-4].split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name:
            return None
        pairs.append((name, value.lstrip(b" ")))
    return pairs


def to_dict(raw: bytes) -> dict[bytes, list[bytes]] | None:
    """Return all values of each header, or None when the block is malformed."""
    pairs = parse(raw)
    if pairs is None:
        return None
    values: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return values


def text_pairs(raw: bytes | None) -> list[tuple[str, list[str]]] | None:
    """Return a header block as the pairs of a map, None without one; invalid UTF-8 becomes U+FFFD."""
    if not raw:
        return None
    return [
        (name.decode(errors="replace"), [value.decode(errors="replace") for value in values])
        for name, values in (to_dict(raw) or {}).items()
    ]


def status(raw: bytes) -> HeaderStatus | None:
    """Return the status of the first line, or None when it has none."""
    line = raw[: raw.find(b"\r\n")] if b"\r\n" in raw else b""
    if not line.startswith(VERSION + b" "):
        return None
    code, _, description = line[len(VERSION) + 1 :].strip(b" ").partition(b" ")
    if not code.isdigit() or len(code) > _MOST_DIGITS:
        return None
    return HeaderStatus(int(code), description.strip(b" "))


def build(
    pairs: Iterable[tuple[bytes, bytes]] = (), *, code: int | None = None, description: bytes = b""
) -> bytes:
    """Return a block of these headers, with a status line if a code is given; empty without either."""
    lines = [b"%s: %s\r\n" % (name, _one_line(value)) for name, value in pairs]
    if code is None:
        return b"".join((VERSION, b"\r\n", *lines, b"\r\n")) if lines else b""
    first = b"%s %d %s" % (VERSION, code, _one_line(description))
    return b"".join((first.rstrip(b" "), b"\r\n", *lines, b"\r\n"))


def add(raw: bytes, name: bytes, value: bytes) -> bytes:
    """Return the block with one more header at its end."""
    line = b"%s: %s\r\n\r\n" % (name, _one_line(value))
    if not raw.endswith(b"\r\n\r\n"):
        return VERSION + b"\r\n" + line
    return raw[:-2] + line


def set(raw: bytes, name: bytes, value: bytes) -> bytes:
    """Return the block with this header once, at its end."""
    return add(remove(raw, name), name, value)


def replace(raw: bytes, name: bytes, value: bytes) -> bytes:
    """Return the block with another value for its first header of this name, in the same place."""
    start = _find(raw, name)
    if start < 0:
        return add(raw, name, value)
    start += len(name) + 1
    return raw[:start] + b" " + _one_line(value) + raw[raw.find(b"\r\n", start) :]


def remove(raw: bytes, name: bytes) -> bytes:
    """Return the block without any header of this name; empty when none is left."""
    return _remove(raw, b"\r\n" + name + b":")


def remove_prefix(raw: bytes, prefix: bytes) -> bytes:
    """Return the block without the headers whose names have this prefix; empty when none is left."""
    return _remove(raw, b"\r\n" + prefix)


def _remove(raw: bytes, mark: bytes) -> bytes:
    start = raw.find(mark)
    while start >= 0:
        end = raw.find(b"\r\n", start + len(mark))
        if end < 0:
            break
        raw = raw[:start] + raw[end:]
        start = raw.find(mark, start)
    return b"" if raw == EMPTY else raw


def _one_line(value: bytes) -> bytes:
    """Return the value with line ends replaced by spaces, so that it cannot begin another header."""
    if b"\r" in value or b"\n" in value:
        return value.replace(b"\r", b" ").replace(b"\n", b" ")
    return value
