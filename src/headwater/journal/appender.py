"""Appends records as one engine, and decides what an unknown outcome was.

After an error the position is read. If our own record is there, it is durable. If another engine's record is
there, we are fenced permanently. If nothing is there, the same record is appended again with the same
expectation, so it does not matter if the first one arrives late.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from uuid import uuid4

from headwater.backoff import Backoff
from headwater.errors import CorruptionError, DiskError
from headwater.journal.head_journal import HeadJournal, JournalError, PositionTakenError
from headwater.journal.record import ChangePiece, Record, RecordKind, decode

logger = logging.getLogger(__name__)

RETRY_FIRST_S = 0.05
RETRY_MOST_S = 1.0


class JournalFencedError(Exception):
    """Another engine has written a record at our next position; `owner` names the engine."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


class Appender:
    """One engine's end of a journal; one thread uses it."""

    def __init__(self, journal: HeadJournal, journal_id: str, epoch: int, owner: str, last: int) -> None:
        self._journal = journal
        self.journal_id = journal_id
        self.epoch = epoch
        self._owner = owner
        self._engine = uuid4().bytes
        self.last = last
        """The position of the last record."""

    def append(
        self,
        kind: RecordKind,
        pieces: tuple[ChangePiece, ...],
        floor: int,
        is_given_up: Callable[[DiskError], bool] = lambda error: True,
    ) -> int:
        """Return the size of the record, once it is durable at the next position.

        Raise `JournalFencedError` if the position is another engine's. While the journal does not answer,
        retry until `is_given_up` accepts its error; the outcome is unknown then.
        """
        record = Record(
            journal=self.journal_id,
            epoch=self.epoch,
            engine=self._engine,
            owner=self._owner,
            position=self.last + 1,
            floor=floor,
            kind=kind,
            pieces=pieces,
        ).encode()
        waits = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
        while True:
            try:
                if self._is_appended(record):
                    self.last += 1
                    return len(record)
            except DiskError as error:
                if is_given_up(error):
                    raise
            time.sleep(waits.next_s())

    def _is_appended(self, record: bytes) -> bool:
        try:
            self._journal.append(self.last + 1, record)
        except PositionTakenError:
            return self._is_ours(record)
        except DiskError as error:
            if self._is_ours(record):
                return True
            raise error
        return True

    def _is_ours(self, record: bytes) -> bool:
        """Return whether our record is at its position, False if nothing is there; raise if another is."""
        position = self.last + 1
        found = self._journal.get(position)
        last = self._journal.last(self.last) if found is None else position
        if last < self.last:
            raise JournalError(
                self._journal.address,
                "append to",
                f"its last record is {last}, but {self.last} was written: it was deleted or replaced",
            )
        if found is None and last >= position:
            # It may have arrived between both requests. If not, another engine wrote it and trimmed it.
            found = self._journal.get(position) or b""
        if found is None:
            return False
        if found != record:
            raise JournalFencedError(_owner_of(found, self._journal.address, position))
        return True


def _owner_of(found: bytes, address: str, position: int) -> str:
    try:
        record = decode(found, address, position)
    except CorruptionError:
        return "another engine"
    return f"{record.owner} has it, with epoch {record.epoch}"
