"""A copy of a database holds what was committed, also while another process writes it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headwater.control.sqlite_file import open_database
from headwater.store.database_copy import copy_at_rest, copy_in_use


def test_both_copies_hold_what_only_the_write_ahead_log_has(tmp_path: Path) -> None:
    db = open_database(tmp_path / "a.db")
    db.execute("CREATE TABLE t (x)")
    db.execute("INSERT INTO t VALUES (7)")
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO t VALUES (8)")
    for copy in (copy_in_use, copy_at_rest):
        target = tmp_path / f"{copy.__name__}.db"
        copy(tmp_path / "a.db", target)
        copied = sqlite3.connect(target)
        assert copied.execute("SELECT x FROM t").fetchall() == [(7,)]
        copied.close()
    db.close()


def test_a_database_that_is_not_there_cannot_be_copied(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        copy_in_use(tmp_path / "none.db", tmp_path / "copy.db")
