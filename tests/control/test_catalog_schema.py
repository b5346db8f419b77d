"""Migrated tables have the listed columns, and one for the checksum."""

from __future__ import annotations

import sqlite3

import pytest

from headwater.control.catalog_schema import MIGRATIONS, TABLES


@pytest.fixture
def db() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    for script in MIGRATIONS:
        database.executescript(script)
    return database


@pytest.mark.parametrize("table", TABLES.columns)
def test_every_table_has_its_columns_and_a_checksum(db: sqlite3.Connection, table: str) -> None:
    found = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
    assert sorted(found) == sorted([*TABLES.columns[table].split(", "), "crc"])
