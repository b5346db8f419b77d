"""The files that a stream's log names and its table does not hold yet.

1. A file is announced before the log names it: readers stop before its first sequence from then on.
2. The log names it durably, or refuses to; a refused one is withdrawn.
3. All files up to a sequence enter the table in their order, with one transaction number that says how far.
4. They are done: readers continue.

Files enter in the order of their sequences, whichever upstream they are from: the table's transaction number
says that all files up to it are there. A crash after 2 leaves files that the next open puts into the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from headwater.errors import Error
from headwater.model.adopted import Adopted


class Adoptions:
    """Announced files by their first sequence; changed on the event loop, read by any thread."""

    def __init__(self) -> None:
        self._waiting: dict[int, Adopted] = {}
        """Files that are announced and not in the table, by first sequence."""
        self._changed = asyncio.Event()
        """Set and replaced when files have left, or nothing is waited for any more."""
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def first_seq(self) -> int:
        """Return the first sequence that cannot be read yet; there must be a file."""
        return min(self._waiting)

    def holding(self, seq: int) -> Adopted | None:
        """Return the file that holds a sequence, if it waits here."""
        for file in list(self._waiting.values()):
            if file.first_seq <= seq <= file.last_seq:
                return file
        return None

    def awaits(self, name: str) -> bool:
        """Return whether a file of this name waits."""
        return any(file.name == name for file in self._waiting.values())

    @property
    def waiting(self) -> list[Adopted]:
        """Return the files that are announced and not in the table."""
        return list(self._waiting.values())

    def through(self, last_seq: int) -> list[Adopted]:
        """Return the files up to a sequence in their order."""
        files = [file for file in list(self._waiting.values()) if file.last_seq <= last_seq]
        return sorted(files, key=lambda file: file.first_seq)

    def announce(self, files: Iterable[Adopted]) -> None:
        """Keep readers from files that are about to be named by the log."""
        self._waiting.update((file.first_seq, file) for file in files)

    def withdraw(self, files: Iterable[Adopted]) -> None:
        """Forget files that the log does not name after all."""
        for file in files:
            if self._waiting.get(file.first_seq) is file:
                del self._waiting[file.first_seq]
        self._wake()

    def replace(self, files: Sequence[Adopted]) -> None:
        """Have exactly these files wait: all that the log names durably and the table does not hold."""
        self._waiting = {file.first_seq: file for file in files}
        self._wake()

    def done(self, last_seq: int) -> None:
        """Let readers continue behind the files up to a sequence: the table holds them."""
        self._waiting = {seq: file for seq, file in self._waiting.items() if file.last_seq > last_seq}
        self._wake()

    async def ended(self, last_seq: int | None = None) -> None:
        """Return once no file up to a sequence waits, or none at all; raise if the stream is closed first."""
        while self._waiting and (last_seq is None or self.first_seq <= last_seq):
            if self._closed:
                raise Error("the stream was closed before all of its files were in its table")
            await self._changed.wait()

    def close(self) -> None:
        """Fail every wait: the files enter the table at the next open."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        """Wake every task that waits."""
        self._changed.set()
        self._changed = asyncio.Event()
