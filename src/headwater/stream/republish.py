"""Stored messages published again on other subjects."""

from __future__ import annotations

from headwater.model import headers as header_block
from headwater.model.stream import StreamConfig
from headwater.model.times import format_time
from headwater.model.transform import SubjectTransform
from headwater.wire.frames import pub


class Republisher:
    """Makes the frames that the `republish` of a config asks for."""

    def __init__(self, config: StreamConfig) -> None:
        declared = config.republish
        assert declared is not None
        self._stream = config.name.encode()
        self._headers_only = declared.headers_only
        self._transform = SubjectTransform(declared.src, declared.dest)

    def frames(
        self, seq: int, ts: int, subject: bytes, headers: bytes, data: bytes, previous_seq: int
    ) -> list[bytes]:
        """Return the frame for one stored message, or none if its subject is not republished."""
        target = self._transform.apply(subject)
        if target is None:
            return []
        block = headers
        for name, value in (
            (b"Nats-Stream", self._stream),
            (b"Nats-Subject", subject),
            (b"Nats-Sequence", b"%d" % seq),
            (b"Nats-Time-Stamp", format_time(ts).encode()),
            (b"Nats-Last-Sequence", b"%d" % previous_seq),
        ):
            block = header_block.add(block, name, value)
        if self._headers_only:
            block = header_block.add(block, b"Nats-Msg-Size", b"%d" % len(data))
            data = b""
        return [pub(target, b"", block, data)]
