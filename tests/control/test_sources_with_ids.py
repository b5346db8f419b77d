"""Sources into streams with a duplicate window: files without message ids are linked, ids are all checked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from control.copiers import copying, count_is, create, held
from control.test_linked_sources import HEADED, PLAIN, ROWS, fill, linked, source_fields
from doors import Door
from headwater.replication.work import Work
from headwater.replication.worker.transfer import transfer
from headwater.table import file_sums, parquet
from headwater.table.file_sums import FileSums
from headwater.table.parquet import Footer

WINDOW = 120_000_000_000


def named(name: bytes) -> bytes:
    return b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % name


async def fill_named(door: Door, stream: str, ids: Sequence[bytes], *, folded: bool = True) -> None:
    """Have a stream take a message for each id, large enough together for a file."""
    origin = door.domain.stream(stream)
    subject = b"%s.id" % stream.lower().encode()
    origin.publishing.offer([(subject, b"", named(each), b"%b " % each + bytes(400)) for each in ids])
    await origin.publishing.settled()
    if folded:
        await origin.checkpoint()


def ids(start: int, count: int = ROWS) -> list[bytes]:
    return [b"id-%d" % number for number in range(start, start + count)]


@pytest.mark.parametrize("headers", [PLAIN, HEADED], ids=["plain", "headers"])
@pytest.mark.parametrize("window", [0, WINDOW])
async def test_files_without_ids_are_linked_whatever_the_window(
    tmp_path: Path, headers: bytes, window: int
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        for _ in range(3):
            await fill(door, "ORDERS", headers)
        await create(door, name="T", sources=[{"name": "ORDERS"}], duplicate_window=window)
        await create(door, name="M", mirror={"name": "ORDERS"}, duplicate_window=window)
        await copier.until(count_is(door, "T", 3 * ROWS))
        await copier.until(count_is(door, "M", 3 * ROWS))
        assert linked(door, "T") == 3 * ROWS
        assert await held(door, "M") == await held(door, "ORDERS")
        assert [source_fields(m)[1] for m in await held(door, "T")] == [
            str(seq) for seq in range(1, 3 * ROWS + 1)
        ]
        origin = {path.stat().st_ino for path in door.domain.stream("ORDERS").directory.rglob("*.parquet")}
        for name in ("T", "M"):
            files = list(door.domain.stream(name).directory.rglob("*.parquet"))
            assert {path.stat().st_ino for path in files} == origin
        before = await held(door, "T")
    async with copying(tmp_path) as (door, _):
        assert await held(door, "T") == before


async def test_ids_are_checked_beside_linked_files_of_the_same_source(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"], duplicate_window=100_000_000)
        await create(door, name="T", subjects=["t"], sources=[{"name": "ORDERS"}], duplicate_window=WINDOW)
        await door.asker.publish("t", b"first", named(b"id-7"))
        await fill(door, "ORDERS")
        await fill_named(door, "ORDERS", ids(0))
        await fill(door, "ORDERS")
        await asyncio.sleep(0.15)  # the origin forgets id-9
        await fill_named(door, "ORDERS", [*ids(100_000, 20), b"id-9"], folded=False)
        # id-7 was published to the target before; id-9 is in a file and again in the tail.
        await copier.until(count_is(door, "T", 1 + 3 * ROWS - 1 + 20))
        assert linked(door, "T") == 2 * ROWS
        answer = await door.asker.publish("t", b"late", named(b"id-100003"))
        assert answer["duplicate"] is True
        seen = [m.headers for m in await held(door, "T") if b"Nats-Msg-Id" in m.headers]
        assert len(seen) == ROWS + 20
        assert sum(b"Nats-Msg-Id: id-7\r\n" in block for block in seen) == 1
        assert sum(b"Nats-Msg-Id: id-9\r\n" in block for block in seen) == 1


@pytest.mark.parametrize("folded", [True, False], ids=["files", "tails"])
async def test_an_id_that_two_sources_bring_is_stored_once(tmp_path: Path, folded: bool) -> None:
    async with copying(tmp_path) as (door, copier):
        for name in ("A", "B"):
            await create(door, name=name, subjects=[f"{name.lower()}.>"])
            await fill(door, name)
            await fill_named(door, name, ids(0, ROWS if folded else 100), folded=folded)
        sources = [{"name": "A"}, {"name": "B"}]
        await create(door, name="T", sources=sources, duplicate_window=WINDOW)
        await copier.until(count_is(door, "T", 2 * ROWS + (ROWS if folded else 100)))
        for _ in range(3):
            await copier.tick()
        assert (await door.domain.stream("T").reading.state()).messages == 2 * ROWS + (
            ROWS if folded else 100
        )
        assert linked(door, "T") == 2 * ROWS


async def test_headers_in_files_of_version_0_1_0_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"], duplicate_window=100_000_000)
        await fill(door, "ORDERS")
        await fill(door, "ORDERS", HEADED)
        await fill_named(door, "ORDERS", ids(0))
        await create(door, name="T", sources=[{"name": "ORDERS"}], duplicate_window=WINDOW)
        monkeypatch.setattr("headwater.replication.worker.transfer.parquet.read_sums", _old_sums)
        await copier.until(count_is(door, "T", 3 * ROWS))
        assert linked(door, "T") == ROWS
        assert len(door.domain.stream("T")._store.ledger.dedupe) == ROWS


_read_sums = parquet.read_sums


def _old_sums(footer: Footer) -> FileSums | None:
    """Return the sums as a footer of version 0.1.0 has them: it does not say whether there are ids."""
    sums = _read_sums(footer)
    if sums is None:
        return None
    fields = msgspec.json.decode(file_sums.encode(sums))
    del fields["ids"]
    return file_sums.decode(msgspec.json.encode(fields))


async def test_a_window_that_is_set_meanwhile_has_the_ids_of_a_linked_file_checked(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        await fill_named(door, "ORDERS", ids(0))
        await create(door, name="T", sources=[{"name": "ORDERS"}])
        works: Sequence[Work] = ()
        while not works:
            works = await copier.asked()
        receipts = [transfer(work) for work in works]
        assert receipts[0].adopted
        config = {"name": "T", "sources": [{"name": "ORDERS"}], "duplicate_window": WINDOW}
        answer = await door.asker.ask("STREAM.UPDATE.T", config)
        assert "error" not in answer, answer
        assert await copier.hand_in(receipts) == 0
        assert list((door.domain.stream("T").directory / "staging").iterdir()) == []
        await copier.until(count_is(door, "T", ROWS))
        assert linked(door, "T") == 0
        assert len(door.domain.stream("T")._store.ledger.dedupe) == ROWS


@pytest.mark.parametrize(
    "source", [{"filter_subject": "orders.3"}, {"subject_transforms": [{"src": "orders.*", "dest": "x.$1"}]}]
)
async def test_what_a_filter_or_a_transform_leaves_without_ids_is_taken_as_a_file(
    tmp_path: Path, source: dict[str, Any]
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        for _ in range(8):
            await fill(door, "ORDERS", HEADED)
        await create(door, name="T", sources=[{"name": "ORDERS", **source}], duplicate_window=WINDOW)
        wanted = len(range(3, 8 * ROWS, 7)) if "filter_subject" in source else 8 * ROWS
        await copier.until(count_is(door, "T", wanted))
        files = door.domain.stream("T")._store.table.files
        assert sum(file.rows for file in files) == wanted
        assert door.domain.stream("T")._store.head.nbytes_from(1) == 0


async def test_one_file_with_ids_has_no_other_file_read(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        await fill(door, "ORDERS")
        await fill(door, "ORDERS")
        await fill_named(door, "ORDERS", ids(0))
        await fill(door, "ORDERS")
        await create(door, name="T", sources=[{"name": "ORDERS"}], duplicate_window=WINDOW)
        works: Sequence[Work] = ()
        while not works:
            works = await copier.asked()
        assert [len(work.files) for work in works] == [2, 1, 1]
        assert [bool(work.read_bytes) for work in works] == [False, True, False]


async def test_a_replicator_of_an_older_release_takes_no_file_into_a_window(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        await fill_named(door, "ORDERS", ids(0))
        await create(door, name="T", sources=[{"name": "ORDERS"}], duplicate_window=WINDOW)
        while (await door.domain.stream("T").reading.state()).messages < ROWS:
            works = [
                msgspec.structs.replace(work, adoptive_without_ids=False) for work in await copier.asked()
            ]
            await copier.hand_in([transfer(work) for work in works])
        assert linked(door, "T") == 0
        assert len(door.domain.stream("T")._store.ledger.dedupe) == ROWS
