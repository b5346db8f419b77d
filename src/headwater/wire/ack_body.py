"""The bodies of acks: ack, nak, in progress, term, and ack with the next pull request."""

from __future__ import annotations

import json
from enum import Enum
from typing import NamedTuple

from headwater.model import times

_INT64_MAX = 2**63 - 1


class AckKind(Enum):
    """The kind of an ack."""

    ACK = "ack"
    NAK = "nak"
    PROGRESS = "progress"
    TERM = "term"
    NEXT = "next"
    UNKNOWN = "unknown"


class AckBody(NamedTuple):
    """An ack, with the fields of its kind."""

    kind: AckKind
    delay_ns: int | None = None
    """Of a nak: the delay; None for at once."""
    reason: str = ""
    """Of a term: the reason."""
    request: bytes = b""
    """Of a next: the body of the pull request."""


ACK = AckBody(AckKind.ACK)
_NAK = AckBody(AckKind.NAK)
DONE = frozenset((b"", b"+ACK", b"+OK"))
"""The bodies of plain acks."""
_PLAIN = {
    **dict.fromkeys(DONE, ACK),
    b"-NAK": _NAK,
    b"+WPI": AckBody(AckKind.PROGRESS),
    b"+TERM": AckBody(AckKind.TERM),
    b"+NXT": AckBody(AckKind.NEXT),
}
_UNKNOWN = AckBody(AckKind.UNKNOWN)


def parse_ack_body(body: bytes) -> AckBody:
    """Return the content of an ack's body; an invalid delay counts as none."""
    plain = _PLAIN.get(body)
    if plain is not None:
        return plain
    if body.startswith(b"+NXT"):
        return AckBody(AckKind.NEXT, request=body[4:])
    if body.startswith(b"-NAK"):
        return AckBody(AckKind.NAK, delay_ns=_delay(body[4:].strip()))
    if body.startswith(b"+TERM"):
        return AckBody(AckKind.TERM, reason=body[5:].strip().decode(errors="replace"))
    return _UNKNOWN


def _delay(argument: bytes) -> int | None:
    text = argument.decode(errors="replace")
    return _delay_option(text) if text.startswith("{") else times.parse_duration(text)


def _delay_option(text: str) -> int | None:
    """Return the delay in an options object; without one it is zero, which is not the same as none."""
    try:
        options = json.loads(text)
    except (ValueError, RecursionError):
        return None
    delay = 0
    for key, value in options.items():
        if key.lower() == "delay" and value is not None:
            if type(value) is not int or abs(value) > _INT64_MAX:
                return None
            delay = value
    return delay
