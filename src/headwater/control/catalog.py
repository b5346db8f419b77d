"""The catalog: the declared streams and consumers, in one sqlite file that only this engine writes."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import Error

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
)
VERSION = len(_MIGRATIONS)
_BUSY_TIMEOUT_S = 5.0


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


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """One declared consumer; `config` is its JSON."""

    account: str
    stream: str
    name: str
    config: str
    created_ns: int


class Catalog:
    """Every declared stream and consumer, durable when a method returns; safe to call from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
            self._migrate()
        except sqlite3.Error as error:
            raise CatalogError(f"the catalog {path} cannot be opened: {error}") from error

    def _migrate(self) -> None:
        """Bring the schema to this version, one step in one transaction."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            self._db.close()
            raise CatalogError(
                f"the catalog {self._path} has version {version}, this Headwater knows up to {VERSION}: "
                "it was written by a newer release; start that one"
            )
        for step in range(version, VERSION):
            with self._transaction():
                for statement in _MIGRATIONS[step].split(";"):
                    self._db.execute(statement)
                if step == 0:
                    self._db.execute("INSERT INTO store VALUES ('id', ?)", (uuid.uuid4().hex,))
                self._db.execute(f"PRAGMA user_version = {step + 1}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run what is inside whole or not at all."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @property
    def store_id(self) -> str:
        """Return the name that tells this store from every other."""
        with self._lock:
            (value,) = self._db.execute("SELECT value FROM store WHERE key = 'id'").fetchone()
        return str(value)

    def streams(self, account: str) -> list[StreamRow]:
        """Return the account's streams in the order of their names."""
        with self._lock:
            found = self._db.execute(
                "SELECT account, name, config, created_ns, identity, directory"
                " FROM streams WHERE account = ? ORDER BY name",
                (account,),
            ).fetchall()
        return [StreamRow(*row) for row in found]

    def create(self, row: StreamRow) -> None:
        """Declare a stream; its account must have none of this name."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO streams (account, name, config, created_ns, identity, directory)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (row.account, row.name, row.config, row.created_ns, row.identity, row.directory),
            )

    def update(self, account: str, name: str, config: str) -> None:
        """Replace the config of a declared stream."""
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE streams SET config = ? WHERE account = ? AND name = ?", (config, account, name)
            ).rowcount
            assert changed == 1, f"stream {name!r} is not in the catalog"

    def delete(self, account: str, name: str) -> None:
        """Forget a stream and its consumers; forgetting an unknown one changes nothing."""
        with self._transaction() as db:
            db.execute("DELETE FROM streams WHERE account = ? AND name = ?", (account, name))

    def consumers(self, account: str, stream: str) -> list[ConsumerRow]:
        """Return the stream's consumers in the order of their names."""
        with self._lock:
            found = self._db.execute(
                "SELECT account, stream, name, config, created_ns"
                " FROM consumers WHERE account = ? AND stream = ? ORDER BY name",
                (account, stream),
            ).fetchall()
        return [ConsumerRow(*row) for row in found]

    def declare_consumer(self, row: ConsumerRow) -> None:
        """Declare a consumer, or replace the config of a declared one."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO consumers (account, stream, name, config, created_ns) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (account, stream, name) DO UPDATE SET config = excluded.config",
                (row.account, row.stream, row.name, row.config, row.created_ns),
            )

    def forget_consumer(self, account: str, stream: str, name: str) -> None:
        """Forget a consumer; forgetting an unknown one changes nothing."""
        with self._transaction() as db:
            db.execute(
                "DELETE FROM consumers WHERE account = ? AND stream = ? AND name = ?",
                (account, stream, name),
            )

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._db.close()
