"""The guard between a connection and its sinks: what one sink cannot take costs no other sink anything."""

from __future__ import annotations

import logging

from headwater.bus.permissions import INTERNAL_PREFIX
from headwater.wire.frames import Frame, Sink

logger = logging.getLogger(__name__)


def flush_guarded(sink: Sink) -> None:
    """Have a sink take its messages; one that fails loses them, and the connection stays."""
    try:
        sink.flush()
    except Exception:
        logger.exception("%s failed on what it received", type(sink).__name__)
        sink.items.clear()


def drop_internal_replies(sink: Sink) -> None:
    """Take the reply subject from those who ask for an answer where only engines and replicators speak.

    nats-server checks the subject of a publish and not its reply. Whoever may not publish internally could
    have the engine do so. Only what came in internally itself is answered there.
    """
    sink.items[:] = [_without_internal_reply(frame) for frame in sink.items]


def _without_internal_reply(frame: Frame) -> Frame:
    subject, reply, headers, data = frame
    if reply.startswith(INTERNAL_PREFIX) and not subject.startswith(INTERNAL_PREFIX):
        return subject, b"", headers, data
    return frame
