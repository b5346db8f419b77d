"""Where a sourced message came from: in its header, or per linked file, whose messages lack the header."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from headwater.model import headers as header_block

SOURCE_HEADER = b"Nats-Stream-Source"
EVERYTHING = ">"
START = header_block.VERSION + b"\r\n"
# Folder names have at most 255 bytes; the excluded name is how a path represents null.
_IN_A_PATH = re.compile(r"(?!__HIVE_DEFAULT_PARTITION__$)[A-Za-z0-9_-]{1,200}")


class SourceLine(NamedTuple):
    """The header with the origin of a message, in three parts.

    Between the first two is the sequence in the origin, between the last two the subject there.
    """

    before: bytes
    between: bytes
    after: bytes

    @classmethod
    def of(cls, name: str, filters: str, destinations: str, identity: str) -> SourceLine:
        """Return the header for the messages of one upstream, including the end of the block."""
        ending = f" {identity}" if identity else ""
        return cls(
            SOURCE_HEADER + f": {name} ".encode(),
            f" {filters} {destinations} ".encode(),
            f"{ending}\r\n\r\n".encode(),
        )


class Copied(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What messages of a linked file have in the target of a source, and the file itself lacks.

    It is stored in the notes of the log: a new field requires a new version of those (`stream/notes.py`).
    """

    source: str
    source_id: str
    source_base: int
    """The sequence in the origin is this plus the offset."""
    micros: int
    """When they were copied, which is their time; 0 until then."""
    first_ts: int
    last_ts: int
    """The times in the file itself, of the stream that wrote it."""
    with_headers: int
    """How many messages have headers in the file."""

    @property
    def ts(self) -> int:
        """Return the time of all these messages."""
        return self.micros * 1000

    @property
    def line(self) -> SourceLine:
        """Return the header that each of them has after those in the file."""
        return SourceLine.of(self.source, EVERYTHING, EVERYTHING, self.source_id)

    def added_bytes(self, first_offset: int, last_offset: int, subject_bytes: int) -> int:
        """Return how many bytes the added headers take in a run of messages without gaps."""
        rows = last_offset - first_offset + 1
        first, last = self.source_base + first_offset, self.source_base + last_offset
        lines = rows * sum(map(len, self.line)) + _digits_through(last) - _digits_through(first - 1)
        # An existing block loses the empty line at its end, which then ends the new header.
        starts = (rows - self.with_headers) * len(START) - self.with_headers * len("\r\n")
        return lines + subject_bytes + starts


def fits_in_path(source: tuple[str, str, str, str]) -> bool:
    """Return whether a source is unfiltered and the fields of its header can be folder names."""
    name, filters, destinations, identity = source
    return (
        filters == destinations == EVERYTHING
        and _IN_A_PATH.fullmatch(name) is not None
        and _IN_A_PATH.fullmatch(identity) is not None
    )


def _digits_through(number: int) -> int:
    """Return the total number of digits of the numbers from 1 to this one."""
    digits, least = 0, 1
    while least <= number:
        digits += number - least + 1
        least *= 10
    return digits
