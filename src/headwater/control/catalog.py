"""The catalog: the declared streams and consumers, in one sqlite file that only this engine writes.

Every row has a checksum, since SQLite's pages have none, and is written a second time next to the data of its
stream (`declaration`). The order is, for a stream: file → row; for a new consumer: row → file; for a changed
or a deleted consumer: file → row. So a consumer's file without a row means that the catalog is older than the
store.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path

import msgspec

from headwater.checksum import crc32
from headwater.control import declaration
from headwater.control.declaration import ConsumerDeclaration, ConsumerFile, Declaration
from headwater.control.open_mark import OpenMark
from headwater.control.sqlite_file import open_database
from headwater.disk import Disk, RealDisk
from headwater.errors import DiskError, Error, FencedError
from headwater.fence import NO_FENCE, Fence, check_committed
from headwater.model.names import directory_name

logger = logging.getLogger(__name__)

# The script at index n migrates a catalog of version n to version n + 1. A published script is never edited:
# a change of the schema is a new script.
_MIGRATIONS = (
    """
    CREATE TABLE store (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE streams (
        account    TEXT NOT NULL,
        name       TEXT NOT NULL,
        config     TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        identity   TEXT NOT NULL UNIQUE,
        directory  TEXT NOT NULL,
        PRIMARY KEY (account, name)
    );
    """,
    """
    CREATE TABLE consumers (
        account    TEXT NOT NULL,
        stream     TEXT NOT NULL,
        name       TEXT NOT NULL,
        config     TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        PRIMARY KEY (account, stream, name),
        FOREIGN KEY (account, stream) REFERENCES streams (account, name) ON DELETE CASCADE
    );
    """,
    # Checksums are filled in by _sum_up.
    """
    ALTER TABLE store ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE streams ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE streams ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE consumers ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE consumers ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE deletions (
        identity TEXT PRIMARY KEY,
        account  TEXT NOT NULL,
        name     TEXT NOT NULL,
        crc      INTEGER NOT NULL
    );
    """,
)
VERSION = len(_MIGRATIONS)
_SUMMED = 3
"""The version from which on rows have checksums."""
_STREAM = "account, name, config, created_ns, identity, directory, revision"
_CONSUMER = "account, stream, name, config, created_ns, revision"
_COLUMNS = {
    "store": "key, value",
    "streams": _STREAM,
    "consumers": _CONSUMER,
    "deletions": "identity, account, name",
}
REPAIR = "run `headwater store repair` with the engine stopped"


_REFUSALS = "refusals"
"""The key of the number of changes that were overwritten because their sync failed."""
_FORGET_STREAM = "DELETE FROM streams WHERE account = ? AND name = ? AND identity = ?"
_WHOSE = "SELECT identity FROM streams WHERE account = ? AND name = ?"
_FORGET_CONSUMER = "DELETE FROM consumers WHERE account = ? AND stream = ? AND name = ?"


class CatalogError(Error):
    """The catalog cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class StreamRow:
    """One declared stream; `directory` is the name of its folder, `config` its JSON."""

    account: str
    name: str
    config: str
    created_ns: int
    identity: str
    directory: str
    revision: int = 1

    def home(self, store: Path) -> Path:
        """Return the durable directory of the stream."""
        return store / directory_name(self.account) / self.directory

    def declaration(self, store_id: str) -> Declaration:
        """Return the row as it is stored next to the data."""
        return Declaration(
            store=store_id,
            identity=self.identity,
            account=self.account,
            name=self.name,
            directory=self.directory,
            config=self.config,
            created_ns=self.created_ns,
            revision=self.revision,
        )

    @classmethod
    def of(cls, declared: Declaration, directory: str) -> StreamRow:
        """Return the row of a stream whose declaration was found next to its data, in this directory."""
        return cls(
            declared.account,
            declared.name,
            declared.config,
            declared.created_ns,
            declared.identity,
            directory,
            declared.revision,
        )


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """One declared consumer; `config` is its JSON."""

    account: str
    stream: str
    name: str
    config: str
    created_ns: int
    revision: int = 1

    @property
    def file(self) -> ConsumerFile:
        """Return the file in which this revision is stored next to the stream's data."""
        return ConsumerFile.of(self.name, self.created_ns, self.revision)

    def declaration(self, identity: str) -> ConsumerDeclaration:
        """Return the row as it is stored next to the data of the stream with this identity."""
        return ConsumerDeclaration(
            identity=identity,
            name=self.name,
            config=self.config,
            created_ns=self.created_ns,
            revision=self.revision,
        )


class Catalog:
    """Every declared stream and consumer, durable when a method returns; safe to call from any thread."""

    def __init__(
        self,
        path: Path,
        disk: Disk | None = None,
        fence: Fence = NO_FENCE,
        *,
        over_streams: bool = False,
    ) -> None:
        """Open the catalog; create a missing one, but not over existing streams unless `over_streams`."""
        self._path = path
        self._fence = fence
        self._is_current = False
        """Whether the schema is that of this version."""
        self._store = path.parent
        self._disk = disk or RealDisk()
        self._over_streams = over_streams
        self._lock = threading.Lock()
        self._mark = OpenMark(path)
        self._may_return = False
        """Whether the write-ahead log may hold a refused change."""
        self._untidy: set[Path] = set()
        """Stream directories in which a consumer's file may have been left behind."""
        self._refused: set[tuple[str, tuple[str, ...]]] = set()
        """Statements that remove rows of refused streams and consumers, which may have been left behind."""
        self._leftover: set[tuple[Path, ConsumerFile]] = set()
        """Stream directories, and files in them that refused consumers may have left behind."""
        if not path.exists() or not path.stat().st_size:
            self._require_new()
        try:
            self._db = open_database(path)
            self._migrate()
            self._is_current = True
            self._check()
        except (sqlite3.Error, UnicodeError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise DiskError(path, "write", ENOSPC) from error
            raise CatalogError(f"cannot open the catalog {path}: {error}; {REPAIR}") from error

    def _require_new(self) -> None:
        """Refuse to create an empty catalog over existing streams."""
        found = next(declaration.homes(self._disk, self._store), None)
        if found is not None and not self._over_streams:
            raise CatalogError(
                f"the catalog {self._path} is missing or empty, but there are streams, for one in {found}: "
                f"restore it, or {REPAIR} to rebuild it from the streams"
            )

    def _migrate(self) -> None:
        """Migrate the schema to this version, each step in one transaction."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            self._db.close()
            raise CatalogError(
                f"the catalog {self._path} has version {version}, this Headwater knows up to {VERSION}: "
                "it was written by a newer release; start that one"
            )
        if version < 0:
            self._db.close()
            raise CatalogError(f"the catalog {self._path} is damaged: it has version {version}; {REPAIR}")
        if version == 0:
            self._require_new()
        for step in range(version, VERSION):
            with self._transaction():
                for statement in _MIGRATIONS[step].split(";"):
                    self._db.execute(statement)
                if step == 0:
                    self._db.execute("INSERT INTO store VALUES ('id', ?)", (uuid.uuid4().hex,))
                if step + 1 == _SUMMED:
                    self._sum_up()
                self._db.execute(f"PRAGMA user_version = {step + 1}")

    def _sum_up(self) -> None:
        """Add a checksum to every row that was written without one."""
        for table, columns in _COLUMNS.items():
            for rowid, *values in self._db.execute(f"SELECT rowid, {columns} FROM {table}").fetchall():
                self._db.execute(f"UPDATE {table} SET crc = ? WHERE rowid = ?", (_sum(table, values), rowid))

    def _check(self) -> None:
        """Refuse a file whose pages are inconsistent, or with a row that is not what was written."""
        (said,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise CatalogError(f"the catalog {self._path} is damaged: {said}; {REPAIR}")
        for table in _COLUMNS:
            self._rows(table)
        if lost := self._mark.problem(self.epoch):
            raise CatalogError(f"the catalog {self._path} is not complete: {lost}; {REPAIR}")
        if self.store_id == "":
            raise CatalogError(f"the catalog {self._path} is damaged: it does not name its store; {REPAIR}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction, completely or not at all."""
        with self._lock:
            self._remove_leftover()
            if self._may_return:
                self._overwrite_refused()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._own()
                for statement, key in self._refused:
                    self._db.execute(statement, key)
                yield self._db
                self._fence.check()
                self._commit()
                self._mark.make(self._fence.epoch)
                self._refused.clear()
            except BaseException:
                self._roll_back()
                raise
        check_committed(self._fence)

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error:
            self._roll_back()
            self._may_return = True
            with suppress(sqlite3.Error, Error):
                self._overwrite_refused()
            raise

    def _roll_back(self) -> None:
        # SQLite rolls back some failed commits by itself.
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _overwrite_refused(self) -> None:
        """Write a change that alters nothing over a refused one.

        When a sync fails, SQLite has written the whole transaction to the write-ahead log. It ignores the
        transaction from then on, but the next process that opens the file would find and use it.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._own()
            found = self._db.execute("SELECT value FROM store WHERE key = ?", (_REFUSALS,)).fetchone()
            self._db.execute(*self._put("store", (_REFUSALS, str(int(found[0]) + 1 if found else 1))))
            self._db.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        self._may_return = False

    def _own(self) -> None:
        """Write our epoch with every change; refuse the change if a later owner has written its own."""
        ours = self._fence.epoch
        if not ours or not self._is_current:
            return
        found = self._db.execute("SELECT value FROM store WHERE key = 'epoch'").fetchone()
        theirs = int(found[0]) if found else 0
        if theirs > ours:
            self._fence.check()
            raise FencedError(self._store, ours, f"the catalog has epoch {theirs}")
        if theirs < ours:
            self._db.execute(*self._put("store", ("epoch", str(ours))))

    @property
    def epoch(self) -> int:
        """Return the epoch of the last owner that changed the catalog."""
        rows = self._rows("store", "WHERE key = 'epoch'")
        return int(str(rows[0][1])) if rows else 0

    def claim(self) -> None:
        """Write our epoch, so that no earlier owner can change the catalog from now on."""
        try:
            with self._transaction():
                pass
        except sqlite3.OperationalError as error:
            # On a full disk no engine can declare anything. The first change that succeeds claims the
            # catalog.
            logger.warning("cannot write to the catalog %s yet: %s", self._path, error)

    def _rows(self, table: str, where: str = "", values: tuple[object, ...] = ()) -> list[list[object]]:
        """Return rows; refuse those whose checksums do not match."""
        query = f"SELECT crc, {_COLUMNS[table]} FROM {table} {where}"
        with self._lock:
            found = self._db.execute(query, values).fetchall()
        for crc, *row in found:
            if crc != _sum(table, row):
                raise CatalogError(
                    f"the catalog {self._path} is damaged: a row of {table} ({row[0]!r}, {row[1]!r}) "
                    f"is not what was written; {REPAIR}"
                )
        return [row for _, *row in found]

    def _put(self, table: str, values: tuple[object, ...]) -> tuple[str, tuple[object, ...]]:
        """Return the statement that adds a row with its checksum."""
        marks = ", ".join("?" * (len(values) + 1))
        return (
            f"INSERT OR REPLACE INTO {table} ({_COLUMNS[table]}, crc) VALUES ({marks})",
            (*values, _sum(table, values)),
        )

    @property
    def store(self) -> Path:
        """Return the store that the catalog belongs to."""
        return self._store

    @property
    def store_id(self) -> str:
        """Return the unique id of this store."""
        rows = self._rows("store", "WHERE key = 'id'")
        return str(rows[0][1]) if rows else ""

    def adopt_id(self, store_id: str) -> None:
        """Use the id that the store had before its catalog was lost."""
        with self._transaction() as db:
            db.execute(*self._put("store", ("id", store_id)))

    def accounts(self) -> list[str]:
        """Return the accounts that have streams."""
        return sorted({str(row[0]) for row in self._rows("streams")})

    def streams(self, account: str) -> list[StreamRow]:
        """Return the account's streams in the order of their names."""
        rows = self._rows("streams", "WHERE account = ? ORDER BY name", (account,))
        return [StreamRow(*row) for row in rows]  # type: ignore[arg-type]

    def create(self, row: StreamRow) -> None:
        """Declare a stream; its account must not have one of this name."""
        self._declare(row)
        with self._transaction() as db:
            # Not with _put: another stream of this name must not be replaced.
            values = (
                row.account,
                row.name,
                row.config,
                row.created_ns,
                row.identity,
                row.directory,
                row.revision,
            )
            db.execute(
                f"INSERT INTO streams ({_STREAM}, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, _sum("streams", values)),
            )

    def take_back(self, row: StreamRow) -> None:
        """Forget a stream whose creation was refused; if the disk refuses, the next change does it."""
        self._refused.add((_FORGET_STREAM, (row.account, row.name, row.identity)))
        self._forget_refused()

    def update(self, account: str, name: str, config: str) -> None:
        """Replace the config of a declared stream."""
        found = self._rows("streams", "WHERE account = ? AND name = ?", (account, name))
        assert found, f"stream {name!r} is not in the catalog"
        row = StreamRow(*found[0])  # type: ignore[arg-type]
        new = StreamRow(
            account, name, config, row.created_ns, row.identity, row.directory, self._next_revision(row)
        )
        self._declare(new)
        self.replace(new)

    def _next_revision(self, row: StreamRow) -> int:
        """Return a revision above both records: a refused change may be stored next to the data."""
        beside = declaration.read_declaration(self._disk, row.home(self._store))
        known = beside.revision if beside is not None and beside.identity == row.identity else 0
        return max(row.revision, known) + 1

    def replace(self, row: StreamRow) -> None:
        """Replace the row of a declared stream, whatever is stored next to its data.

        A stream that was deleted in the meantime, or another one of its name, is not changed.
        """
        values = (row.config, row.revision, row.directory)
        whole = (row.account, row.name, row.config, row.created_ns, row.identity, row.directory, row.revision)
        with self._transaction() as db:
            db.execute(
                "UPDATE streams SET config = ?, revision = ?, directory = ?, crc = ?"
                " WHERE account = ? AND name = ? AND identity = ?",
                (*values, _sum("streams", whole), row.account, row.name, row.identity),
            )

    def _declare(self, row: StreamRow) -> None:
        """Write the stream's declaration next to its data; a stream without a directory has none."""
        home = row.home(self._store)
        if home.exists():
            declaration.write_declaration(self._disk, home, row.declaration(self.store_id))

    def delete(self, account: str, name: str, *, tombstone: bool = False) -> None:
        """Remove a stream and its consumers; an unknown one changes nothing.

        With a tombstone its directory may be removed, now or at any later start.
        """
        with self._transaction() as db:
            if tombstone:
                found = db.execute(
                    "SELECT identity FROM streams WHERE account = ? AND name = ?", (account, name)
                ).fetchone()
                if found is not None:
                    db.execute(*self._put("deletions", (found[0], account, name)))
            db.execute("DELETE FROM streams WHERE account = ? AND name = ?", (account, name))

    def deletions(self) -> set[str]:
        """Return the identities of deleted streams whose directories may still exist."""
        return {str(row[0]) for row in self._rows("deletions")}

    def record_deletion(self, identity: str, account: str, name: str) -> None:
        """Record that a directory that no row names is to be removed, as a client requested."""
        with self._transaction() as db:
            db.execute(*self._put("deletions", (identity, account, name)))

    def forget_deletion(self, identity: str) -> None:
        """Remove the record of a completed deletion."""
        with self._transaction() as db:
            db.execute("DELETE FROM deletions WHERE identity = ?", (identity,))

    def consumers(self, account: str, stream: str) -> list[ConsumerRow]:
        """Return the stream's consumers in the order of their names."""
        rows = self._rows("consumers", "WHERE account = ? AND stream = ? ORDER BY name", (account, stream))
        return [ConsumerRow(*row) for row in rows]  # type: ignore[arg-type]

    def declare_consumer(self, row: ConsumerRow, stream_created_ns: int | None = None) -> None:
        """Declare a consumer, or replace the config of a declared one.

        With the creation time of its stream, a later stream of the same name is not changed.
        """
        identity = self._identity(row.account, row.stream, stream_created_ns)
        if identity is None:
            raise sqlite3.IntegrityError(f"stream {row.stream!r} is not declared")
        old = self._consumer(row.account, row.stream, row.name)
        if old is None:
            try:
                self.put_consumer(row, identity)
                self._declare_consumer(row, None, identity)
            except BaseException:
                # The request is refused, so the consumer must not exist after a restart.
                self._refuse(row)
                raise
            return
        new = ConsumerRow(row.account, row.stream, row.name, row.config, old.created_ns, old.revision + 1)
        try:
            self._declare_consumer(new, old.file, identity)
            self.put_consumer(new, identity)
        except BaseException:
            # The row counts: at the next open it is written where the file of its revision is missing.
            self._leave_behind(new)
            self._forget_refused()
            raise

    def put_consumer(self, row: ConsumerRow, of: str = "") -> None:
        """Set the row of a consumer, whatever is stored next to its stream's data.

        With `of`, the identity of its stream, a later stream of the same name is not changed.
        """
        values = (row.account, row.stream, row.name, row.config, row.created_ns, row.revision)
        with self._transaction() as db:
            if not of or db.execute(_WHOSE, (row.account, row.stream)).fetchone() == (of,):
                db.execute(*self._put("consumers", values))

    def forget_consumer(
        self, account: str, stream: str, name: str, stream_created_ns: int | None = None
    ) -> None:
        """Remove a consumer; an unknown one changes nothing.

        With the creation time of its stream, a later stream of the same name is not changed.
        """
        identity = self._identity(account, stream, stream_created_ns)
        if identity is None:
            return
        row, found = self._consumer(account, stream, name), self._home(account, stream)
        if row is not None and found is not None and found[1] == identity:
            home = found[0]
            with self._tidying(home):
                files = [row.file] if home not in self._untidy else self._files(home, row.file.stem)
                declaration.remove_consumers(self._disk, home, files)
        with self._transaction() as db:
            if db.execute(_WHOSE, (account, stream)).fetchone() == (identity,):
                db.execute(_FORGET_CONSUMER, (account, stream, name))

    def _identity(self, account: str, stream: str, created_ns: int | None) -> str | None:
        """Return the identity of a declared stream; None if it is another than the one created then."""
        rows = self._rows("streams", "WHERE account = ? AND name = ?", (account, stream))
        row = StreamRow(*rows[0]) if rows else None  # type: ignore[arg-type]
        if row is None or created_ns not in (None, row.created_ns):
            return None
        return row.identity

    def _refuse(self, row: ConsumerRow) -> None:
        """Remove a consumer whose declaration was refused, wherever it may have been written."""
        self._refused.add((_FORGET_CONSUMER, (row.account, row.stream, row.name)))
        self._leave_behind(row)
        self._forget_refused()

    def _leave_behind(self, row: ConsumerRow) -> None:
        """Have the file of a refused declaration removed before the next change."""
        found = self._home(row.account, row.stream)
        if found is not None:
            self._leftover.add((found[0], row.file))

    def _forget_refused(self) -> None:
        """Remove refused consumers; if that fails, too, the next change of the catalog does it."""
        if not (self._refused or self._leftover):
            return
        try:
            with self._transaction():
                pass
        except (sqlite3.Error, Error) as error:
            logger.warning("cannot remove refused streams and consumers yet: %s", error)

    def _remove_leftover(self) -> None:
        """Remove the files of refused consumers; one that cannot be removed is tried again later."""
        for home, file in sorted(self._leftover):
            try:
                declaration.remove_consumers(self._disk, home, [file])
            except DiskError as error:
                logger.warning("cannot remove the file of a refused consumer yet: %s", error)
            else:
                self._leftover.discard((home, file))

    def _declare_consumer(self, row: ConsumerRow, old: ConsumerFile | None, identity: str) -> None:
        """Write a consumer's declaration next to the data of the stream with this identity."""
        found = self._home(row.account, row.stream)
        if found is None or found[1] != identity:
            return
        home = found[0]
        with self._tidying(home):
            self._leftover.discard((home, row.file))
            declaration.write_consumer(self._disk, home, row.declaration(identity), old)
            if home in self._untidy:
                left = [file for file in self._files(home, row.file.stem) if file != row.file]
                declaration.remove_consumers(self._disk, home, left)

    def _files(self, home: Path, stem: str) -> list[ConsumerFile]:
        return [file for file in declaration.consumer_files(self._disk, home) if file.stem == stem]

    @contextmanager
    def _tidying(self, home: Path) -> Iterator[None]:
        """Remember a directory in which the disk refused a change: it may have files without a row."""
        try:
            yield
        except DiskError:
            self._untidy.add(home)
            raise

    def _consumer(self, account: str, stream: str, name: str) -> ConsumerRow | None:
        rows = self._rows(
            "consumers", "WHERE account = ? AND stream = ? AND name = ?", (account, stream, name)
        )
        return ConsumerRow(*rows[0]) if rows else None  # type: ignore[arg-type]

    def _home(self, account: str, stream: str) -> tuple[Path, str] | None:
        """Return the directory and the identity of a declared stream, if it exists."""
        rows = self._rows("streams", "WHERE account = ? AND name = ?", (account, stream))
        row = StreamRow(*rows[0]) if rows else None  # type: ignore[arg-type]
        if row is None or not row.home(self._store).exists():
            return None
        return row.home(self._store), row.identity

    def close(self) -> None:
        """Close the file."""
        self._forget_refused()
        with self._lock:
            self._mark.remove(self._fence.epoch)
            self._db.close()


def _sum(table: str, values: object) -> int:
    """Return the checksum of a row."""
    return crc32(msgspec.msgpack.encode([table, values]))
