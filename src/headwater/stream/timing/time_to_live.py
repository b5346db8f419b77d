"""The time to live that a message carries, and the marker that the last message of a subject leaves."""

from __future__ import annotations

from headwater.errors import ApiError, api_error
from headwater.model import headers as header_block
from headwater.model.times import SECOND, format_duration, parse_duration

NEVER = -1
"""The time to live of a message that does not even expire by `max_age`."""
LONGEST_TTL_NS = 1 << 62
"""So that the time at which a message expires can be written down."""


def parse_ttl(value: bytes) -> int:
    """Return the time to live in nanoseconds, NEVER, or 0 for none; raise if it is invalid."""
    text = value.decode(errors="replace")
    if not text:
        return 0
    if text.lower() == "never":
        return NEVER
    duration = parse_duration(text)
    if duration is None and text.isascii() and text.isdigit() and len(text) < 20:
        return min(int(text) * SECOND, LONGEST_TTL_NS)
    if duration is None or duration < SECOND:
        raise api_error("message_ttl_invalid")
    return min(duration // SECOND * SECOND, LONGEST_TTL_NS)


def stored_ttl(headers: bytes) -> int | None:
    """Return the time to live that a stored message carries; one that cannot be read counts as none."""
    value = header_block.get(headers, b"Nats-TTL")
    if not value:
        return None
    try:
        return parse_ttl(value)
    except ApiError:
        return None


def at_least(headers: bytes, ttl_ns: int, least_ns: int) -> tuple[bytes, int]:
    """Return headers and time to live, raised to the whole seconds of the least one that is allowed."""
    least_ns = least_ns // SECOND * SECOND
    if not 0 < ttl_ns < least_ns:
        return headers, ttl_ns
    return header_block.set(headers, b"Nats-TTL", b"%d" % (least_ns // SECOND)), least_ns


def marker(ttl_ns: int) -> bytes:
    """Return the headers of a message that says a subject's last message has expired."""
    seconds = ttl_ns // SECOND
    return header_block.build(
        (
            (b"Nats-Marker-Reason", b"MaxAge"),
            (b"Nats-TTL", format_duration(seconds * SECOND).encode()),
            (b"Nats-Rollup", b"sub"),
        )
    )


def is_marker(headers: bytes) -> bool:
    """Return whether a message is a delete marker, whose own end needs no marker."""
    return bool(
        header_block.get(headers, b"Nats-Marker-Reason")
        or header_block.get(headers, b"KV-Operation") == b"PURGE"
    )
