"""Acks of messages in a bucket are confirmed without reading it, and the messages leave in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from delivery.deliveries import Delivery, Desk, desk
from headwater.delivery import late_releases
from headwater.errors import Error
from headwater.model.stream import Retention
from headwater.table.table import Table
from seaweed import SeaweedServer
from stream.bucket_streams import BucketWorkshop
from stream.streams import seqs_of
from waits import until


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, seaweed_server: SeaweedServer) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(late_releases, "RETRY_MOST_S", 0.3)


@pytest.fixture
def workshop(tmp_path: Path, seaweed_server: SeaweedServer) -> Iterator[BucketWorkshop]:
    workshop = BucketWorkshop(tmp_path, seaweed_server)
    yield workshop
    workshop.objects.heal()
    workshop.close()


async def folded(workshop: BucketWorkshop, running: Desk, *subjects: bytes) -> None:
    """Have messages in a file of their own in the bucket, and nothing of them in memory."""
    await running.publish(*subjects)
    await running.stream.folder.fold()
    workshop.forget()


async def delivered(running: Desk, count: int, *names: str) -> list[Delivery]:
    for name in names:
        running.pull(running.consumers.get(name) or running.add(name), batch=count)
    return await running.sent(count * len(names))


async def confirmed(running: Desk, acked: list[Delivery]) -> None:
    """Return once acks are confirmed."""
    for number, each in enumerate(acked):
        running.ack(each, reply=b"confirm.%d" % number)
    await running.stream.publishing.settled()


async def test_acks_of_a_work_queue_are_confirmed_while_reads_hang(workshop: BucketWorkshop) -> None:
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        await folded(workshop, running, b"a", b"b", b"c")
        await folded(workshop, running, b"d", b"e", b"f")
        taken = await delivered(running, 5, "C")
        workshop.forget()
        workshop.hang()
        await confirmed(running, [taken[0], taken[4], taken[2]])
        state = running.consumers.get("C").state  # type: ignore[union-attr]
        assert [seq for seq in range(1, 7) if state.needs(seq)] == [2, 4, 6]
        await running.publish(b"g")
        assert (await running.stream.reading.state()).messages == 7
        workshop.objects.heal()
        await until(lambda: running.stream.reading.live_between(1, 9) == 4, "the acked ones are removed")
        await confirmed(running, [taken[1], taken[3]])
        await until(lambda: running.stream.reading.live_between(1, 9) == 2, "so are the others")
        await running.rest()
        assert await seqs_of(running.stream) == [6, 7]


async def test_a_message_that_two_consumers_need_stays_until_both_have_acked(
    workshop: BucketWorkshop,
) -> None:
    async with desk(workshop, retention=Retention.INTEREST) as running:
        running.add("A")
        running.add("B")
        await folded(workshop, running, b"a", b"b")
        taken = await delivered(running, 2, "A", "B")
        workshop.forget()
        workshop.refuse()
        await confirmed(running, taken[:3])
        assert running.stream.reading.live_between(1, 9) == 2
        workshop.objects.heal()
        await until(lambda: running.stream.reading.live_between(1, 9) == 1, "what both have acked is removed")
        await confirmed(running, taken[3:])
        await until(lambda: running.stream.reading.live_between(1, 9) == 0, "so is the other")


async def test_what_was_acked_and_not_removed_before_a_restart_is_removed_after_it(
    workshop: BucketWorkshop,
) -> None:
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        await folded(workshop, running, b"a", b"b", b"c", b"d")
        taken = await delivered(running, 3, "C")
        workshop.forget()
        workshop.refuse()
        await confirmed(running, taken[:2])
        recorded = running.consumers.dump()["C"]
    workshop.objects.heal()
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        assert running.stream.reading.live_between(1, 9) == 4
        consumer = running.make("C")
        consumer.restore(recorded)
        running.consumers.add(consumer)
        await confirmed(running, taken[2:])
        await until(lambda: running.stream.reading.live_between(1, 9) == 1, "the acked ones are removed")
        await running.rest()
        assert await seqs_of(running.stream) == [4]


async def test_a_damaged_file_keeps_back_no_message_of_another(
    workshop: BucketWorkshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_group = Table.read_group
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        for subject in (b"a", b"b"):
            await folded(workshop, running, subject)
        taken = await delivered(running, 2, "C")
        workshop.forget()
        first = running.stream._store.table.files[0]

        def damaged(table: Table, file: object, index: int) -> object:
            if file == first:
                raise Error("row group 0: the checksum does not match")
            return read_group(table, file, index)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(Table, "read_group", damaged)
            await confirmed(running, taken)
            await until(lambda: running.stream.reading.live_between(1, 9) == 1, "the other is removed")
            assert running.stream.reading.is_live(1)
        await until(
            lambda: running.stream.reading.live_between(1, 9) == 0, "once it can be read, it goes too"
        )
