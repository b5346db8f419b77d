"""The catalog's SQLite file: checked when opened, changed only in synced and fenced transactions."""

from __future__ import annotations

import logging
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import ENOSPC
from pathlib import Path

from headwater.control.catalog_schema import MIGRATIONS, SUMMED, TABLES, VERSION
from headwater.control.open_mark import OpenMark
from headwater.control.sqlite_file import NO_REPLICA, Replica, open_database
from headwater.errors import DiskError, Error, FencedError
from headwater.fence import Fence, check_committed

logger = logging.getLogger(__name__)
REPAIR = "run `headwater store repair` with the engine stopped"
_REFUSALS = "refusals"
"""The key of the number of changes that were overwritten because their sync failed."""


class CatalogError(Error):
    """The catalog cannot be used; the message says why."""


class CatalogFile:
    """The tables of one catalog, with a checksum in each row; safe to call from any thread."""

    def __init__(
        self,
        path: Path,
        fence: Fence,
        *,
        require_new: Callable[[], None],
        before_change: Callable[[], None],
        replica: Replica = NO_REPLICA,
    ) -> None:
        """Open the file, or create it if `require_new` does not raise.

        `before_change` is called before each transaction, by the thread that has the lock.
        """
        self._path = path
        self._fence = fence
        self._replica = replica
        self._require_new = require_new
        self._before_change = before_change
        self._is_current = False
        """Whether the schema is that of this version."""
        self._lock = threading.Lock()
        """Held for each transaction and each read."""
        self._mark = OpenMark(path)
        self._may_return = False
        """Whether the write-ahead log may hold a refused change."""
        self._refused: set[tuple[str, tuple[str, ...]]] = set()
        """Statements that remove rows of refused changes, which may have been left behind."""
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
            with self.transaction():
                for statement in MIGRATIONS[step].split(";"):
                    self._db.execute(statement)
                if step == 0:
                    self._db.execute("INSERT INTO store VALUES ('id', ?)", (uuid.uuid4().hex,))
                if step + 1 == SUMMED:
                    for statement, values in TABLES.sum_up(self._db):
                        self._db.execute(statement, values)
                self._db.execute(f"PRAGMA user_version = {step + 1}")

    def _check(self) -> None:
        """Refuse a file whose pages are inconsistent, or with a row that is not what was written."""
        (said,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise CatalogError(f"the catalog {self._path} is damaged: {said}; {REPAIR}")
        for table in TABLES.columns:
            self.rows(table)
        if lost := self._mark.problem(self.epoch):
            raise CatalogError(f"the catalog {self._path} is not complete: {lost}; {REPAIR}")
        if self.store_id == "":
            raise CatalogError(f"the catalog {self._path} is damaged: it does not name its store; {REPAIR}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction, completely or not at all."""
        with self._lock:
            self._before_change()
            if self._may_return:
                self._overwrite_refused()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._own()
                for statement, key in self._refused:
                    self._db.execute(statement, key)
                yield self._db
                self._fence.check()
                self._replica.ship(self._db)
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
            self._replica.undo()
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
            self._db.execute(*TABLES.put("store", (_REFUSALS, str(int(found[0]) + 1 if found else 1))))
            self._replica.ship(self._db)
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
            raise FencedError(self._path.parent, ours, f"the catalog has epoch {theirs}")
        if theirs < ours:
            self._db.execute(*TABLES.put("store", ("epoch", str(ours))))

    @property
    def epoch(self) -> int:
        """Return the epoch of the last owner that changed the catalog."""
        rows = self.rows("store", "WHERE key = 'epoch'")
        return int(str(rows[0][1])) if rows else 0

    def claim(self) -> None:
        """Write our epoch, so that no earlier owner can change the catalog from now on."""
        try:
            with self.transaction():
                pass
        except sqlite3.OperationalError as error:
            # On a full disk no engine can declare anything. The first change that succeeds claims the
            # catalog.
            logger.warning("cannot write to the catalog %s yet: %s", self._path, error)

    def rows(self, table: str, where: str = "", values: tuple[object, ...] = ()) -> list[list[object]]:
        """Return rows; refuse those whose checksums do not match."""
        with self._lock:
            found = self._db.execute(TABLES.select(table, where), values).fetchall()
        if (row := TABLES.damaged(table, found)) is not None:
            raise CatalogError(
                f"the catalog {self._path} is damaged: a row of {table} ({row[0]!r}, {row[1]!r}) "
                f"is not what was written; {REPAIR}"
            )
        return [row for _, *row in found]

    @property
    def store_id(self) -> str:
        """Return the unique id of this store."""
        rows = self.rows("store", "WHERE key = 'id'")
        return str(rows[0][1]) if rows else ""

    def refuse(self, statement: str, key: tuple[str, ...]) -> None:
        """Have the next transaction remove a row of a refused change, which may have been left behind."""
        self._refused.add((statement, key))

    @property
    def has_refused(self) -> bool:
        """Return whether a row of a refused change may have been left behind."""
        return bool(self._refused)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._mark.remove(self._fence.epoch)
            self._db.close()
