"""The guard between a connection and its sinks: a failing sink affects no other."""

from __future__ import annotations

import logging

from headwater.bus.permissions import INTERNAL_PREFIX
from headwater.wire.frames import Frame, Sink

logger = logging.getLogger(__name__)


def flush_guarded(sink: Sink) -> None:
    """Flush a sink; one that fails loses its messages, and the connection stays."""
    try:
        sink.flush()
    except Exception:
        logger.exception("%s failed to process its messages", type(sink).__name__)
        sink.items.clear()


def drop_internal_replies(sink: Sink) -> None:
    """Remove internal reply subjects from requests that did not arrive on an internal subject.

    nats-server checks the subject of a publish but not its reply. A client that may not publish internally
    could otherwise have the engine do so.
    """
    sink.items[:] = [_without_internal_reply(frame) for frame in sink.items]


def _without_internal_reply(frame: Frame) -> Frame:
    subject, reply, headers, data = frame
    if reply.startswith(INTERNAL_PREFIX) and not subject.startswith(INTERNAL_PREFIX):
        return subject, b"", headers, data
    return frame
