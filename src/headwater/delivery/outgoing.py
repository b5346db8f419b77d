"""Outgoing messages: their target, their size as pull requests count it, and how many of them fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headwater.model import headers as header_block
from headwater.model.run import values_at

CHUNK = 1024
"""The most messages in one buffer."""
CHUNK_BYTES = 1 << 20


class Target(NamedTuple):
    """Where the next messages go, and how many of them."""

    subject: bytes
    messages: int
    size: int | None = None
    """Bytes that may still go there, counted as pull requests count them; None without a limit."""


class OutgoingMessages(NamedTuple):
    """Outgoing messages, a column each."""

    replies: list[bytes]
    subjects: list[bytes]
    headers: list[bytes]
    datas: list[bytes]

    @property
    def size(self) -> int:
        """Return the bytes of the messages as pull requests count them."""
        return sum(sum(map(len, column)) for column in self)

    def at(self, rows: Sequence[int]) -> OutgoingMessages:
        """Return the messages at these rows."""
        return OutgoingMessages(*(values_at(column, rows) for column in self))

    def within(self, limit: int | None) -> tuple[OutgoingMessages, bool]:
        """Return the first messages that fit, and whether the next one would exceed the request's limit."""
        size = 0
        for index, parts in enumerate(zip(*self, strict=True)):
            size += sum(map(len, parts))
            if limit is not None and size > limit:
                return self.at(range(index)), True
            if size > CHUNK_BYTES:
                # The last one may exceed the buffer, so that a large message is sent at all.
                following = self.at(range(index + 1, index + 2)).size
                return self.at(range(index + 1)), limit is not None and size + following > limit
        return self, False

    def accepted(self, max_payload: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the rows that a server with this limit accepts, and the others with their payload sizes."""
        rows, larger = [], []
        for row, (headers, data) in enumerate(zip(self.headers, self.datas, strict=True)):
            size = len(headers) + len(data)
            if size <= max_payload:
                rows.append(row)
            else:
                larger.append((row, size))
        return rows, larger


def headers_only(headers: list[bytes], datas: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the parts of messages that are sent without their data: the size of each is in its headers."""
    sized = [
        header_block.add(block, b"Nats-Msg-Size", b"%d" % len(data))
        for block, data in zip(headers, datas, strict=True)
    ]
    return sized, [b""] * len(datas)


def idle_heartbeat(consumer_seq: int, stream_seq: int, more: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """Return the headers of a heartbeat: the last delivered sequences, and further lines."""
    lines = [(b"Nats-Last-Consumer", b"%d" % consumer_seq), (b"Nats-Last-Stream", b"%d" % stream_seq), *more]
    return header_block.build(lines, code=100, description=b"Idle Heartbeat")
