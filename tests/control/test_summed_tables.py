"""A checksum covers the table and every value of a row, and shows what was changed."""

from __future__ import annotations

import sqlite3

import pytest

from headwater.control.summed_tables import SummedTables, row_sum

TABLES = SummedTables({"owners": "identity, account, name", "numbers": "number"})
OWNER = ("identity", "$G", "a")


@pytest.fixture
def db() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE owners (identity TEXT PRIMARY KEY, account, name, crc DEFAULT 0)")
    database.execute("CREATE TABLE numbers (number INTEGER, crc DEFAULT 0)")
    return database


def test_the_checksum_covers_the_table_and_every_value() -> None:
    sums = {
        row_sum("owners", OWNER),
        row_sum("streams", OWNER),
        *(row_sum("owners", (*OWNER[:n], "x", *OWNER[n + 1 :])) for n in range(3)),
    }
    assert len(sums) == 5
    assert row_sum("owners", list(OWNER)) in sums, "a row that was read is a list"


def test_a_row_is_put_with_its_checksum_and_replaced_only_if_wanted(db: sqlite3.Connection) -> None:
    db.execute(*TABLES.put("owners", OWNER))
    db.execute(*TABLES.put("owners", ("identity", "$G", "b")))
    assert db.execute("SELECT name, crc FROM owners").fetchall() == [
        ("b", row_sum("owners", ("identity", "$G", "b")))
    ]
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(*TABLES.put("owners", OWNER, replace=False))


def test_rows_without_a_checksum_get_theirs(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO numbers (number) VALUES (1), (2)")
    db.execute("INSERT INTO owners (identity, account, name) VALUES (?, ?, ?)", OWNER)
    assert TABLES.damaged("numbers", db.execute(TABLES.select("numbers")).fetchall()) == [1]
    for statement in TABLES.sum_up(db):
        db.execute(*statement)
    for table in TABLES.columns:
        assert TABLES.damaged(table, db.execute(TABLES.select(table)).fetchall()) is None


def test_a_changed_row_is_found(db: sqlite3.Connection) -> None:
    for number in range(3):
        db.execute(*TABLES.put("numbers", (number,)))
    db.execute("UPDATE numbers SET number = 7 WHERE number = 1")
    found = db.execute(TABLES.select("numbers", "ORDER BY number DESC")).fetchall()
    assert TABLES.damaged("numbers", found) == [7]
    assert TABLES.damaged("numbers", found[1:]) is None
