"""The state of a table in a bucket, kept on the disk: a stream opens with it while the bucket is unreachable.

It is written after each commit. If a crash comes first, it is older than the table. So nothing is committed
on top of it before the bucket has confirmed the version, and nothing is swept. It is not part of a journal.
"""

from __future__ import annotations

import msgspec

from headwater.model.sealed import SealError, seal, unseal
from headwater.table.datafile import DataFile

VERSION = 1


class TableSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a table: its files, and the transactions that a stream needs."""

    version: int
    partitions: tuple[str, ...]
    files: tuple[DataFile, ...]
    transactions: dict[str, int]


def encode(snapshot: TableSnapshot) -> bytes:
    """Return a snapshot as the content of a file."""
    return seal(snapshot, VERSION)


def decode(content: bytes | None) -> TableSnapshot | None:
    """Return the snapshot in a file; None if there is none, or it is damaged or of a newer release."""
    try:
        return unseal(content, TableSnapshot, VERSION) if content is not None else None
    except SealError:
        return None
