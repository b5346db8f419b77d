"""Sources that link their origin's files, through plans, receipts and restarts, next to those that copy."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.test_restore import archived, restored
from control.copiers import Copier, copying, count_is, create, held
from doors import Door, Wanted
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.times import format_time, parse_time
from headwater.replication.work import Receipt, Work
from headwater.replication.worker.transfer import transfer
from headwater.table import schema

ROWS = 1200
PLAIN = b""
HEADED = b"NATS/1.0\r\nColor: red\r\n\r\n"


async def fill(door: Door, stream: str, headers: bytes = PLAIN, rows: int = ROWS) -> None:
    """Have a stream of the name's subjects take messages enough for a file, and fold them."""
    origin = door.domain.stream(stream)
    start = (await origin.reading.state()).last_seq
    subject = stream.lower().encode()
    origin.publishing.offer(
        [
            (b"%s.%d" % (subject, number % 7), b"", headers, (b"%d " % number) * 60)
            for number in range(start, start + rows)
        ]
    )
    await origin.publishing.settled()
    await origin.checkpoint()


def linked(door: Door, stream: str) -> int:
    """Return how many messages of a stream lie in files of its source's origin."""
    files = door.domain.stream(stream)._store.table.files
    return sum(file.rows for file in files if file.copied is not None)


def source_fields(message: Message) -> list[str]:
    return (header_block.get_str(message.headers, b"Nats-Stream-Source") or "").split()


def texts(messages: Sequence[Message]) -> list[tuple[bytes, bytes]]:
    return [(m.subject, m.data) for m in messages]


@pytest.mark.parametrize("headers", [PLAIN, HEADED], ids=["plain", "headers"])
async def test_a_chain_of_streams_names_the_origin_before_it(tmp_path: Path, headers: bytes) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        await create(door, name="ARCHIVE", subjects=["archive"], sources=[{"name": "ORDERS"}])
        await create(door, name="REPORT", sources=[{"name": "ARCHIVE"}])
        await create(door, name="BACKUP", mirror={"name": "ARCHIVE"})
        await create(door, name="SOME", sources=[{"name": "ARCHIVE", "filter_subject": "orders.3"}])
        await create(
            door, name="PART", mirror={"name": "ARCHIVE", "filter_subject": "orders.3"}, allow_direct=True
        )
        await door.asker.publish("archive", b"local")
        await fill(door, "ORDERS", headers)
        await fill(door, "ORDERS", headers)
        for stream, wanted in (
            ("ARCHIVE", 2 * ROWS + 1),
            ("REPORT", 2 * ROWS + 1),
            ("BACKUP", 2 * ROWS + 1),
            ("SOME", len(range(3, 2 * ROWS, 7))),
            ("PART", len(range(3, 2 * ROWS, 7))),
        ):
            await copier.until(count_is(door, stream, wanted))
        assert [linked(door, stream) for stream in ("ARCHIVE", "REPORT", "BACKUP")] == [2 * ROWS] * 3
        orders, archive, report = [await held(door, name) for name in ("ORDERS", "ARCHIVE", "REPORT")]
        assert texts(archive[1:]) == texts(orders)
        assert texts(report) == texts(archive)
        assert [m.seq for m in archive] == [m.seq for m in report] == list(range(1, 2 * ROWS + 2))
        identity = {name: door.domain.stream(name).identity for name in ("ORDERS", "ARCHIVE")}
        for before, after, name in ((orders, archive[1:], "ORDERS"), (archive, report, "ARCHIVE")):
            expected = [[name, f"{m.seq}", ">", ">", m.subject.decode(), identity[name]] for m in before]
            assert [source_fields(m) for m in after] == expected
        assert all(m.headers.count(b"Nats-Stream-Source") == 1 for m in report)
        assert not headers or all(b"Color: red" in m.headers for m in report[1:])
        assert await held(door, "BACKUP") == archive
        assert await held(door, "PART") == [m for m in archive if m.subject == b"orders.3"]
        some = await held(door, "SOME")
        assert texts(some) == texts([m for m in archive if m.subject == b"orders.3"])
        assert [source_fields(m)[:2] for m in some] == [
            ["ARCHIVE", f"{m.seq}"] for m in archive if m.subject == b"orders.3"
        ]
        infos = {name: await door.asker.ask(f"STREAM.INFO.{name}") for name in ("ARCHIVE", "BACKUP")}
        assert infos["ARCHIVE"]["state"] == infos["BACKUP"]["state"]
        got = await door.asker.ask("STREAM.MSG.GET.ARCHIVE", {"seq": 1000})
        assert got["message"]["subject"] == archive[999].subject.decode()
    async with copying(tmp_path) as (door, _):
        for name, before in {"ARCHIVE": archive, "REPORT": report, "BACKUP": archive}.items():
            assert await held(door, name) == before


