"""Migrated tables have the listed columns, and a checksum covers the table and every value of a row."""

from __future__ import annotations

import sqlite3

import pytest

from headwater.control.catalog_schema import COLUMNS, MIGRATIONS, put, row_sum

DELETION = ("identity", "$G", "a")


@pytest.fixture
def db() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    for script in MIGRATIONS:
        database.executescript(script)
    return database


@pytest.mark.parametrize("table", COLUMNS)
def test_every_table_has_its_columns_and_a_checksum(db: sqlite3.Connection, table: str) -> None:
    found = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
    assert sorted(found) == sorted([*COLUMNS[table].split(", "), "crc"])


def test_the_checksum_covers_the_table_and_every_value() -> None:
    sums = {
        row_sum("deletions", DELETION),
        row_sum("streams", DELETION),
        *(row_sum("deletions", (*DELETION[:n], "x", *DELETION[n + 1 :])) for n in range(3)),
    }
    assert len(sums) == 5
    assert row_sum("deletions", list(DELETION)) in sums, "a row that was read is a list"


def test_a_row_is_put_with_its_checksum_and_replaced_only_if_wanted(db: sqlite3.Connection) -> None:
    db.execute(*put("deletions", DELETION))
    db.execute(*put("deletions", ("identity", "$G", "b")))
    assert db.execute("SELECT name, crc FROM deletions").fetchall() == [
        ("b", row_sum("deletions", ("identity", "$G", "b")))
    ]
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(*put("deletions", DELETION, replace=False))
