"""Where a sourced message came from: as its header tells, and of files that were taken over without one."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from headwater.model import headers as header_block

SOURCE_HEADER = b"Nats-Stream-Source"
EVERYTHING = ">"
START = header_block.VERSION + b"\r\n"
# Names of folders have 255 bytes at the most; the one left out is how a path says null.
_IN_A_PATH = re.compile(r"(?!__HIVE_DEFAULT_PARTITION__$)[A-Za-z0-9_-]{1,200}")


class SourceLine(NamedTuple):
    """The header that tells where a message came from, in three parts.

    Between the first two stands the sequence in the origin, between the last two the subject there.
    """

    before: bytes
    between: bytes
    after: bytes

    @classmethod
    def of(cls, name: str, filters: str, destinations: str, identity: str) -> SourceLine:
        """Return the header for the messages of one upstream, the end of the block included."""
        ending = f" {identity}" if identity else ""
        return cls(
            SOURCE_HEADER + f": {name} ".encode(),
            f" {filters} {destinations} ".encode(),
            f"{ending}\r\n\r\n".encode(),
        )


class Copied(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the messages of a linked file have in the target of a source, and the file itself does not say.

    It stands in the notes of the log: a new field is a new version of those (`stream/notes.py`).
    """

    source: str
    source_id: str
    source_base: int
    """The sequence in the origin is this plus the offset."""
    micros: int
    """When they were copied, which is their time; 0 until they are."""
    first_ts: int
    last_ts: int
    """What the file itself says: times in the stream that wrote it."""
    with_headers: int
    """How many messages have headers in the file."""

    @property
    def ts(self) -> int:
        """Return the time of all these messages."""
        return self.micros * 1000

    @property
    def line(self) -> SourceLine:
        """Return the header that each of them has behind those in the file."""
        return SourceLine.of(self.source, EVERYTHING, EVERYTHING, self.source_id)

    def added_bytes(self, first_offset: int, last_offset: int, subject_bytes: int) -> int:
        """Return how much longer a run of messages without gaps is than in the file, by their headers."""
        rows = last_offset - first_offset + 1
        first, last = self.source_base + first_offset, self.source_base + last_offset
        lines = rows * sum(map(len, self.line)) + _digits_through(last) - _digits_through(first - 1)
        # A block that is there already loses the empty line at its end, which is that of the new header then.
        starts = (rows - self.with_headers) * len(START) - self.with_headers * len("\r\n")
        return lines + subject_bytes + starts


def fits_in_path(source: tuple[str, str, str, str]) -> bool:
    """Return whether a source takes everything and what its header says can be names of folders."""
    name, filters, destinations, identity = source
    return (
        filters == destinations == EVERYTHING
        and _IN_A_PATH.fullmatch(name) is not None
        and _IN_A_PATH.fullmatch(identity) is not None
    )


def _digits_through(number: int) -> int:
    """Return how many digits the numbers from 1 on up to this one have together."""
    digits, least = 0, 1
    while least <= number:
        digits += number - least + 1
        least *= 10
    return digits
