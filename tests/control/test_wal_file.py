"""A flipped bit in a write-ahead log is found before SQLite drops what follows it."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from headwater.control.sqlite_file import open_database
from headwater.control.wal_file import WalState, resealed, state_of, wal_path

ROWS = 12


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return a database as a kill leaves it, with several transactions in its write-ahead log."""
    made, left = tmp_path / "made.db", tmp_path / "left.db"
    db = open_database(made)
    db.execute("CREATE TABLE t (x INTEGER, y TEXT)")
    for number in range(ROWS):
        db.execute("INSERT INTO t VALUES (?, ?)", (number, "text" * 100))
    shutil.copyfile(made, left)
    shutil.copyfile(wal_path(made), wal_path(left))
    db.close()
    return left


def flip(path: Path, at: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def rows(database: Path) -> int:
    db = sqlite3.connect(database)
    try:
        return int(db.execute("SELECT count(*) FROM t").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        db.close()


def test_what_a_kill_leaves_is_whole(killed: Path) -> None:
    assert state_of(killed) is WalState.WHOLE
    db = open_database(killed)
    assert db.execute("SELECT count(*) FROM t").fetchone() == (ROWS,)
    db.close()
    assert state_of(killed) is WalState.WHOLE
    assert state_of(killed.with_name("none.db")) is WalState.WHOLE


def test_every_flipped_bit_is_found_or_changes_nothing(killed: Path, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    size = wal_path(killed).stat().st_size
    places = [*range(56), *(chance.randrange(size) for _ in range(60)), *range(size - 4120, size - 4090)]
    for number, at in enumerate(places):
        copied = tmp_path / f"{number}.db"
        shutil.copyfile(killed, copied)
        shutil.copyfile(wal_path(killed), wal_path(copied))
        flip(wal_path(copied), at, chance.randrange(8))
        state = state_of(copied)
        if state is WalState.DAMAGED:
            with pytest.raises(sqlite3.DatabaseError, match="it is damaged"):
                open_database(copied)
        elif state is WalState.TORN:
            assert rows(copied) == ROWS - 1, (seed, at)
        else:
            assert rows(copied) == ROWS, (seed, at)


def test_a_torn_last_transaction_is_left_out_with_a_warning(
    killed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flip(wal_path(killed), wal_path(killed).stat().st_size - 100)
    assert state_of(killed) is WalState.TORN
    db = open_database(killed)
    assert db.execute("SELECT count(*) FROM t").fetchone() == (ROWS - 1,)
    db.close()
    assert "its last transaction is incomplete" in caplog.text


def test_a_log_that_is_cut_within_its_last_frame_is_whole_before_it(killed: Path) -> None:
    with wal_path(killed).open("r+b") as file:
        file.truncate(wal_path(killed).stat().st_size - 100)
    assert state_of(killed) is WalState.WHOLE
    assert rows(killed) == ROWS - 1


def test_frames_from_before_a_restart_of_the_log_are_no_damage(tmp_path: Path) -> None:
    made, left = tmp_path / "made.db", tmp_path / "left.db"
    db = open_database(made)
    db.execute("CREATE TABLE t (x INTEGER, y TEXT)")
    for number in range(ROWS):
        db.execute("INSERT INTO t VALUES (?, ?)", (number, "text" * 100))
    db.execute("PRAGMA wal_checkpoint(RESTART)")
    db.execute("INSERT INTO t VALUES (100, '')")
    shutil.copyfile(made, left)
    shutil.copyfile(wal_path(made), wal_path(left))
    db.close()
    assert state_of(left) is WalState.WHOLE
    assert rows(left) == ROWS + 1


@pytest.mark.parametrize("at", [2, 9, 17, 26, 32 + 9, 32 + 17, 32 + 24 + 4096 + 24 + 2000])
def test_a_resealed_log_is_used_to_its_end(killed: Path, at: int) -> None:
    flip(wal_path(killed), at)
    assert state_of(killed) is WalState.DAMAGED
    wal_path(killed).write_bytes(resealed(killed))
    assert state_of(killed) is WalState.WHOLE
    assert rows(killed) == ROWS
