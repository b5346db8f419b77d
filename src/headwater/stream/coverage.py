"""Whether log and table together hold every message of the ledger; asked when a stream is opened.

A Delta commit that is lost, to damage or by a restored backup, takes the table back to an older version:
messages that the log was trimmed of are then in neither. Files that hold them are taken into the table
again. Where there are none the stream is refused, until `headwater store repair` records the messages as
lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from headwater.errors import CorruptionError
from headwater.stream.head import Head
from headwater.stream.ledger import Ledger
from headwater.stream.replay import live_seqs
from headwater.table import salvage
from headwater.table.delta_recovery import REPAIR
from headwater.table.found_file import FoundFile
from headwater.table.table import Table

if TYPE_CHECKING:
    from headwater.stream.store import Store

logger = logging.getLogger(__name__)

Span = tuple[int, int, int]
"""First and last sequence, and the most messages that there can be between them."""


def uncovered(
    live_between: Callable[[int, int], int], first_seq: int, last_seq: int, spans: Iterable[Span]
) -> list[tuple[int, int]]:
    """Return the ranges in which there are fewer messages than live ones."""
    holes = []
    at = first_seq
    for first, last, rows in sorted(spans):
        if first > at and live_between(at, first - 1):
            holes.append((at, first - 1))
        if live_between(first, last) > rows:
            holes.append((first, last))
        at = max(at, last + 1)
    if at <= last_seq and live_between(at, last_seq):
        holes.append((at, last_seq))
    return holes


def holes(ledger: Ledger, head: Head, table: Table) -> list[tuple[int, int]]:
    """Return the ranges in which messages live that neither the head nor a file that is there holds."""
    missing = table.missing
    spans = [(file.first_seq, file.last_seq, file.rows) for file in table.files if file not in missing]
    spans += [(first, last, last - first + 1) for first, last in head.spans()]
    return uncovered(ledger.live_between, ledger.first_seq, ledger.last_seq, spans)


def in_head(head: Head) -> BitMap64:
    """Return the sequences that the head may hold."""
    found = BitMap64()
    for first, last in head.spans():
        found.add_range(first, last + 1)
    return found


def folded(ledger: Ledger, files: Iterable[FoundFile]) -> int:
    """Return up to which sequence a table with these files holds everything that lives."""
    held, last_seq = BitMap64(), 0
    for each in files:
        held |= each.seqs
        last_seq = max(last_seq, each.file.last_seq)
    rest = live_seqs(ledger) - held
    return min(last_seq, rest.min() - 1) if rest else last_seq


def ensure(store: Store, fold: str, adoption: str) -> None:
    """Return once every message can be found; make a table that is behind whole, or refuse it."""
    table, ledger = store.table, store.ledger
    if holes(ledger, store.head, table):
        _salvage(store, fold, adoption)
    lost = holes(ledger, store.head, table)
    behind = [hole for hole in lost if not _is_in_missing_file(table, hole)]
    if behind and not store.forgiving:
        (first, last), more = behind[0], len(behind) - 1
        what = f"its Delta log does not name the files of sequences {first} to {last}"
        what += f" and of {more} more ranges" if more else ""
        raise CorruptionError(table.directory, 0, f"{what}; {REPAIR}")
    for first, last in lost:
        name = store.config.name
        logger.error("stream %s: the file of sequences %d to %d is missing; %s", name, first, last, REPAIR)
    if not lost or store.forgiving:
        table.settle()


def _salvage(store: Store, fold: str, adoption: str) -> None:
    """Take files into the table again that no commit names and that hold what is missing."""
    table, ledger = store.table, store.ledger
    referenced = [table.found(file) for file in table.files]
    chosen = salvage.plan(live_seqs(ledger), in_head(store.head), referenced, table.unreferenced())
    if not chosen.add:
        return
    gone = {file.path for file in chosen.remove}
    files = [each for each in referenced if each.file.path not in gone]
    files += [each for each in table.unreferenced() if each.file in chosen.add]
    transactions = {
        fold: max(table.transaction(fold) or 0, folded(ledger, files)),
        adoption: max(table.transaction(adoption) or 0, max(file.last_seq for file in chosen.add)),
    }
    table.commit(add=chosen.add, remove=chosen.remove, transactions=transactions)
    store.head.release_through(transactions[fold])
    what = f"its Delta log was behind; {len(chosen.add)} files that it did not name hold what was missing"
    store.repaired.append(what)
    logger.error("stream %s: %s", store.config.name, what)


def _is_in_missing_file(table: Table, hole: tuple[int, int]) -> bool:
    return any(file.first_seq <= hole[0] and hole[1] <= file.last_seq for file in table.missing)
