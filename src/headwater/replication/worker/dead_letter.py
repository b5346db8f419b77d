"""Dead letters: messages that a pipeline failed on, with the reason and their origin in headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.model import headers as header_block
from headwater.model.columns import columns_of
from headwater.model.headers import MESSAGE_ID
from headwater.model.message import Message
from headwater.model.times import format_time
from headwater.table.arrow_tables import rows_of
from headwater.table.rows import Rows
from headwater.table.schema import subject_bytes

ERROR = b"Headwater-Error"
TARGET = b"Headwater-Target"
ORIGIN = b"Headwater-Origin"
ORIGIN_SEQUENCE = b"Headwater-Origin-Sequence"
ORIGIN_SUBJECT = b"Headwater-Origin-Subject"
ORIGIN_TIME = b"Headwater-Origin-Time"
ORIGIN_ID = b"Headwater-Origin-Msg-Id"
LONGEST_ERROR = 2_000
_OF_THE_SERVER = b"Nats-"
"""Headers with this prefix would have an effect in the stream of dead letters, too."""


class DeadLetter(NamedTuple):
    """A failed message as it is in its origin."""

    seq: int
    ts: int
    subject: str
    headers: bytes
    payload: bytes
    error: str
    """Empty if only Spark knows it."""


def dead_rows(letters: Sequence[DeadLetter], *, target: str, origin: str) -> Rows:
    """Return failed messages as they are stored, on the subjects that they have in their origin."""
    return rows_of(
        columns_of(
            [
                Message(
                    letter.seq,
                    letter.ts,
                    subject_bytes(letter.subject),
                    _headers(letter, target, origin),
                    letter.payload,
                )
                for letter in letters
            ]
        )
    )


def _headers(letter: DeadLetter, target: str, origin: str) -> bytes:
    theirs = header_block.parse(letter.headers) or []
    pairs = [(name, value) for name, value in theirs if not name.startswith((_OF_THE_SERVER, b"Headwater-"))]
    pairs += ((ORIGIN_ID, value) for name, value in theirs if name == MESSAGE_ID)
    pairs += (
        (TARGET, target.encode()),
        (ORIGIN, origin.encode()),
        (ORIGIN_SEQUENCE, b"%d" % letter.seq),
        (ORIGIN_SUBJECT, subject_bytes(letter.subject)),
        (ORIGIN_TIME, format_time(letter.ts).encode()),
    )
    if letter.error:
        pairs.append((ERROR, letter.error[:LONGEST_ERROR].encode()))
    return header_block.build(pairs)


def with_error(headers: bytes, error: str) -> bytes:
    """Return the headers of a dead letter with the reason, unless they have one."""
    if header_block.get(headers, ERROR) is not None:
        return headers
    return header_block.add(headers, ERROR, error[:LONGEST_ERROR].encode())
