"""The head of a store as its journal has it, written to a folder so that it can be checked."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from headwater.errors import CorruptionError
from headwater.journal.head_journal import HeadJournal, JournalError, UnfitJournalError
from headwater.journal.opened_head import await_journal
from headwater.journal.rebuilding import Rebuilding
from headwater.journal.record import Record, decode
from headwater.journal.takeover import require_finished
from headwater.settings import Settings

TRIES = 20
"""How often the records are read while their owner trims them."""


def journal_settings(address: str, creds: Path | None = None) -> Settings:
    """Return settings that name a journal; the tables are where the head says, so any address does here."""
    return Settings(journal=address, journal_creds=creds, tables="file:///unused")


def rebuild_head(settings: Settings, folder: Path) -> Record:
    """Write what an engine would take over to a folder, and return the last record; nothing is appended."""
    with closing(await_journal(settings, reads_only=True)) as journal:
        for _ in range(TRIES - 1):
            last = journal.last()
            try:
                return _rebuild(journal, last, folder)
            except (CorruptionError, JournalError):
                # An owner that is alive may have trimmed what we were reading.
                if journal.last() == last:
                    raise
        return _rebuild(journal, journal.last(), folder)


def _rebuild(journal: HeadJournal, last: int, folder: Path) -> Record:
    found = journal.get(last) if last else None
    if found is None:
        raise UnfitJournalError(f"the journal {journal.address} contains no store")
    final = decode(found, journal.address, last)
    require_finished(final, journal.address)
    rebuilding = Rebuilding(folder)
    rebuilding.clear()
    for position, encoded in enumerate(journal.read(final.floor, last), final.floor):
        rebuilding.apply(decode(encoded, journal.address, position))
    return final
