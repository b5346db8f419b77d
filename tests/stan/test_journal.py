"""Tests of stan.journal."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from errno import EIO
from pathlib import Path

import pytest

from headwater.control.summed_tables import Op
from headwater.errors import DiskError
from headwater.stan import journal as journal_module
from headwater.stan import records
from headwater.stan.journal import Journal
from headwater.stan.records import Records


async def test_waiting_callers_are_called_once_their_change_is_durable(tmp_path: Path) -> None:
    kept = Records(tmp_path / "stan.db")
    journal = Journal(kept)
    seen: list[tuple[str, dict[str, str]]] = []
    for name in "abc":
        journal.put([records.keep(name, name)], lambda name=name: seen.append((name, kept.server())))  # type: ignore[misc]
    await journal.settled()
    assert [name for name, _ in seen] == ["a", "b", "c"]
    assert all(name in there for name, there in seen)
    await journal.close()


async def test_what_waits_is_written_before_the_end(tmp_path: Path) -> None:
    kept = Records(tmp_path / "stan.db")
    journal = Journal(kept)
    journal.put([records.keep("a", "b")])
    await journal.close()
    assert kept.server() == {"a": "b"}


@pytest.mark.parametrize(
    "error",
    [sqlite3.OperationalError("disk I/O error"), DiskError(Path("epoch"), "read", EIO)],
    ids=["sqlite", "owner's record"],
)
async def test_a_write_that_fails_is_tried_again_in_order(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    monkeypatch.setattr(journal_module, "RETRY_S", 0.001)
    kept = Records(tmp_path / "stan.db")
    failures = 2
    write = kept.write

    def failing(ops: Iterable[Op]) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise error
        write(ops)

    monkeypatch.setattr(kept, "write", failing)
    journal = Journal(kept)
    calls: list[int] = []
    journal.put([records.keep("a", "1")], lambda: calls.append(failures))
    await journal.settled()
    assert (calls, kept.server()) == ([0], {"a": "1"})
    assert f"cannot write the state of NATS Streaming: {error}; retrying" in caplog.text
    assert "Traceback" not in caplog.text
    await journal.close()


async def test_a_callback_that_fails_delays_no_other_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Records(tmp_path / "stan.db")
    journal = Journal(kept)
    journal.put([records.keep("a", "1")], lambda: 1 // 0)  # type: ignore[arg-type]
    journal.put([records.keep("b", "2")])
    await asyncio.wait_for(journal.settled(), 30)
    await journal.close()
    assert kept.server() == {"a": "1", "b": "2"}
    assert "could not be answered" in caplog.text
