"""One stored message."""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """A message as a stream stores it; `headers` is the raw header block, empty if there is none."""

    seq: int
    ts: int
    subject: bytes
    headers: bytes
    data: bytes
