"""Ownership of a store: an epoch, raised at every takeover, in a file that is read before each ack.

The lock separates engines on one machine. It can be lost on a network file system, or when a user removes or
moves files. So a takeover writes a record with the next epoch *before* it reads anything, and the owner reads
the record *after* each sync, before it acknowledges. If the record is still its own, the next owner will find
what was synced. If not, the store is lost to this engine, and nothing is acknowledged.

    0   8  magic F1 "HWEPO" 0D 0A
    8   4  version, 1
    12  4  CRC of all other bytes
    16  8  epoch
    24  8  process id of the owner
    32  16 random bytes, which distinguish two owners with the same epoch
    48  80 name of the owner's host

The record is overwritten in place, which needs no space on a full disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from errno import ENOENT
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import NamedTuple
from uuid import uuid4

from headwater.checksum import crc32
from headwater.errors import CorruptionError, DiskError, FencedError, NewerFormatError
from headwater.threads import on_thread

logger = logging.getLogger(__name__)

NAME = "epoch"
MAGIC = b"\xf1HWEPO\r\n"
VERSION = 1
CACHE_VERSION = 2
"""The version in a directory that is a cache of a journal: releases that know no journal must refuse it."""
LOOK_S = 1.0
"""How often an engine that has nothing to acknowledge checks its ownership."""

_RECORD = Struct("<8sIIQQ16s80s")
_CRC_AT, _CRC_END = 12, 16


class Owner(NamedTuple):
    """The engine that took over a store."""

    epoch: int
    pid: int
    instance: bytes
    host: str
    version: int = VERSION

    def encode(self) -> bytes:
        """Return the record as bytes."""
        host = self.host.encode()[:80]
        record = _RECORD.pack(MAGIC, self.version, 0, self.epoch, self.pid, self.instance, host)
        return record[:_CRC_AT] + _crc(record).to_bytes(4, "little") + record[_CRC_END:]

    @classmethod
    def decode(cls, record: bytes, path: Path) -> Owner:
        """Return the owner in these bytes; refuse damaged ones and those of a newer release."""
        if len(record) < _RECORD.size or not record.startswith(MAGIC):
            raise CorruptionError(path, 0, "it is not a record of an owner")
        _, version, crc, epoch, pid, instance, host = _RECORD.unpack_from(record)
        if crc != _crc(record[: _RECORD.size]):
            raise CorruptionError(path, _CRC_AT, "the checksum of the owner does not match")
        if version > CACHE_VERSION:
            raise NewerFormatError(f"the record {path}", version, CACHE_VERSION)
        return cls(epoch, pid, instance, host.rstrip(b"\0").decode(errors="replace"), version)


class Ownership:
    """This engine's ownership of a store: taken once, checked from any thread; once lost, it stays lost."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = store / NAME
        self._version = VERSION
        """That of the record: another one if the directory is a cache of a journal."""
        self._record = b""
        """Our own record, as it must be on disk."""
        self._lock = threading.Lock()
        self._error: FencedError | None = None
        """Why the ownership was lost; set once."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop on which the loss is announced."""
        self._lost = asyncio.Event()
        """Set on the event loop once the ownership is lost."""
        self.epoch = 0
        """0 until the store is taken."""

    def take(self, above: int = 0, *, is_cache: bool = False) -> None:
        """Return once this engine durably owns the store, with an epoch above all others and `above`.

        A directory that was taken as a cache of a journal stays one.
        """
        self._version = CACHE_VERSION if is_cache else self._version
        self.epoch = max(self.last_epoch(), above) + 1
        owner = Owner(self.epoch, os.getpid(), uuid4().bytes, socket.gethostname(), self._version)
        self._record = owner.encode()
        with _Writing(self._path):
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                os.pwrite(fd, self._record, 0)
                os.fsync(fd)
            except OSError:
                if not os.fstat(fd).st_size:
                    self._path.unlink()  # an empty one would count as a damaged record
                raise
            finally:
                os.close(fd)
            directory = os.open(self._store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def last_epoch(self) -> int:
        """Return the epoch of the last owner, 0 if there is no readable record."""
        try:
            return Owner.decode(self._path.read_bytes(), self._path).epoch
        except FileNotFoundError:
            return 0
        except CorruptionError as error:
            # The catalog has the epoch, too, and each log continues with the highest one that it knows.
            logger.error("%s", error)
            return 0

    def check(self) -> None:
        """Return if this engine owns the store; raise `FencedError`, now and on every later call, if not."""
        if self._error is not None:
            raise self._error
        if not self._record:
            return
        # Opened each time: only that makes a network file system ask its server.
        found = self._read()
        if found != self._record:
            raise self.lose(self._reason(found))

    def _read(self) -> bytes:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(fd, _RECORD.size, 0)
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno == ENOENT:
                return b""
            raise DiskError(self._path, "read", error.errno or 0) from error

    def lose(self, reason: str) -> FencedError:
        """Return the error of this and every later check: the store has another owner."""
        with self._lock:
            if self._error is None:
                self._error = FencedError(self._store, self.epoch, reason)
                if self._loop is not None and not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(self._lost.set)
        return self._error

    def _reason(self, found: bytes) -> str:
        if not found:
            return f"{self._path} was removed"
        try:
            owner = Owner.decode(found, self._path)
        except (CorruptionError, NewerFormatError) as error:
            return str(error)
        return f"process {owner.pid} on {owner.host or 'another host'} has it, with epoch {owner.epoch}"

    @property
    def is_lost(self) -> bool:
        """Return whether another engine was found to own the store."""
        return self._error is not None

    async def lost(self) -> FencedError:
        """Return the error once the store is lost."""
        self._loop = asyncio.get_running_loop()
        while self._error is None:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._lost.wait()
            except TimeoutError:
                await on_thread(self._look)
        return self._error

    def _look(self) -> None:
        try:
            self.check()
        except FencedError:
            pass
        except DiskError as error:
            logger.warning("cannot check whether this engine still owns its store: %s", error)


class _Writing:
    """A block in which an OSError becomes a DiskError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise DiskError(self._path, "write", error.errno or 0) from error


def _crc(record: bytes) -> int:
    return crc32(record[_CRC_END:], crc32(record[:_CRC_AT]))
