"""A store has one owner; an engine that lost it stops before it acknowledges anything more."""

from __future__ import annotations

import asyncio
import os
from errno import ENOSPC
from pathlib import Path

import pytest

from headwater.control.ownership import CACHE_VERSION, MAGIC, NAME, VERSION, Owner, Ownership
from headwater.errors import CorruptionError, DiskError, FencedError, NewerFormatError


def taken(store: Path) -> Ownership:
    ownership = Ownership(store)
    ownership.take()
    return ownership


def test_each_take_over_has_a_higher_epoch(tmp_path: Path) -> None:
    assert [taken(tmp_path).epoch for _ in range(3)] == [1, 2, 3]
    last = Ownership(tmp_path)
    last.take(above=70)
    assert last.epoch == 71


def test_a_full_disk_leaves_no_empty_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refused)
    with pytest.raises(DiskError, match="the disk is full"):
        taken(tmp_path)
    monkeypatch.undo()
    assert not (tmp_path / NAME).exists()
    assert taken(tmp_path).epoch == 1


def test_an_owner_may_continue_until_another_takes_over(tmp_path: Path) -> None:
    first = taken(tmp_path)
    first.check()
    record = (tmp_path / NAME).read_bytes()
    second = taken(tmp_path)
    for _ in range(2):
        with pytest.raises(FencedError, match=r"taken from this engine \(epoch 1\): process .* with epoch 2"):
            first.check()
        (tmp_path / NAME).write_bytes(record)  # even if all were as before
    assert first.is_lost
    assert not second.is_lost


def test_two_engines_that_take_the_same_epoch_are_distinguished(tmp_path: Path) -> None:
    first = taken(tmp_path)
    (tmp_path / NAME).unlink()
    second = taken(tmp_path)
    assert first.epoch == second.epoch
    second.check()
    with pytest.raises(FencedError):
        first.check()


def test_an_owner_whose_record_is_gone_or_damaged_stops(tmp_path: Path) -> None:
    owner = taken(tmp_path)
    (tmp_path / NAME).unlink()
    with pytest.raises(FencedError, match="epoch was removed"):
        owner.check()
    owner = taken(tmp_path)
    (tmp_path / NAME).write_bytes(b"?")
    with pytest.raises(FencedError, match="not a record of an owner"):
        owner.check()


def test_one_that_was_never_taken_is_nobodys(tmp_path: Path) -> None:
    Ownership(tmp_path).check()


def test_a_flipped_bit_in_the_record_is_noticed(tmp_path: Path) -> None:
    whole = Owner(7, 42, b"i" * 16, "host").encode()
    assert Owner.decode(whole, tmp_path) == Owner(7, 42, b"i" * 16, "host")
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptionError):
            Owner.decode(bytes(damaged), tmp_path)


def test_a_cache_of_a_journal_has_a_record_that_older_releases_refuse(tmp_path: Path) -> None:
    ownership = Ownership(tmp_path)
    ownership.take(is_cache=True)
    assert Owner.decode((tmp_path / NAME).read_bytes(), tmp_path).version == CACHE_VERSION > VERSION
    ownership.take()
    assert Owner.decode((tmp_path / NAME).read_bytes(), tmp_path).version == CACHE_VERSION
    ownership.check()


async def test_an_owner_that_the_journal_fenced_has_lost_for_good(tmp_path: Path) -> None:
    ownership = taken(tmp_path)
    losing = asyncio.create_task(ownership.lost())
    await asyncio.sleep(0)
    error = ownership.lose("process 7 on b has it, with epoch 2")
    assert await losing is error
    for _ in range(2):
        with pytest.raises(FencedError, match="process 7 on b"):
            ownership.check()


def test_a_record_of_a_newer_release_is_refused_at_a_takeover(tmp_path: Path) -> None:
    newer = Owner(7, 42, b"i" * 16, "host", CACHE_VERSION + 1).encode()
    assert newer.startswith(MAGIC)
    (tmp_path / NAME).write_bytes(newer)
    with pytest.raises(NewerFormatError, match="version 3, this Headwater knows up to 2"):
        Ownership(tmp_path).take()
    assert (tmp_path / NAME).read_bytes() == newer


async def test_an_idle_owner_learns_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.control.ownership.LOOK_S", 0.01)
    owner = taken(tmp_path)
    losing = asyncio.create_task(owner.lost())
    await asyncio.sleep(0.05)
    assert not losing.done()
    taken(tmp_path)
    assert isinstance(await asyncio.wait_for(losing, 60), FencedError)


async def test_a_thread_that_finds_it_fenced_stops_the_engine_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.control.ownership.LOOK_S", 3600)
    owner = taken(tmp_path)
    losing = asyncio.create_task(owner.lost())
    await asyncio.sleep(0)
    taken(tmp_path)
    with pytest.raises(FencedError):
        await asyncio.to_thread(owner.check)
    assert isinstance(await asyncio.wait_for(losing, 60), FencedError)
