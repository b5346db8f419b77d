"""How far sources were copied, by the headers that their messages carry.

Each message of a source carries the origin's identity and its sequence there. So where a cursor is lost, the
last message of the source still says how far it was copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from headwater.model.columns import Columns
from headwater.model.copied import SOURCE_HEADER
from headwater.model.cursor import LOST, Cursor

_LINE = b"\r\n" + SOURCE_HEADER + b": "
_SEQUENCE = re.compile(r"[0-9]{1,18}")
"""A client may publish such a header with anything in it, and other digits than these."""


def said_by(headers: bytes) -> tuple[str, Cursor] | None:
    """Return the source that a message was copied by, and its place in the origin.

    Only the last of several such headers is ours. Those before it are of origins further up.
    """
    at = headers.rfind(_LINE)
    fields = headers[at + len(_LINE) :].split(b"\r\n", 1)[0].decode(errors="replace").split(" ")
    if at < 0 or len(fields) < 5 or not _SEQUENCE.fullmatch(fields[1]):
        return None
    return f"{fields[0]} {fields[2]} {fields[3]}", Cursor(
        fields[5] if len(fields) > 5 else "", int(fields[1])
    )


def last_copied(blocks: Iterable[bytes]) -> dict[str, Cursor]:
    """Return how far each source was copied, by the headers of the messages in order."""
    return dict(filter(None, map(said_by, blocks)))


def copied_in(columns: Columns) -> dict[str, Cursor]:
    """Return the same by the headers of the messages in these columns."""
    ends, joined = np.cumsum(columns.header_lengths, dtype=np.int64).tolist(), bytes(columns.headers)
    return last_copied(joined[start:end] for start, end in zip([0, *ends], ends, strict=False))


def advanced(encoded: bytes, found: Cursor) -> bytes:
    """Return a stored cursor, advanced to a message that was copied later."""
    known = Cursor.decode(encoded)
    if known.identity == LOST or (known.identity == found.identity and known.seq >= found.seq):
        return encoded
    return found.encode()
