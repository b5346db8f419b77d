"""Tables of a SQLite file whose rows have a checksum each: the pages of SQLite have none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from headwater.checksum import crc32

Op = tuple[str, tuple[object, ...]]
"""One change: a statement with its values."""


def row_sum(table: str, values: object) -> int:
    """Return the checksum of a row."""
    return crc32(msgspec.msgpack.encode([table, values]))


class SummedTables:
    """The tables of one kind of file; the column `crc` of each holds the checksum of the others."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = columns
        """The columns of each table that the checksum covers, as a statement names them."""

    def put(self, table: str, values: tuple[object, ...], *, replace: bool = True) -> Op:
        """Return the statement that adds a row with its checksum; with `replace` also over one of its key."""
        marks = ", ".join("?" * (len(values) + 1))
        insert = "INSERT OR REPLACE" if replace else "INSERT"
        return (
            f"{insert} INTO {table} ({self.columns[table]}, crc) VALUES ({marks})",
            (*values, row_sum(table, values)),
        )

    def sum_up(self, db: sqlite3.Connection) -> Iterator[Op]:
        """Yield the statements that give every row its checksum; a table of a later version has none."""
        there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, columns in self.columns.items():
            if table not in there:
                continue
            for rowid, *values in db.execute(f"SELECT rowid, {columns} FROM {table}").fetchall():
                yield f"UPDATE {table} SET crc = ? WHERE rowid = ?", (row_sum(table, values), rowid)

    def select(self, table: str, which: str = "") -> str:
        """Return the query of rows, each with its checksum first, as `damaged` wants them."""
        return f"SELECT crc, {self.columns[table]} FROM {table} {which}"

    def damaged(self, table: str, found: Sequence[Sequence[object]]) -> list[object] | None:
        """Return the first row whose checksum does not match, None if all do."""
        for crc, *row in found:
            if crc != row_sum(table, row):
                return row
        return None
