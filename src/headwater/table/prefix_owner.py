"""The engine that uses a prefix of a bucket: an object names it, and each start replaces that object.

Two engines can use one prefix if the folder of a store was copied, or if an engine was wrongly assumed dead.
The one that started last owns the prefix. The other finds that out before its next commit, and before it
removes anything, and then stops: it would remove files that only the other engine knows.

A data file never replaces another: its name has 128 random bits. A commit never does: it is put if absent.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from uuid import uuid4

import msgspec

from headwater.errors import Error
from headwater.model.sealed import SealError, seal, unseal
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import Objects

OWNER = ".headwater/owner"
VERSION = 1
CHECK_S = 1.0
"""How long a commit relies on the last check. What removes objects always checks."""
_TRIES = 8
_RACED = (Problem.EXISTS, Problem.CHANGED)


class PrefixOwnerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The engine that started last with this prefix."""

    store: str
    epoch: int
    instance: str
    """Distinguishes two engines with the same epoch."""
    host: str
    pid: int


class PrefixOwner:
    """This engine's ownership of a prefix: taken at the start, checked on any thread."""

    def __init__(self, objects: Objects, store: str, epoch: int, lose: Callable[[str], Error]) -> None:
        """Have `lose` return the error to raise once another engine has taken over."""
        self._objects = objects
        self._lose = lose
        self._lock = threading.Lock()
        self._record = PrefixOwnerRecord(
            store=store, epoch=epoch, instance=uuid4().hex, host=socket.gethostname(), pid=os.getpid()
        )
        self._e_tag = ""
        """Of our record, empty until the bucket has it."""
        self._checked_s = float("-inf")
        """When the owner was last read, by the monotonic clock."""

    def take(self) -> None:
        """Return once the object names this engine."""
        with self._lock:
            self._take()

    def require(self, *, within_s: float = 0.0) -> None:
        """Raise if another engine has taken over, as far as is known for so long."""
        with self._lock:
            if time.monotonic() - self._checked_s < within_s:
                return
            if not self._e_tag:
                self._take()  # the bucket was away when the engine started
            elif not self._is_unchanged():
                self._look()
            self._checked_s = time.monotonic()

    def _take(self, *, replaces: bool = True) -> None:
        """Write our record; without `replaces`, only in place of one that is missing or damaged."""
        record = seal(self._record, VERSION)
        for _ in range(_TRIES):
            found, e_tag = self._read()
            if found is not None and found.instance == self._record.instance:
                self._e_tag = e_tag
                return
            if found is not None and not replaces:
                raise self._lost_to(found)
            try:
                if e_tag:
                    self._objects.put_if_match(OWNER, record, e_tag)
                else:
                    self._objects.put_if_absent(OWNER, record)
            except ObjectError as error:
                # After an unknown outcome the next read says whose it is.
                if error.problem not in _RACED:
                    raise
        raise ObjectError(f"{self._objects.address}/{OWNER}", "write", Problem.CHANGED)

    def _is_unchanged(self) -> bool:
        try:
            return self._objects.head(OWNER).e_tag == self._e_tag
        except ObjectError as error:
            if error.problem is Problem.MISSING:
                return False
            raise

    def _look(self) -> None:
        """Raise if the object names another engine; if it is gone, write it again."""
        found, e_tag = self._read()
        if found is None:
            # Another engine may write its own meanwhile, or only this answer was damaged.
            self._take(replaces=False)
        elif found.instance != self._record.instance:
            raise self._lost_to(found)
        else:
            self._e_tag = e_tag

    def _lost_to(self, found: PrefixOwnerRecord) -> Error:
        where = f"process {found.pid} on {found.host or 'another host'}"
        return self._lose(f"{where} uses {self._objects.address}, with epoch {found.epoch}")

    def _read(self) -> tuple[PrefixOwnerRecord | None, str]:
        """Return the record and its ETag, nothing if there is none; a damaged one is replaced."""
        try:
            e_tag = self._objects.head(OWNER).e_tag
            return unseal(self._objects.get(OWNER), PrefixOwnerRecord, VERSION), e_tag
        except SealError:
            return None, e_tag
        except ObjectError as error:
            if error.problem is Problem.MISSING:
                return None, ""
            raise
