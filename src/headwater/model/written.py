"""What a stream remembers about bulk writes: for each query the last batch that it has stored.

    version 1: [1, batch, time, messages]

The records are kept with the cursors of upstreams, in the same change as the messages of the batch. An older
release keeps them unread, so they survive a downgrade.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headwater.errors import Error

VERSION = 1
QUERY_PREFIX = "\0query "
"""Begins the name of a query's record; no upstream has such a name."""
ONCE_PREFIX = "\0once "
"""Begins the name of the record of a single write, which is only repeated soon after."""
MOST_QUERIES = 1000
"""How many queries a stream remembers; the one whose last batch is oldest is forgotten first."""
MOST_NAME = 200
"""How long the name of a record may be; those of requests are shorter."""
MOST_ONCE = 100
"""How many single writes a stream remembers."""


class WrittenVersionError(Error):
    """A newer release wrote the record of a query."""


class Written(msgspec.Struct, frozen=True):
    """The last batch of one query."""

    batch: int
    ts: int
    """When the engine stored it."""
    messages: int

    def encode(self) -> bytes:
        """Return the record as bytes for the stream's log."""
        return msgspec.msgpack.encode((VERSION, self.batch, self.ts, self.messages))

    @classmethod
    def decode(cls, encoded: bytes) -> Written | None:
        """Return the record that these bytes encode, None for none."""
        if not encoded:
            return None
        match msgspec.msgpack.decode(encoded):
            case [int(version), int(batch), int(ts), int(messages)] if version == VERSION:
                return cls(batch, ts, messages)
        raise WrittenVersionError("a newer release of Headwater wrote the record of a query, start that one")


def record_name(query: str, *, once: bool) -> str:
    """Return the name of a query's record."""
    return (ONCE_PREFIX if once else QUERY_PREFIX) + query


def is_record(name: str) -> bool:
    """Return whether this is the name of a query's record, not that of an upstream."""
    return name.startswith((QUERY_PREFIX, ONCE_PREFIX))


def checked(records: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return records that anyone may have made; raise if they are not what a stream remembers."""
    for name, encoded in records.items():
        try:
            known = is_record(name) and len(name) <= MOST_NAME and Written.decode(encoded)
        except (msgspec.MsgspecError, UnicodeDecodeError, Error):
            known = None
        if not known or not name.isascii():
            raise Error(f"{name[:MOST_NAME]!r} is not the record of a query")
    if len(records) > MOST_QUERIES + MOST_ONCE:
        raise Error(f"{len(records)} queries, a stream remembers {MOST_QUERIES + MOST_ONCE}")
    return dict(records)


def next_time(known: Mapping[str, bytes], now_ns: int) -> int:
    """Return the time of a new record, later than all others, even if the clock was set back."""
    return max(now_ns, 1 + max((_time(known[name]) for name in known if is_record(name)), default=0))


def changes(known: Mapping[str, bytes], name: str, written: Written) -> dict[str, bytes]:
    """Return the records to change: the new one, and an empty value for each that is forgotten."""
    prefix, most = (ONCE_PREFIX, MOST_ONCE) if name.startswith(ONCE_PREFIX) else (QUERY_PREFIX, MOST_QUERIES)
    others = [each for each in known if each.startswith(prefix) and each != name]
    forgotten: list[str] = []
    if len(others) >= most:
        forgotten = sorted(others, key=lambda each: _time(known[each]))[: len(others) - most + 1]
    return {**dict.fromkeys(forgotten, b""), name: written.encode()}


def _time(encoded: bytes) -> int:
    written = Written.decode(encoded)
    return written.ts if written is not None else 0
