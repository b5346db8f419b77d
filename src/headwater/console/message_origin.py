"""Where a copied message came from, as its Nats-Stream-Source header names it."""

from __future__ import annotations

from typing import NamedTuple

from headwater.model import headers as header_block
from headwater.model.copied import SOURCE_HEADER


class MessageOrigin(NamedTuple):
    """The stream that a message was copied from."""

    stream: str
    api: str
    """A mark of the remote API; empty for a stream of the same account, and where the server names none."""
    seq: int
    subject: str
    """The subject in the origin; empty if an old server does not name it."""


def origin_of(headers: bytes) -> MessageOrigin | None:
    """Return the origin of a copied message; None without the header, or if it is malformed."""
    text = header_block.get_str(headers, SOURCE_HEADER)
    parts = text.split(" ") if text else []
    if len(parts) < 2 or not parts[1].isdecimal() or len(parts[1]) > 20:
        return None
    stream, _, api = parts[0].partition(":")
    return MessageOrigin(stream, api, int(parts[1]), parts[4] if len(parts) > 4 else "")
