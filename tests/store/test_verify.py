"""A check of a whole store sees all of it, changes nothing, and can look at one stream alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.store.finding import Kind
from headwater.store.verify import verify
from store import stores


async def test_a_check_shows_progress_and_finds_each_problem_of_each_stream(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    stores.flip(stores.data_files(tmp_path, "ORDERS")[0])
    stores.flip(tmp_path / "$G" / "EVENTS" / "checkpoint")
    stores.forget(tmp_path, "MEM")
    said: list[str] = []
    report = verify(tmp_path, stores.DISK, said.append)
    assert {(found.kind, found.stream) for found in report.problems} == {
        (Kind.DATA, "$G/ORDERS"),
        (Kind.CHECKPOINT, "$G/EVENTS"),
        (Kind.ORPHAN, "$G/MEM"),
    }
    assert report.streams == 3
    assert "2 of 3: $G/MEM" in said
    assert any(line.startswith("3 of 3: $G/ORDERS, file 1 of ") for line in said)


async def test_one_stream_can_be_checked_alone(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    stores.flip(stores.data_files(tmp_path, "ORDERS")[0])
    assert verify(tmp_path, stores.DISK, lambda said: None, "$G/EVENTS").problems == []
    assert len(verify(tmp_path, stores.DISK, lambda said: None, "$G/ORDERS").problems) == 1
    with pytest.raises(Error, match="there is no stream \\$G/NONE"):
        verify(tmp_path, stores.DISK, lambda said: None, "$G/NONE")


async def test_a_check_changes_no_file(tmp_path: Path) -> None:
    await stores.make(tmp_path)
    stores.flip(sorted((tmp_path / "$G" / "ORDERS" / "table" / "_delta_log").glob("*.json"))[-1])
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    stores.checked(tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
