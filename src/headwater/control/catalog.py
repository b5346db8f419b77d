"""The catalog: the declared streams and consumers, in one sqlite file that only this engine writes.

Every row carries a checksum, since the pages of sqlite have none, and is written a second time beside the
data of its stream (`declaration`). A stream: file → row. A new consumer: row → file; a changed one: file →
row; a deleted one: file → row. So a consumer's file without a row means that the catalog is older than the
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

# The script at index n takes a catalog of version n to version n + 1. A published script is never edited:
# a change of the schema is one more script.
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
"""The version from which on rows carry checksums."""
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
_FORGET_CONSUMER = "DELETE FROM consumers WHERE account = ? AND stream = ? AND name = ?"


class CatalogError(Error):
    """The catalog cannot be used, and the message says why."""


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
        """Return the row as it lies beside the data."""
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
        """Return the row of a stream that was found beside its data, in this directory."""
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
        """Return the file that this revision lies in beside the stream's data."""
        return ConsumerFile.of(self.name, self.created_ns, self.revision)

    def declaration(self, identity: str) -> ConsumerDeclaration:
        """Return the row as it lies beside the data of the stream with this identity."""
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
        """Open the catalog; one that is missing is made, but not next to streams unless that is meant."""
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
        """Homes in which a file of a consumer may have been left behind."""
        self._refused: set[tuple[str, str, str]] = set()
        """Consumers whose rows may have been left behind."""
        self._leftover: set[tuple[Path, ConsumerFile]] = set()
        """Homes, and files in them that refused consumers may have left behind."""
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
            raise CatalogError(f"the catalog {path} cannot be opened: {error}; {REPAIR}") from error

    def _require_new(self) -> None:
        """Refuse to begin an empty catalog over streams that exist."""
        found = next(declaration.homes(self._disk, self._store), None)
        if found is not None and not self._over_streams:
            raise CatalogError(
                f"the catalog {self._path} is missing or empty, but there are streams, for one in {found}: "
                f"restore it, or {REPAIR} to rebuild it from the streams"
            )

    def _migrate(self) -> None:
        """Bring the schema to this version, one step in one transaction."""
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
        """Give every row that was written without one a checksum."""
        for table, columns in _COLUMNS.items():
            for rowid, *values in self._db.execute(f"SELECT rowid, {columns} FROM {table}").fetchall():
                self._db.execute(f"UPDATE {table} SET crc = ? WHERE rowid = ?", (_sum(table, values), rowid))

    def _check(self) -> None:
        """Refuse a file whose pages do not fit together, or of which a row is not what was written."""
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
        """Run what is inside whole or not at all."""
        with self._lock:
            self._remove_leftover()
            if self._may_return:
                self._overwrite_refused()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._own()
                for key in self._refused:
                    self._db.execute(_FORGET_CONSUMER, key)
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
        # SQLite rolls some failed commits back by itself.
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
        """Leave our epoch in the file with every change; refuse one once a later owner has left its own."""
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
        """Return the epoch of the last owner that changed anything here."""
        rows = self._rows("store", "WHERE key = 'epoch'")
        return int(str(rows[0][1])) if rows else 0

    def claim(self) -> None:
        """Leave our epoch in the file, so that no earlier owner changes it from now on."""
        try:
            with self._transaction():
                pass
        except sqlite3.OperationalError as error:
            # On a full disk nothing can be declared, by anyone; the first change that is possible claims it.
            logger.warning("the catalog %s takes no changes yet: %s", self._path, error)

    def _rows(self, table: str, where: str = "", values: tuple[object, ...] = ()) -> list[list[object]]:
        """Return rows whose checksums match; refuse any that do not."""
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
        """Return the name that tells this store from every other."""
        rows = self._rows("store", "WHERE key = 'id'")
        return str(rows[0][1]) if rows else ""

    def adopt_id(self, store_id: str) -> None:
        """Go on as the store that this was before its catalog was lost."""
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
        """Declare a stream; its account must have none of this name."""
        self._declare(row)
        with self._transaction() as db:
            # Not as _put does it: another stream of this name must not be replaced.
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
        """Return a revision above both records: a change that was refused may lie beside the data."""
        beside = declaration.read_declaration(self._disk, row.home(self._store))
        known = beside.revision if beside is not None and beside.identity == row.identity else 0
        return max(row.revision, known) + 1

    def replace(self, row: StreamRow) -> None:
        """Have the row of a declared stream be this one, whatever lies beside its data.

        One that was deleted meanwhile, and another of its name, stay as they are.
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
        """Write the stream's declaration beside its data; a stream without a directory has none."""
        home = row.home(self._store)
        if home.exists():
            declaration.write_declaration(self._disk, home, row.declaration(self.store_id))

    def delete(self, account: str, name: str, *, tombstone: bool = False) -> None:
        """Forget a stream and its consumers; forgetting an unknown one changes nothing.

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
        """Return the identities of streams that were deleted and whose directories may not be gone yet."""
        return {str(row[0]) for row in self._rows("deletions")}

    def record_deletion(self, identity: str, account: str, name: str) -> None:
        """Have a directory removed that no row names, as somebody asked for."""
        with self._transaction() as db:
            db.execute(*self._put("deletions", (identity, account, name)))

    def forget_deletion(self, identity: str) -> None:
        """Forget a deletion that is done."""
        with self._transaction() as db:
            db.execute("DELETE FROM deletions WHERE identity = ?", (identity,))

    def consumers(self, account: str, stream: str) -> list[ConsumerRow]:
        """Return the stream's consumers in the order of their names."""
        rows = self._rows("consumers", "WHERE account = ? AND stream = ? ORDER BY name", (account, stream))
        return [ConsumerRow(*row) for row in rows]  # type: ignore[arg-type]

    def declare_consumer(self, row: ConsumerRow) -> None:
        """Declare a consumer, or replace the config of a declared one."""
        old = self._consumer(row.account, row.stream, row.name)
        if old is None:
            try:
                self.put_consumer(row)
                self._declare_consumer(row, None)
            except BaseException:
                # Whoever asked is refused: the consumer must not be there after a restart.
                self._refuse(row)
                raise
            return
        new = ConsumerRow(row.account, row.stream, row.name, row.config, old.created_ns, old.revision + 1)
        try:
            self._declare_consumer(new, old.file)
            self.put_consumer(new)
        except BaseException:
            # The row counts: at the next open it is written where the file of its revision is missing.
            self._leave_behind(new)
            self._forget_refused()
            raise

    def put_consumer(self, row: ConsumerRow, of: str = "") -> None:
        """Have the row of a consumer be this one, whatever lies beside its stream's data.

        With the identity that it is a consumer of, a stream that has the name since is left alone.
        """
        values = (row.account, row.stream, row.name, row.config, row.created_ns, row.revision)
        with self._transaction() as db:
            whose = "SELECT identity FROM streams WHERE account = ? AND name = ?"
            if not of or db.execute(whose, (row.account, row.stream)).fetchone() == (of,):
                db.execute(*self._put("consumers", values))

    def forget_consumer(self, account: str, stream: str, name: str) -> None:
        """Forget a consumer; forgetting an unknown one changes nothing."""
        row, found = self._consumer(account, stream, name), self._home(account, stream)
        if row is not None and found is not None:
            home = found[0]
            with self._tidying(home):
                files = [row.file] if home not in self._untidy else self._files(home, row.file.stem)
                declaration.remove_consumers(self._disk, home, files)
        self._delete_consumer(account, stream, name)

    def _delete_consumer(self, account: str, stream: str, name: str) -> None:
        with self._transaction() as db:
            db.execute(_FORGET_CONSUMER, (account, stream, name))

    def _refuse(self, row: ConsumerRow) -> None:
        """Forget a consumer whose declaration was refused, wherever it may have been written."""
        self._refused.add((row.account, row.stream, row.name))
        self._leave_behind(row)
        self._forget_refused()

    def _leave_behind(self, row: ConsumerRow) -> None:
        """Have the file of a refused declaration removed before the next change."""
        found = self._home(row.account, row.stream)
        if found is not None:
            self._leftover.add((found[0], row.file))

    def _forget_refused(self) -> None:
        """Forget refused consumers; if that is refused too, the next change of the catalog does it."""
        if not (self._refused or self._leftover):
            return
        try:
            with self._transaction():
                pass
        except (sqlite3.Error, Error) as error:
            logger.warning("refused consumers are not forgotten yet: %s", error)

    def _remove_leftover(self) -> None:
        """Remove the files of refused consumers; what the disk refuses to remove stays for the next time."""
        for home, file in sorted(self._leftover):
            try:
                declaration.remove_consumers(self._disk, home, [file])
            except DiskError as error:
                logger.warning("the file of a refused consumer is not removed yet: %s", error)
            else:
                self._leftover.discard((home, file))

    def _declare_consumer(self, row: ConsumerRow, old: ConsumerFile | None) -> None:
        """Write a consumer's declaration beside the data of its stream."""
        found = self._home(row.account, row.stream)
        if found is None:
            return
        home, identity = found
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
        """Remember a home in which the disk refused a change: more may lie there than a row says."""
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
        """Return the directory and the identity of a declared stream, if it is there."""
        rows = self._rows("streams", "WHERE account = ? AND name = ?", (account, stream))
        row = StreamRow(*rows[0]) if rows else None  # type: ignore[arg-type]
        if row is None or not row.home(self._store).exists():
            return None
        return row.home(self._store), row.identity

    def close(self) -> None:
        """Release the file."""
        self._forget_refused()
        with self._lock:
            self._mark.remove(self._fence.epoch)
            self._db.close()


def _sum(table: str, values: object) -> int:
    """Return the checksum of a row."""
    return crc32(msgspec.msgpack.encode([table, values]))
