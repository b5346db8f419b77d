"""Checks one stream while an engine serves it: only files are read, and nothing is locked or changed.

- Data files and commits never change once they are named. A file may be compacted away: it is a problem only
  if the table still names it afterwards.
- A log segment with a successor is sealed. Of the newest one everything is checked that an intact record
  follows; its end is being written.
- Small files are replaced as a whole.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from headwater.checksum import crc32
from headwater.control import declaration
from headwater.control.declaration import CONSUMERS
from headwater.disk import Disk, RealDisk
from headwater.errors import CorruptionError, DiskError
from headwater.log import checkpoint, newest
from headwater.log.checkpoint_copy import copy_path, current
from headwater.log.recovery import numbers_in, survey
from headwater.log.segment import Damage, Position, scan, segment_path
from headwater.model.sealed import SealError
from headwater.store.fetched_table import fetch
from headwater.store.finding import Finding, Kind, problem
from headwater.store.recheck import confirmed
from headwater.store.survey import StreamDirectory
from headwater.table import delta_recovery, schema
from headwater.table.commit_file import checkpoint_name, checkpoints
from headwater.table.datafile import DataFile
from headwater.table.found_file import read_found
from headwater.table.remote_table import read_remote

Progress = Callable[[str], None]
OFFLINE = "Stop the engine and run `headwater store verify`, then `headwater store repair`"
_LOST = "The messages in it cannot be served"
_AT_START = "The stream will not open at the next start"
_ONE_OF_TWO = "The engine keeps two copies, and uses the other one if that is whole"
_END_UNKNOWN = "If the end of the log was missing, it would not be noticed"
_LOG_LOST = "Messages in it that the table does not have are lost at the next start"


class OnlineCheck:
    """The findings about one stream's directory that hold on every look."""

    def __init__(self, home: StreamDirectory) -> None:
        self._home = home.path
        self._id = home.id
        self._suspects: set[str] | None = None
        """The data files that the last look found damaged; None before the first look."""

    def run(self, progress: Progress) -> list[Finding]:
        """Return what is wrong with the stream, nothing if it was deleted meanwhile."""
        found: list[Finding] = []
        progress("small files")
        found += confirmed(self._small_files)
        progress("log")
        found += confirmed(self._log)
        progress("table")
        found += confirmed(lambda: self._table(progress))
        return found if self.is_there else []

    @property
    def is_there(self) -> bool:
        """Return whether the directory is still that of the same stream."""
        try:
            found = declaration.read_identity(RealDisk(), self._home)
        except (SealError, DiskError):
            return self._home.exists()
        return found is not None and (not self._id or found.identity == self._id)

    def _small_files(self) -> list[Finding]:
        disk, found = RealDisk(), []
        for file in declaration.consumer_files(disk, self._home):
            try:
                declaration.read_consumer(disk, self._home, file)
            except SealError as error:
                path = self._home / CONSUMERS / str(file)
                found.append(problem(Kind.DECLARATION, path, error, "A lost catalog would lose it", OFFLINE))
        for path in (self._home / "checkpoint", copy_path(self._home / "checkpoint")):
            try:
                checkpoint.read(disk, path)
            except CorruptionError as error:
                found.append(problem(Kind.CHECKPOINT, path, error, _ONE_OF_TWO, OFFLINE))
        try:
            newest.read(disk, self._home / newest.FILE)
        except CorruptionError as error:
            found.append(problem(Kind.LOG, self._home / newest.FILE, error, _END_UNKNOWN, OFFLINE))
        return found

    def _log(self) -> list[Finding]:
        # A new disk for each look: it keeps no file open that was replaced.
        disk, directory = RealDisk(), self._home / "log"
        # Before the segments are listed, which always go on to a later one.
        recorded = self._recorded(disk)
        numbers = numbers_in(directory, disk)
        try:
            taken = current(disk, self._home / "checkpoint", directory)
            start = taken.segment if taken else 0
        except CorruptionError:
            start = min(numbers, default=0)  # reported already; every segment that is there counts then
        known = survey(directory, disk, start, numbers)
        damage = list(known.damage)
        for number, length in known.lengths.items():
            try:
                damage += damaged_records(disk, directory, number, length, number == known.newest)
            except DiskError:
                if not self._is_trimmed(number):
                    raise
        if recorded > max(numbers, default=0):
            damage.append(Damage(Position(recorded, 0, 0)))
        return [_as_finding(directory, each) for each in damage]

    def _recorded(self, disk: Disk) -> int:
        """Return the number of the newest segment, 0 if it is not known."""
        try:
            return newest.read(disk, self._home / newest.FILE)
        except CorruptionError:
            return 0  # reported already

    def _is_trimmed(self, number: int) -> bool:
        """Return whether a segment is not needed any more."""
        taken = current(RealDisk(), self._home / "checkpoint", self._home / "log")
        return taken is not None and number < taken.segment

    def _table(self, progress: Progress) -> list[Finding]:
        remote = read_remote(RealDisk(), self._home)
        if remote is None:
            return self._table_in(self._home / "table", progress)
        with tempfile.TemporaryDirectory(prefix="headwater-verify-") as scratch:
            fetch(remote, Path(scratch))
            return self._table_in(Path(scratch), progress)

    def _table_in(self, table: Path, progress: Progress) -> list[Finding]:
        disk = RealDisk()
        if found := self._commits(disk, table):
            return found
        files = schema.data_files(pa.table(DeltaTable(table).get_add_actions(flatten=True)))
        suspects, self._suspects = self._suspects, set()
        for number, file in enumerate(files, 1):
            if suspects is None or file.path in suspects:
                progress(f"file {number} of {len(files)}")
                found += self._file(table, file)
        return found

    def _file(self, table: Path, file: DataFile) -> list[Finding]:
        try:
            read_found(table, file.path)
            return []
        except CorruptionError as error:
            assert self._suspects is not None
            self._suspects.add(file.path)
            what = f"{error} (sequences {file.first_seq} to {file.last_seq})"
            return [problem(Kind.DATA, table / file.path, what, _LOST, OFFLINE)]

    def _commits(self, disk: Disk, table: Path) -> list[Finding]:
        sums = delta_recovery.read_sums(table, disk)
        newest = max(checkpoints(disk.list(table / "_delta_log")), default=-1)
        path = table / "_delta_log" / checkpoint_name(newest)
        if newest == sums.version >= 0 and crc32(disk.read_all(path)) != sums.checkpoint:
            what = "its checksum does not match"
            return [problem(Kind.TABLE, path, what, "The engine uses the commits at the next start", OFFLINE)]
        try:
            delta_recovery.check_commits(table, disk)
        except CorruptionError as error:
            return [problem(Kind.TABLE, error.path, error, _AT_START, OFFLINE)]
        return []


def damaged_records(disk: Disk, directory: Path, number: int, length: int, is_newest: bool) -> list[Damage]:
    """Return the damaged records of a segment; of the newest only those that an intact one follows."""
    found: list[Damage] = []
    followed = 0
    for item in scan(disk, directory, number, length):
        if isinstance(item, Damage):
            found.append(item)
        else:
            followed = len(found)
    return found[:followed] if is_newest else found


def _as_finding(directory: Path, damage: Damage) -> Finding:
    path = segment_path(directory, damage.position.segment)
    where = f"{path}, byte {damage.position.offset}"
    if not path.exists():
        return problem(Kind.LOG, where, "the segment is missing", _LOG_LOST, OFFLINE)
    seqs = ""
    if damage.base_seq is not None and damage.count:
        seqs = f" (sequences {damage.base_seq} to {damage.last_seq})"
    return problem(Kind.LOG, where, f"a record is damaged{seqs}", _LOG_LOST, OFFLINE)
