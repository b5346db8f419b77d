"""Stored messages published again on other subjects."""

from __future__ import annotations

import logging
from collections.abc import Callable

from headwater.model import headers as header_block
from headwater.model.stream import StreamConfig
from headwater.model.times import format_time
from headwater.model.transform import SubjectTransform
from headwater.wire.frames import MAX_SIZE, pub

logger = logging.getLogger(__name__)

_INTERNAL = b"$HEADWATER."
"""Where engines and replicators speak: wildcards in a destination must not lead there."""


class Republisher:
    """Makes the frames that the `republish` of a config asks for."""

    def __init__(self, config: StreamConfig, max_payload: Callable[[], int] = lambda: MAX_SIZE) -> None:
        """Messages larger than `max_payload` says would end the connection that all share."""
        declared = config.republish
        assert declared is not None
        self._stream = config.name.encode()
        self._max_payload = max_payload
        self._headers_only = declared.headers_only
        self._transform = SubjectTransform(declared.src, declared.dest)

    def frames(
        self, seq: int, ts: int, subject: bytes, headers: bytes, data: bytes, previous_seq: int
    ) -> list[bytes]:
        """Return the frame for one stored message, or none if its subject is not republished."""
        target = self._transform.apply(subject)
        if target is None or target.startswith(_INTERNAL):
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
        if len(block) + len(data) > self._max_payload():
            logger.error(
                "message %d of stream %s is not republished to %s: it has %d bytes with its headers, "
                "the server accepts %d; raise its max_payload",
                *(seq, self._stream.decode(), target.decode(errors="replace")),
                *(len(block) + len(data), self._max_payload()),
            )
            return []
        return [pub(target, b"", block, data)]