async def test_linked_and_copied_targets_hold_the_same_but_for_times(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        for headers in (PLAIN, HEADED, PLAIN):
            await fill(door, "ORDERS", headers)
        await create(door, name="LINKED", sources=[{"name": "ORDERS"}])
        await copier.until(count_is(door, "LINKED", 3 * ROWS))

        def unlinked(work: Work) -> Work:
            return msgspec.structs.replace(work, linkable=False)

        await create(door, name="COPIED", sources=[{"name": "ORDERS"}])
        while (await door.domain.stream("COPIED").reading.state()).messages < 3 * ROWS:
            await copier.hand_in([transfer(unlinked(work)) for work in await copier.asked()])
        assert (linked(door, "LINKED"), linked(door, "COPIED")) == (3 * ROWS, 0)
        one, two = await held(door, "LINKED"), await held(door, "COPIED")
        assert [m._replace(ts=0) for m in one] == [m._replace(ts=0) for m in two]
        states = [
            (await door.asker.ask(f"STREAM.INFO.{name}", {"subjects_filter": ">"}))["state"]
            for name in ("LINKED", "COPIED")
        ]
        for state in states:
            del state["first_ts"], state["last_ts"]
        assert states[0] == states[1]


async def test_what_is_published_removed_and_purged_meanwhile_is_neither_lost_nor_doubled(
    tmp_path: Path,
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="A", subjects=["a.>"])
        await create(door, name="B", subjects=["b.>"])
        await create(door, name="ALL", subjects=["all"], sources=[{"name": "A"}, {"name": "B"}])
        total = 0
        for number in range(6):
            await fill(door, "A", HEADED if number % 2 else PLAIN)
            await fill(door, "B", rows=ROWS if number % 3 else 5)
            await door.asker.publish("all", b"local %d" % number)
            if number == 2:
                await door.domain.stream("A").retention.remove(
                    (await door.domain.stream("A").reading.state()).last_seq - 5
                )
            total += ROWS + (ROWS if number % 3 else 5) + 1 - (number == 2)
            await copier.until(count_is(door, "ALL", total))
            await door.domain.stream("ALL").folder.tidy()
        found = await held(door, "ALL")
        assert [m.seq for m in found] == list(range(1, total + 1))
        for name in ("A", "B"):
            arrived = [m for m in found if source_fields(m)[:1] == [name]]
            origin = await held(door, name)
            assert texts(arrived) == texts(origin)
            assert [int(source_fields(m)[1]) for m in arrived] == [m.seq for m in origin]


async def test_a_receipt_that_is_refused_leaves_no_link_behind(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        await fill(door, "ORDERS")
        await create(door, name="T", sources=[{"name": "ORDERS"}])
        works: Sequence[Work] = ()
        while not works:
            works = await copier.asked()
        receipts = [transfer(work) for work in works]
        assert receipts[0].adopted[0].copied is not None
        config = {"name": "T", "sources": [{"name": "ORDERS"}], "max_msgs_per_subject": ROWS}
        answer = await door.asker.ask("STREAM.UPDATE.T", config)
        assert "error" not in answer, answer
        assert await copier.hand_in(receipts) == 0
        staging = door.domain.stream("T").directory / "staging"
        assert list(staging.iterdir()) == []
        await copier.until(count_is(door, "T", ROWS))
        assert linked(door, "T") == 0
        assert [source_fields(m)[1] for m in await held(door, "T")] == [
            str(seq) for seq in range(1, ROWS + 1)
        ]


async def test_the_same_receipt_twice_is_taken_once(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        await fill(door, "ORDERS")
        await create(door, name="T", sources=[{"name": "ORDERS"}])

        def twice(receipts: list[Receipt]) -> list[Receipt]:
            return receipts * 2

        copier.between = twice
        await copier.until(count_is(door, "T", ROWS))
        for _ in range(3):
            await copier.tick()
        assert len(await held(door, "T")) == ROWS


async def test_an_origin_that_compacts_while_its_files_are_linked_loses_nothing(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        await create(door, name="T", sources=[{"name": "ORDERS"}])
        origin = door.domain.stream("ORDERS")
        for number in range(8):
            await fill(door, "ORDERS")
            works = await copier.asked()
            if number % 2:
                # All files of the plan are replaced, and gone, before the task begins.
                await origin.folder.compact()
                origin._store.table.sweep(0, 0)
            await copier.hand_in([transfer(work) for work in works])
            if number % 2 == 0:
                await origin.folder.compact()
                origin._store.table.sweep(0, 0)
        await copier.until(count_is(door, "T", 8 * ROWS))
        found = await held(door, "T")
        assert texts(found) == texts(await held(door, "ORDERS"))
        assert [int(source_fields(m)[1]) for m in found] == list(range(1, 8 * ROWS + 1))


async def test_a_target_in_memory_has_its_own_copy_of_linked_files(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        await fill(door, "ORDERS")
        await create(door, name="T", storage="memory", sources=[{"name": "ORDERS"}])
        await copier.until(count_is(door, "T", ROWS))
        await create(door, name="BACK", sources=[{"name": "T"}])
        await copier.until(count_is(door, "BACK", ROWS))
        assert (linked(door, "T"), linked(door, "BACK")) == (ROWS, ROWS)
        assert texts(await held(door, "BACK")) == texts(await held(door, "ORDERS"))
        assert {source_fields(m)[0] for m in await held(door, "BACK")} == {"T"}


async def test_an_engine_that_was_stopped_between_continues_behind_the_last_link(tmp_path: Path) -> None:
    numbers = count()
    for _ in range(3):
        async with copying(tmp_path) as (door, copier):
            if not next(numbers):
                await create(door, name="ORDERS", subjects=["orders.>"])
                await create(door, name="T", sources=[{"name": "ORDERS"}])
            await fill(door, "ORDERS")
            held_before = (await door.domain.stream("ORDERS").reading.state()).messages
            await copier.until(count_is(door, "T", held_before))
            assert texts(await held(door, "T")) == texts(await held(door, "ORDERS"))


def actions(table: Path) -> list[dict[str, Any]]:
    """Return every action of a table's commits."""
    commits = sorted((table / "_delta_log").glob("*.json"))
    return [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]


async def test_a_stream_of_before_copies_what_others_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders.>"])
        await create(door, name="NEW", sources=[{"name": "ORDERS"}])
        with monkeypatch.context() as patch:
            patch.setattr(schema, "TABLE", schema.TABLE_1)
            patch.setattr(schema, "PARTITIONS", (schema.PARTITION,))
            await create(door, name="OLD", sources=[{"name": "ORDERS"}])
            await create(door, name="OLDER", mirror={"name": "NEW"})
        for _ in range(2):
            await fill(door, "ORDERS")
            for name in ("NEW", "OLD", "OLDER"):
                await copier.until(
                    count_is(door, name, (await door.domain.stream("ORDERS").reading.state()).messages)
                )
        assert [linked(door, name) for name in ("NEW", "OLD", "OLDER")] == [2 * ROWS, 0, 0]
        assert await held(door, "OLDER") == await held(door, "NEW")
        assert [m._replace(ts=0) for m in await held(door, "OLD")] == [
            m._replace(ts=0) for m in await held(door, "NEW")
        ]
        table = door.domain.stream("OLD")._store.table.directory
        adds = [action["add"] for action in actions(table) if "add" in action]
        assert {tuple(add["partitionValues"]) for add in adds} == {("base_seq",)}


async def linked_archive(door: Door, copier: Copier) -> list[Message]:
    """Return the messages of a stream whose two files are its origin's, taken at different times."""
    await create(door, name="ORDERS", subjects=["orders.>"])
    await create(door, name="ARCHIVE", sources=[{"name": "ORDERS"}], allow_direct=True)
    for number in (1, 2):
        await fill(door, "ORDERS", HEADED)
        await copier.until(count_is(door, "ARCHIVE", number * ROWS))
    assert linked(door, "ARCHIVE") == 2 * ROWS
    return await held(door, "ARCHIVE")


async def test_clients_are_shown_the_header_by_every_way_to_a_message(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        archive = await linked_archive(door, copier)
        want = archive[1500]
        got = (await door.asker.ask("STREAM.MSG.GET.ARCHIVE", {"seq": want.seq}))["message"]
        assert b64decode(got["hdrs"]) == want.headers
        assert parse_time(got["time"]) == want.ts
        by_time = {"start_time": format_time(want.ts), "next_by_subj": want.subject.decode()}
        for body in ({"seq": want.seq}, by_time):
            frame = await door.asker.raw("$JS.API.DIRECT.GET.ARCHIVE", body)
            assert header_block.get(frame[2], b"Nats-Stream-Source") is not None
            assert header_block.get(frame[2], b"Color") == b"red"
            assert header_block.get(frame[2], b"Nats-Time-Stamp") == format_time(want.ts).encode()
        batch = await door.asker.many("DIRECT.GET.ARCHIVE", {"seq": 1000, "batch": 500})
        seqs = [int(header_block.get(frame[2], b"Nats-Sequence") or 0) for frame in batch[:-1]]
        assert seqs == list(range(1000, 1500))
        assert [source_fields_in(frame[2]) for frame in batch[:-1]] == [
            source_fields(m) for m in archive[999:1499]
        ]


def source_fields_in(headers: bytes) -> list[str]:
    return (header_block.get_str(headers, b"Nats-Stream-Source") or "").split()


BY_TIME = {"deliver_policy": "by_start_time"}


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (lambda held: {"deliver_policy": "by_start_sequence", "opt_start_seq": 700}, 700),
        (lambda held: BY_TIME | {"opt_start_time": format_time(held[-1].ts)}, ROWS + 1),
        (lambda held: BY_TIME | {"opt_start_time": format_time(held[0].ts)}, 1),
    ],
    ids=["sequence", "second file", "first file"],
)
async def test_consumers_begin_within_linked_files(
    tmp_path: Path, start: Callable[[list[Message]], dict[str, Any]], first: int
) -> None:
    async with copying(tmp_path, Wanted(leaf=True)) as (door, copier):
        archive = await linked_archive(door, copier)
        config = {"durable_name": "C", "ack_policy": "none", **start(archive)}
        made = await door.asker.ask(
            "CONSUMER.CREATE.ARCHIVE.C", {"stream_name": "ARCHIVE", "config": config | {"name": "C"}}
        )
        assert made.get("num_pending") == 2 * ROWS - first + 1, made
        replies, subject = door.asker.listen("replies"), b"$JS.API.CONSUMER.MSG.NEXT.ARCHIVE.C"
        door.asker.connection.publish(subject, b'{"batch": 50}', b"replies")
        frames = [await replies.next() for _ in range(50)]
        wanted = archive[first - 1 : first + 49]
        assert [(frame[2], frame[3]) for frame in frames] == [(m.headers, m.data) for m in wanted]


async def test_a_restored_stream_has_what_its_linked_files_had(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        archive = await linked_archive(door, copier)
        info = await door.asker.ask("STREAM.INFO.ARCHIVE", {"subjects_filter": ">"})
        content = await archived(door.asker, "ARCHIVE")
        await door.asker.ask("STREAM.DELETE.ARCHIVE")
        config = {key: value for key, value in info["config"].items() if key != "sources"}
        answer = await restored(door.asker, config, content)
        assert "error" not in answer, answer
        assert await held(door, "ARCHIVE") == archive
        again = await door.asker.ask("STREAM.INFO.ARCHIVE", {"subjects_filter": ">"})
        assert again["state"] == info["state"]
