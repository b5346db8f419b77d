"""Rebuilds the Delta log of a stream's table from its files.

1. The log of the stream says which messages it holds whole, and which files it named for adoption.
2. Of the files that pass their checksums those are chosen that hold messages which the log does not hold.
3. The old Delta log and the damaged files go to quarantine.
4. A new Delta log is made, and one commit adds the chosen files with the transactions that fit them.

A crash after 3 leaves a table without a log, which is refused until the repair runs again. Files that are
not chosen stay where they are: after the stream has found all its messages they are swept like any file
that was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyroaring import BitMap64

from headwater.disk import Disk
from headwater.errors import CorruptionError
from headwater.log import checkpoint_copy
from headwater.log.log import Log
from headwater.model.adopted import Adopted
from headwater.store.quarantine import Quarantine
from headwater.stream import notes
from headwater.stream.store import ADOPTION, FOLD
from headwater.table import salvage
from headwater.table.delta_log import DeltaLog
from headwater.table.delta_recovery import SUMS, TORN
from headwater.table.found_file import FoundFile, read_found
from headwater.table.table_storage import LocalTableStorage, TableStorage


@dataclass(frozen=True)
class Logged:
    """What the log of a stream holds."""

    batches: Sequence[BitMap64]
    """The sequences of the messages in each intact batch; none is empty."""
    adopted: Sequence[Adopted]

    @property
    def seqs(self) -> BitMap64:
        """Return the sequences of all messages in it."""
        found = BitMap64()
        for batch in self.batches:
            found |= batch
        return found


@dataclass(frozen=True)
class Rebuilt:
    """The contents of a new Delta log."""

    files: list[FoundFile]
    transactions: dict[str, int]
    damaged: list[str]


def read_log(directory: Path, disk: Disk) -> Logged:
    """Return what can be read of a stream's log from its checkpoint on, or all if there is no checkpoint."""
    try:
        taken = checkpoint_copy.current(disk, directory / "checkpoint", directory / "log")
    except CorruptionError:
        taken = checkpoint_copy.usable(disk, directory / "checkpoint", directory / "log")
    log = Log.open(directory / "log", disk, from_segment=taken.segment if taken else 0)
    try:
        batches: list[BitMap64] = []
        adopted: list[Adopted] = []
        for _, batch in log.replay():
            if batch.count:
                batches.append(BitMap64(batch.seqs.tolist()))
            adopted += notes.decode(batch.notes).adopted
        return Logged(batches, adopted)
    finally:
        log.close()


def choose(logged: Logged, found: Sequence[FoundFile], staged: Sequence[str]) -> Rebuilt:
    """Return the files that a table needs in addition to the log, and how far they reach. Pure code."""
    everything = BitMap64()
    for each in found:
        everything |= each.seqs
    chosen = salvage.plan(everything, logged.seqs, [], found)
    paths = {file.path for file in chosen.add}
    files = sorted((each for each in found if each.file.path in paths), key=lambda each: each.file.first_seq)
    held = BitMap64()
    for each in files:
        held |= each.seqs
    first_logged = min((batch.min() for batch in logged.batches), default=None)
    before = [f.file.last_seq for f in files if first_logged is None or f.file.last_seq < first_logged]
    in_both = [batch.max() for batch in logged.batches if batch & held]
    waiting = [adopted.first_seq for adopted in logged.adopted if adopted.name in staged]
    through = max((each.file.last_seq for each in files), default=0)
    adoption = min([through, *(seq - 1 for seq in waiting)])
    transactions = {FOLD: max([0, *before, *in_both]), ADOPTION: max(adoption, 0)}
    return Rebuilt(files, transactions, [])


def read_files(storage: TableStorage) -> tuple[list[FoundFile], list[str]]:
    """Return the data files that pass their checksums, and the paths of those that do not."""
    found: list[FoundFile] = []
    damaged: list[str] = []
    for path in list(storage.paths()):
        try:
            found.append(read_found(storage.directory, path, storage.open(path, uncached=True)))
        except CorruptionError:
            damaged.append(path)
    return found, damaged


def rebuild(directory: Path, disk: Disk, name: str, quarantine: Quarantine) -> Rebuilt:
    """Return what the new Delta log of a stream holds, once it is durable."""
    table = directory / "table"
    disk.mkdir(table)
    storage = LocalTableStorage(table, disk)
    return rebuild_on(storage, directory, disk, name, lambda path: quarantine.take(table / path))


def rebuild_on(
    storage: TableStorage, directory: Path, disk: Disk, name: str, set_aside: Callable[[str], None]
) -> Rebuilt:
    """Return the same for a table on this storage, whose damaged files and old log are set aside."""
    found, damaged = read_files(storage)
    chosen = choose(read_log(directory, disk), found, storage.staging.names())
    for each in ("_delta_log", TORN, SUMS, *damaged):
        set_aside(each)
    log = DeltaLog.open_on(storage, name, partitions_of(chosen.files))
    log.commit([each.file for each in chosen.files], [], chosen.transactions)
    return Rebuilt(chosen.files, chosen.transactions, damaged)


def partitions_of(files: Sequence[FoundFile]) -> bool:
    """Return whether the folders of the files are those of a table that records the source of a file."""
    return all(each.file.path.count("/") > 1 for each in files)
