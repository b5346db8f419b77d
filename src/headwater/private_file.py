"""Files that only their owner may read: secrets, and files for processes that this one starts."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.errors import DiskError

_BLOCK = 4096


def replace(path: Path, data: bytes) -> None:
    """Replace the file atomically. Missing directories are created."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def write(path: Path, text: str) -> None:
    """Write a file that is written at each start, even on a full disk.

    On a full disk the old text is overwritten in place, which needs no new blocks: the file is padded with
    empty lines to whole blocks, so that the next text fits. A crash during that write leaves neither the old
    nor the new text, so that only files that are written at each start may be written with this.
    """
    data = text.encode()
    data += b"\n" * (-len(data) % _BLOCK)
    try:
        replace(path, data)
    except OSError as error:
        refused = DiskError(path, "write", error.errno or 0)
        if not refused.full or not _overwrite(path, data):
            raise refused from error


def remove(path: Path, text: str) -> None:
    """Remove the file if it still has this text: a new owner of the store may have written its own."""
    try:
        if path.read_bytes().rstrip(b"\n") == text.encode().rstrip(b"\n"):
            path.unlink(missing_ok=True)
    except OSError:
        return


def _overwrite(path: Path, data: bytes) -> bool:
    """Return whether an existing file could be overwritten in place."""
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
