"""Writes the head of a store from the records of a journal, over whatever the directory held before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from headwater.disk import DIRECTORY_MODE, FILE_MODE
from headwater.errors import CorruptionError
from headwater.journal.contents import Contents
from headwater.journal.record import ChangePiece, FileOp, Record, RecordKind


class Rebuilding:
    """The directory while records are applied to it, in order, from the first that is needed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._partial: list[ChangePiece] = []
        """The pieces of a change whose last piece was not read yet."""
        self.contents = Contents()

    def clear(self) -> None:
        """Remove what an earlier engine wrote here: accounts and databases."""
        for entry in self.leftovers():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def leftovers(self) -> list[Path]:
        """Return what is in the directory that is part of a head."""
        return [
            entry
            for entry in self._root.iterdir()
            if (entry.is_dir() and not entry.name.startswith(".")) or ".db" in entry.name
        ]

    def apply(self, record: Record) -> None:
        """Make the changes of a record that are complete."""
        if record.kind == RecordKind.TAKEOVER:
            self._partial.clear()
            self.contents.abandon()
        self.contents.apply(record.position, record.pieces)
        for piece in record.pieces:
            self._partial.append(piece)
            if not piece.more:
                for part in self._partial:
                    self._change(part)
                self._partial.clear()

    def lengths(self, names: Iterable[str]) -> dict[str, int]:
        """Return the lengths of files."""
        return {name: (self._root / name).stat().st_size for name in names}

    def _change(self, piece: ChangePiece) -> None:
        path = self._path(piece.path)
        match piece.op:
            case FileOp.WRITE:
                _write(path, piece.offset, piece.data)
            case FileOp.WHOLE:
                path.unlink(missing_ok=True)
                _write(path, 0, piece.data)
            case FileOp.TRUNCATE:
                _write(path, 0, b"")
                os.truncate(path, piece.offset)
            case FileOp.REMOVE if path.is_dir():
                shutil.rmtree(path)
            case FileOp.REMOVE:
                path.unlink(missing_ok=True)
            case FileOp.RENAME:
                _rename(path, self._path(piece.data.decode()))
            case _:
                raise CorruptionError(path, 0, f"the journal has a change of an unknown kind, {piece.op}")

    def _path(self, name: str) -> Path:
        if name.startswith("/") or ".." in name.split("/"):
            raise CorruptionError(name, 0, "the journal names a file outside the store")
        return self._root / name


def _write(path: Path, offset: int, data: bytes) -> None:
    path.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        view = memoryview(data)
        while view:
            written = os.pwrite(fd, view, offset)
            view, offset = view[written:], offset + written
    finally:
        os.close(fd)


def _rename(source: Path, target: Path) -> None:
    # It may be missing: its records were trimmed after the renamed files were written again.
    if not source.exists():
        return
    target.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    if target.is_dir():
        shutil.rmtree(target)
    source.rename(target)
