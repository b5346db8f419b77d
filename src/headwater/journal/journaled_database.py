"""Ships a SQLite file to the journal: the pages that a transaction changed, before it commits here."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from headwater.errors import DiskError
from headwater.journal.journaled_disk import JournaledDisk
from headwater.journal.record import PIECE_BYTES, ChangePiece, FileOp, parts

PAGE = 4096
SPARE_BYTES = 256 << 10
"""How many bytes of changed pages are shipped, on top of four times the file, before the whole file is."""


class JournaledDatabase:
    """One SQLite file, whose transactions are shipped one at a time."""

    def __init__(self, disk: JournaledDisk, path: Path) -> None:
        """The file may exist: at the first time it is what was written from the journal."""
        self._disk = disk
        self._path = path
        self._name = path.name
        self._image = disk.image(path)
        """The content that the journal has."""
        self._before = self._image
        """The content before the last transaction."""
        self._spent = 0
        """Bytes shipped since the whole file was."""

    def ship(self, db: sqlite3.Connection) -> None:
        """Return once the journal has the open transaction; on an error, the transaction is undone there."""
        image = db.serialize()
        self._before = self._image
        if image == self._image:
            return
        self._queue(image)
        try:
            self._disk.flush()
        except DiskError:
            self._queue_undo()
            raise

    def undo(self) -> None:
        """Return once the journal has forgotten the last transaction, which failed here, if it answers.

        Until then an engine that takes over would see what is refused here.
        """
        self._queue_undo()
        with suppress(DiskError):
            self._disk.flush()

    def _queue_undo(self) -> None:
        if self._image != self._before:
            self._queue(self._before)

    def _queue(self, image: bytes) -> None:
        pieces = changed(self._name, self._image, image)
        size = sum(len(piece.data) for piece in pieces)
        if size + self._spent > 4 * len(image) + SPARE_BYTES:
            pieces, self._spent = parts(FileOp.WHOLE, self._name, 0, image), 0
        else:
            self._spent += size
        self._disk.ship_image(self._path, pieces, image)
        self._image = image


def changed(name: str, old: bytes, new: bytes) -> list[ChangePiece]:
    """Return the pieces that change one content of a file to another, all of them or none."""
    if len(new) < len(old) or not old:
        return parts(FileOp.WHOLE, name, 0, new)
    found: list[ChangePiece] = []
    for start, end in _runs(old, new):
        found += [
            ChangePiece(FileOp.WRITE, name, at, new[at : min(at + PIECE_BYTES, end)], True)
            for at in range(start, end, PIECE_BYTES)
        ]
    return [*found[:-1], ChangePiece(FileOp.WRITE, name, found[-1].offset, found[-1].data)] if found else []


def _runs(old: bytes, new: bytes) -> list[tuple[int, int]]:
    """Return the ranges of changed pages."""
    runs: list[tuple[int, int]] = []
    for start in range(0, len(new), PAGE):
        end = min(start + PAGE, len(new))
        if old[start:end] == new[start:end]:
            continue
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((start, end))
    return runs
