"""Checks one stream: every checksum of log and table, and the consistency of its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from headwater.control import declaration
from headwater.control.catalog_rows import ConsumerRow, StreamRow
from headwater.control.declaration import CONSUMERS
from headwater.delivery.state import ConsumerState
from headwater.disk import Disk
from headwater.errors import CorruptionError, DiskError, Error
from headwater.log import checkpoint, checkpoint_copy, newest
from headwater.model.cursor import Cursor, CursorVersionError
from headwater.model.gaps import gaps_name
from headwater.model.sealed import SealError
from headwater.model.stream import Storage, StreamConfig
from headwater.model.times import format_time
from headwater.model.upstream import hash8
from headwater.model.written import is_record
from headwater.store.copy_check import OpenedStream
from headwater.store.finding import Finding, Kind, note, of_stream, problem
from headwater.store.shadow import shadow
from headwater.stream.missing_log import MissingLogError
from headwater.stream.services import Services
from headwater.stream.store import Store
from headwater.table.found_file import read_found
from headwater.table.salvage import shown
from headwater.table.staging import UNCLAIMED
from headwater.table.table import Table
from headwater.wire import consumer_json, stream_json

Progress = Callable[[str], None]
_LOST = "The messages in it cannot be served"
_LOG_LOST = "What it held and the table does not is recorded as lost when the stream is opened"
_OFFLINE = "The stream is offline"
_COPY_USED = "The stream uses the copy of its checkpoint, and nothing is lost"
_END_UNKNOWN = "Nothing is lost, but if the end of the log was missing, it would not be noticed"
_COPY_LOST = "The stream uses its checkpoint, and nothing is lost, but there is no second copy of it"


class StreamCheck:
    """The findings about one stream's directory; nothing in it is changed."""

    def __init__(self, disk: Disk, services: Services, row: StreamRow, home: Path) -> None:
        self._disk = disk
        self._services = services
        self._row = row
        self._home = home
        self._found: list[Finding] = []
        self._scratch = ""
        """The directory of the copy that is checked; findings name the store instead."""
        self.opened: OpenedStream | None = None
        """The opened stream's state, None if it could not be opened."""

    def run(self, consumers: list[ConsumerRow], progress: Progress) -> list[Finding]:
        """Return what is wrong with the stream."""
        try:
            config, _ = stream_json.decode_config(self._row.config.encode())
        except Error as error:
            self._say(Kind.DECLARATION, self._home, f"its config cannot be read: {error}", _OFFLINE)
            return self._all()
        self._check_consumer_files()
        if config.storage is Storage.MEMORY:
            return self._all()
        self._check_checkpoint()
        self._check_newest()
        with shadow(self._home) as made:
            self._scratch = str(made)
            table = self._open_table(made, config)
            if table is not None:
                self._check_files(table, progress)
                self._open(made, config, consumers)
        return self._all()

    def _all(self) -> list[Finding]:
        return [of_stream(each, self._row.account, self._row.name) for each in self._found]

    def _say(self, kind: Kind, where: Path, what: object, meaning: str) -> None:
        place, text = str(where), str(what)
        if self._scratch:
            place, text = (each.replace(self._scratch, str(self._home)) for each in (place, text))
        said = problem(kind, place, text, meaning)
        if said not in self._found:
            self._found.append(said)

    def _check_consumer_files(self) -> None:
        for file in declaration.consumer_files(self._disk, self._home):
            path = self._home / CONSUMERS / str(file)
            try:
                declaration.read_consumer(self._disk, self._home, file)
            except (SealError, DiskError) as error:
                meaning = "The consumer is served, but a lost catalog could not be rebuilt from this file"
                self._say(Kind.DECLARATION, path, error, meaning)

    def _check_checkpoint(self) -> None:
        path = self._home / "checkpoint"
        try:
            if checkpoint.read(self._disk, path) is None and checkpoint_copy.copy_path(path).exists():
                raise CorruptionError(path, 0, "the checkpoint is missing")
        except (CorruptionError, DiskError) as error:
            has_copy = checkpoint_copy.usable(self._disk, path, self._home / "log") is not None
            self._say(Kind.CHECKPOINT, path, _what(error), _COPY_USED if has_copy else _OFFLINE)
        try:
            checkpoint.read(self._disk, checkpoint_copy.copy_path(path))
        except (CorruptionError, DiskError) as error:
            self._say(Kind.CHECKPOINT, checkpoint_copy.copy_path(path), _what(error), _COPY_LOST)

    def _check_newest(self) -> None:
        try:
            newest.read(self._disk, self._home / newest.FILE)
        except (CorruptionError, DiskError) as error:
            self._say(Kind.LOG, self._home / newest.FILE, _what(error), _END_UNKNOWN)

    def _open_table(self, made: Path, config: StreamConfig) -> Table | None:
        try:
            return Table.open(made / "table", self._disk, name=config.name)
        except (Error, OSError, ValueError) as error:
            self._say(Kind.TABLE, self._home / "table", _what(error), _OFFLINE)
            return None

    def _check_files(self, table: Table, progress: Progress) -> None:
        torn = self._home / "table" / "torn"
        if torn.is_dir() and any(torn.iterdir()):
            self._found.append(note(torn, "a commit or checkpoint was moved here because it was not whole"))
        unclaimed = self._home / UNCLAIMED
        if unclaimed.is_dir() and any(unclaimed.iterdir()):
            self._found.append(
                note(unclaimed, "staged files that a damaged log may have named are kept here")
            )
        for number, file in enumerate(table.files, 1):
            progress(f"file {number} of {len(table.files)}")
            path = self._home / "table" / file.path
            try:
                found = read_found(table.directory, file.path)
                if (found.file.first_seq, found.file.last_seq, found.file.rows) != (
                    file.first_seq,
                    file.last_seq,
                    file.rows,
                ):
                    self._say(Kind.TABLE, path, "it does not match its entry in the Delta log", _LOST)
            except CorruptionError as error:
                what = f"{_what(error)} (sequences {file.first_seq} to {file.last_seq})"
                self._say(Kind.DATA, path, what, _LOST)

    def _open(self, made: Path, config: StreamConfig, consumers: list[ConsumerRow]) -> None:
        """Open the stream as the engine does, and check the result."""
        try:
            store = Store(made, config, self._services)
        except Exception as error:  # any error that the engine would get is a finding
            kind = _kind_of(error)
            if not any(each.kind is Kind.CHECKPOINT for each in self._found) or kind is not Kind.CHECKPOINT:
                self._say(kind, self._home, _what(error), _OFFLINE)
            return
        try:
            for what in store.repaired:
                self._say(Kind.TABLE, self._home / "table", what, "It is used when the stream is opened")
            for damage in store.log.damage:
                if not damage.torn:
                    self._say(Kind.LOG, self._home / "log", damage, _LOG_LOST)
            if store.ledger.lost:
                self._found.append(
                    note(self._home, f"recorded as lost: sequences {shown(store.ledger.lost)}")
                )
            self._check_consumers(store, consumers)
            cursors = self._check_cursors(store)
            ledger, made_ns = store.ledger, self._row.created_ns
            self.opened = OpenedStream(
                account=self._row.account,
                config=config,
                home=self._home,
                identity=hash8(format_time(made_ns)),
                first_seq=ledger.first_seq,
                last_seq=ledger.last_seq,
                deleted=ledger.deleted.copy(),
                cursors=cursors,
            )
        finally:
            store.close()

    def _check_consumers(self, store: Store, consumers: list[ConsumerRow]) -> None:
        for row in consumers:
            try:
                config = consumer_json.decode_config(row.config.encode())
                ConsumerState.restore(config, store.ledger.consumers.get(row.name, []))
            except Exception as error:  # a state that cannot be restored, however it fails
                meaning = "It is left out, or begins where its config says"
                self._say(Kind.CONSUMER, self._home, f"consumer {row.name!r}: {_what(error)}", meaning)

    def _check_cursors(self, store: Store) -> dict[str, Cursor]:
        cursors = {}
        for name, encoded in store.ledger.upstreams.items():
            if name.endswith(gaps_name("")) or is_record(name):
                continue
            try:
                cursors[name] = Cursor.decode(encoded)
            except (msgspec.MsgspecError, ValueError, CursorVersionError) as error:
                self._say(
                    Kind.CURSOR, self._home, f"upstream {name!r}: {error}", "It is not copied any further"
                )
        return cursors


def _kind_of(error: Exception) -> Kind:
    """Return what to repair so that a stream can be opened."""
    if isinstance(error, MissingLogError):
        return Kind.LOG
    return Kind.CHECKPOINT if "checkpoint" in str(error) else Kind.TABLE


def _what(error: Exception) -> str:
    return str(error) or type(error).__name__
