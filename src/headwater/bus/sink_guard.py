"""The guard between a connection and its sinks: what one sink cannot take costs no other sink anything."""

from __future__ import annotations

import logging

from headwater.wire.frames import Sink

logger = logging.getLogger(__name__)


def flush_guarded(sink: Sink) -> None:
    """Have a sink take its messages; one that fails loses them, and the connection stays."""
    try:
        sink.flush()
    except Exception:
        logger.exception("%s failed on what it received", type(sink).__name__)
        sink.items.clear()
