"""The catalog: the declared streams and consumers, in one sqlite file that only this engine writes.

Every row has a checksum, since SQLite's pages have none, and is written a second time next to the data of its
stream (`declaration`). The order is, for a stream: file → row; for a new consumer: row → file; for a changed
or a deleted consumer: file → row. So a consumer's file without a row means that the catalog is older than the
store.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headwater.control import declaration
from headwater.control.catalog_file import REPAIR, CatalogError, CatalogFile
from headwater.control.catalog_rows import ConsumerRow, StreamRow
from headwater.control.catalog_schema import TABLES
from headwater.control.consumer_files import ConsumerFiles
from headwater.control.declaration import ConsumerFile, Declaration
from headwater.control.sqlite_file import NO_REPLICA, Replica
from headwater.control.summed_tables import row_sum
from headwater.disk import Disk, RealDisk
from headwater.errors import DiskError, Error, FencedError
from headwater.fence import NO_FENCE, Fence

logger = logging.getLogger(__name__)
_FORGET_STREAM = "DELETE FROM streams WHERE account = ? AND name = ? AND identity = ?"
_WHOSE = "SELECT identity FROM streams WHERE account = ? AND name = ?"
_FORGET_CONSUMER = "DELETE FROM consumers WHERE account = ? AND stream = ? AND name = ?"


class Catalog:
    """Every declared stream and consumer, durable when a method returns; safe to call from any thread."""

    def __init__(
        self,
        path: Path,
        disk: Disk | None = None,
        fence: Fence = NO_FENCE,
        *,
        over_streams: bool = False,
        replica: Replica = NO_REPLICA,
    ) -> None:
        """Open the catalog; create a missing one, but not over existing streams unless `over_streams`."""
        self._path = path
        self._store = path.parent
        self._disk = disk or RealDisk()
        self._fence = fence
        self._over_streams = over_streams
        self._consumer_files = ConsumerFiles(self._disk)
        self._file = CatalogFile(
            path,
            fence,
            require_new=self._require_new,
            before_change=self._consumer_files.remove_leftover,
            replica=replica,
        )

    def _require_new(self) -> None:
        """Refuse to create an empty catalog over existing streams."""
        found = next(declaration.homes(self._disk, self._store), None)
        if found is not None and not self._over_streams:
            raise CatalogError(
                f"the catalog {self._path} is missing or empty, but there are streams, such as {found}: "
                f"restore it, or {REPAIR} to rebuild it from the streams"
            )

    @property
    def epoch(self) -> int:
        """Return the epoch of the last owner that changed the catalog."""
        return self._file.epoch

    def claim(self) -> None:
        """Write our epoch, so that no earlier owner can change the catalog from now on."""
        self._file.claim()

    @property
    def store(self) -> Path:
        """Return the store that the catalog belongs to."""
        return self._store

    @property
    def store_id(self) -> str:
        """Return the unique id of this store."""
        return self._file.store_id

    def adopt_id(self, store_id: str) -> None:
        """Use the id that the store had before its catalog was lost."""
        with self._file.transaction() as db:
            db.execute(*TABLES.put("store", ("id", store_id)))

    def accounts(self) -> list[str]:
        """Return the accounts that have streams."""
        return sorted({str(row[0]) for row in self._file.rows("streams")})

    def streams(self, account: str) -> list[StreamRow]:
        """Return the account's streams in the order of their names."""
        rows = self._file.rows("streams", "WHERE account = ? ORDER BY name", (account,))
        return [StreamRow(*row) for row in rows]  # type: ignore[arg-type]

    def create(self, row: StreamRow) -> None:
        """Declare a stream; its account must not have one of this name."""
        self._fence.check()
        self._declare(row)
        with self._file.transaction() as db:
            # Another stream of this name must not be replaced.
            db.execute(*TABLES.put("streams", row.values, replace=False))

    def take_back(self, row: StreamRow) -> None:
        """Forget a stream whose creation was refused; if the disk refuses, the next change does it."""
        self._file.refuse(_FORGET_STREAM, (row.account, row.name, row.identity))
        self._forget_refused()

    def update(self, account: str, name: str, config: str) -> None:
        """Replace the config of a declared stream."""
        found = self._file.rows("streams", "WHERE account = ? AND name = ?", (account, name))
        assert found, f"stream {name!r} is not in the catalog"
        row = StreamRow(*found[0])  # type: ignore[arg-type]
        new = StreamRow(
            account, name, config, row.created_ns, row.identity, row.directory, self._next_revision(row)
        )
        # Prepared first: if the disk cannot be read later, the old config can still be written.
        announced = new.declaration(self.store_id, replaces=row.revision)
        made, kept = new.declaration(self.store_id), replace(row, revision=new.revision + 1)
        self._fence.check()
        try:
            self._write_declaration(row, announced)
            self.replace(new)
        except FencedError:
            raise  # the files are another engine's by now
        except BaseException:
            # A restart takes the row, and a lost catalog is rebuilt from here.
            with suppress(OSError, DiskError):
                self._write_declaration(row, kept.declaration(announced.store))
            raise
        try:
            self._write_declaration(row, made)
        except (OSError, DiskError) as error:
            logger.warning("stream %r: cannot record that its config was changed yet: %s", name, error)

    def _next_revision(self, row: StreamRow) -> int:
        """Return a revision above both records: a refused change may be stored next to the data."""
        stored = declaration.read_declaration(self._disk, row.home(self._store))
        known = stored.revision if stored is not None and stored.identity == row.identity else 0
        return max(row.revision, known) + 1

    def replace(self, row: StreamRow) -> None:
        """Replace the row of a declared stream, whatever is stored next to its data.

        A stream that was deleted in the meantime, or another one of its name, is not changed.
        """
        values = (row.config, row.revision, row.directory)
        with self._file.transaction() as db:
            db.execute(
                "UPDATE streams SET config = ?, revision = ?, directory = ?, crc = ?"
                " WHERE account = ? AND name = ? AND identity = ?",
                (*values, row_sum("streams", row.values), row.account, row.name, row.identity),
            )

    def _declare(self, row: StreamRow) -> None:
        """Write the stream's declaration next to its data; a stream without a directory has none."""
        self._write_declaration(row, row.declaration(self.store_id))

    def _write_declaration(self, row: StreamRow, written: Declaration) -> None:
        home = row.home(self._store)
        if home.exists():
            declaration.write_declaration(self._disk, home, written)

    def delete(self, account: str, name: str, *, tombstone: bool = False) -> None:
        """Remove a stream and its consumers; an unknown one changes nothing.

        With a tombstone its directory may be removed, now or at any later start.
        """
        with self._file.transaction() as db:
            if tombstone:
                found = db.execute(
                    "SELECT identity FROM streams WHERE account = ? AND name = ?", (account, name)
                ).fetchone()
                if found is not None:
                    db.execute(*TABLES.put("deletions", (found[0], account, name)))
            db.execute("DELETE FROM streams WHERE account = ? AND name = ?", (account, name))

    def deletions(self) -> set[str]:
        """Return the identities of deleted streams whose directories may still exist."""
        return {str(row[0]) for row in self._file.rows("deletions")}

    def record_deletion(self, identity: str, account: str, name: str) -> None:
        """Record that a client requested the removal of a directory that no row names."""
        with self._file.transaction() as db:
            db.execute(*TABLES.put("deletions", (identity, account, name)))

    def forget_deletion(self, identity: str) -> None:
        """Remove the record of a completed deletion."""
        with self._file.transaction() as db:
            db.execute("DELETE FROM deletions WHERE identity = ?", (identity,))

    def consumers(self, account: str, stream: str) -> list[ConsumerRow]:
        """Return the stream's consumers in the order of their names."""
        rows = self._file.rows(
            "consumers", "WHERE account = ? AND stream = ? ORDER BY name", (account, stream)
        )
        return [ConsumerRow(*row) for row in rows]  # type: ignore[arg-type]

    def declare_consumer(self, row: ConsumerRow, stream_created_ns: int | None = None) -> None:
        """Declare a consumer, or replace the config of a declared one.

        With the creation time of its stream, a later stream of the same name is not changed.
        """
        identity = self._identity(row.account, row.stream, stream_created_ns)
        if identity is None:
            raise sqlite3.IntegrityError(f"stream {row.stream!r} is not declared")
        old = self._consumer(row.account, row.stream, row.name)
        self._fence.check()
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
        with self._file.transaction() as db:
            if not of or db.execute(_WHOSE, (row.account, row.stream)).fetchone() == (of,):
                db.execute(*TABLES.put("consumers", row.values))

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
        self._fence.check()
        if row is not None and found is not None and found[1] == identity:
            self._consumer_files.remove(found[0], row.file)
        with self._file.transaction() as db:
            if db.execute(_WHOSE, (account, stream)).fetchone() == (identity,):
                db.execute(_FORGET_CONSUMER, (account, stream, name))

    def _identity(self, account: str, stream: str, created_ns: int | None) -> str | None:
        """Return the identity of a declared stream; None if it is another than the one created then."""
        rows = self._file.rows("streams", "WHERE account = ? AND name = ?", (account, stream))
        row = StreamRow(*rows[0]) if rows else None  # type: ignore[arg-type]
        if row is None or created_ns not in (None, row.created_ns):
            return None
        return row.identity

    def _refuse(self, row: ConsumerRow) -> None:
        """Remove a consumer whose declaration was refused, wherever it may have been written."""
        self._file.refuse(_FORGET_CONSUMER, (row.account, row.stream, row.name))
        self._leave_behind(row)
        self._forget_refused()

    def _leave_behind(self, row: ConsumerRow) -> None:
        """Have the file of a refused declaration removed before the next change."""
        found = self._home(row.account, row.stream)
        if found is not None:
            self._consumer_files.leave_behind(found[0], row.file)

    def _forget_refused(self) -> None:
        """Remove refused consumers; if that fails, too, the next change of the catalog does it."""
        if not (self._file.has_refused or self._consumer_files.has_leftover):
            return
        try:
            with self._file.transaction():
                pass
        except (sqlite3.Error, Error) as error:
            logger.warning("cannot remove refused streams and consumers yet: %s", error)

    def _declare_consumer(self, row: ConsumerRow, old: ConsumerFile | None, identity: str) -> None:
        """Write a consumer's declaration next to the data of the stream with this identity."""
        found = self._home(row.account, row.stream)
        if found is not None and found[1] == identity:
            self._consumer_files.write(found[0], row.declaration(identity), old)

    def _consumer(self, account: str, stream: str, name: str) -> ConsumerRow | None:
        rows = self._file.rows(
            "consumers", "WHERE account = ? AND stream = ? AND name = ?", (account, stream, name)
        )
        return ConsumerRow(*rows[0]) if rows else None  # type: ignore[arg-type]

    def _home(self, account: str, stream: str) -> tuple[Path, str] | None:
        """Return the directory and the identity of a declared stream, if it exists."""
        rows = self._file.rows("streams", "WHERE account = ? AND name = ?", (account, stream))
        row = StreamRow(*rows[0]) if rows else None  # type: ignore[arg-type]
        if row is None or not row.home(self._store).exists():
            return None
        return row.home(self._store), row.identity

    def pipelines(self, account: str) -> list[str]:
        """Return the declarations of the account's pipelines in the order of their names."""
        rows = self._file.rows("pipelines", "WHERE account = ? ORDER BY name", (account,))
        return [str(row[2]) for row in rows]

    def put_pipeline(self, account: str, name: str, declared: str) -> None:
        """Declare a pipeline, or replace the declaration of one."""
        with self._file.transaction() as db:
            db.execute(*TABLES.put("pipelines", (account, name, declared)))

    def forget_pipeline(self, account: str, name: str) -> None:
        """Remove a pipeline; an unknown one changes nothing."""
        with self._file.transaction() as db:
            db.execute("DELETE FROM pipelines WHERE account = ? AND name = ?", (account, name))

    def close(self) -> None:
        """Close the file."""
        self._forget_refused()
        self._file.close()
