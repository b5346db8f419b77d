"""Files that only our own user may read, written at each start for processes that we start."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.errors import DiskError

_BLOCK = 4096


def write(path: Path, text: str) -> None:
    """Return once the file holds this text; a reader finds the old text or the new one.

    On a full disk the text is written over the old one, which needs no room: empty lines fill the file up to
    whole blocks, so that the next text needs no more of them. There is no old or new text after a crash on
    the way, so only files that are written at each start may be written with this.
    """
    data = text.encode()
    data += b"\n" * (-len(data) % _BLOCK)
    try:
        _replace(path, data)
    except OSError as error:
        refused = DiskError(path, "write", error.errno or 0)
        if not refused.full or not _overwrite(path, data):
            raise refused from error


def remove(path: Path, text: str) -> None:
    """Remove the file if it still holds this text: a new owner of the store may have written its own."""
    try:
        if path.read_bytes().rstrip(b"\n") == text.encode().rstrip(b"\n"):
            path.unlink(missing_ok=True)
    except OSError:
        return


def _replace(path: Path, data: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def _overwrite(path: Path, data: bytes) -> bool:
    """Return whether the file, if there is one, could be written in its place."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        os.fchmod(fd, 0o600)
        written = os.pwrite(fd, data, 0)
        os.ftruncate(fd, written)
        return written == len(data)
    except OSError:
        return False
    finally:
        os.close(fd)
