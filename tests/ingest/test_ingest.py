"""Publishes reach their stream whole and in order, and reading stops while the disk is behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from doors import Asker, connected
from headwater.bus.connection import Connection, NoRespondersError
from headwater.errors import ApiError, DiskError
from headwater.ingest import ingest as module
from headwater.ingest.ingest import Ingest
from headwater.log.segment import Position
from headwater.model.stream import StreamConfig
from headwater.stream.services import Services
from headwater.stream.stream import Stream
from hung_streams import hung_disk
from servers import nats_server
from sinks import KeptSink
from stream.streams import Answers, Workshop, config_of, everything
from waits import until


class Site:
    """A nats-server, an engine's ingest on it, and a client."""

    def __init__(self, workshop: Workshop, connection: Connection, client: Connection) -> None:
        self.workshop = workshop
        self.connection = connection
        self.client = client
        self.asker = Asker(client)
        self.ingest = Ingest(connection)

    async def open(self, name: str, *subjects: str) -> Stream:
        config = config_of(name=name, subjects=subjects)
        services: Services = self.workshop.services
        stream = await Stream.open(self.workshop.directory / name, config, created_ns=0, services=services)
        self.ingest.on_opened(stream)
        await self.connection.flush()
        return stream

    async def has_responder(self, subject: str) -> bool:
        """Return whether a publish on this subject is answered by a stream."""
        try:
            answer = await self.asker.publish(subject)
        except NoRespondersError:
            return False
        return "seq" in answer


class Forwarding(Answers):
    """Sends what streams answer through a connection that is made later."""

    connection: Connection | None = None

    def __call__(self, frames: bytes) -> None:
        assert self.connection is not None
        self.connection.write(frames)


@asynccontextmanager
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    forwarding = Forwarding()
    workshop = Workshop(tmp_path, answers=forwarding)
    async with nats_server() as server:
        connection, client = await connected(server.client_url), await connected(server.client_url)
        forwarding.connection = connection
        try:
            yield Site(workshop, connection, client)
        finally:
            await client.close()
            await connection.close()
    workshop.close()


def changed(stream: Stream, *subjects: str) -> StreamConfig:
    return msgspec.structs.replace(stream.config, subjects=subjects)


async def test_a_publish_on_any_subject_of_a_stream_is_stored_and_answered(tmp_path: Path) -> None:
    async with site(tmp_path) as at:
        stream = await at.open("ORDERS", "orders.*", "refunds")
        assert await at.asker.publish("orders.new", b"1") == {"stream": "ORDERS", "seq": 1}
        assert await at.asker.publish("refunds", b"2") == {"stream": "ORDERS", "seq": 2}
        assert [m[2:] for m in await everything(stream)] == [
            (b"orders.new", b"", b"1"),
            (b"refunds", b"", b"2"),
        ]
        await stream.close()


async def test_messages_keep_their_order_across_the_subjects_of_a_stream(tmp_path: Path) -> None:
    async with site(tmp_path) as at:
        stream = await at.open("S", "a", "b", "c.>")
        subjects = [b"a", b"b", b"c.1", b"c.2"]
        for n in range(500):
            at.client.publish(subjects[n % 4], b"%d" % n)
        await at.client.flush()
        await at.connection.flush()
        assert [m.data for m in await everything(stream)] == [b"%d" % n for n in range(500)]
        await stream.close()


async def test_subjects_follow_the_config_without_a_gap_for_those_that_stay(tmp_path: Path) -> None:
    async with site(tmp_path) as at:
        stream = await at.open("S", "stays", "goes")
        old, subscribed = stream.config, dict(at.ingest._sids["S"])
        await stream.reconfigure(changed(stream, "stays", "comes"))
        at.ingest.on_changed(stream, old)
        await at.connection.flush()
        assert [await at.has_responder(s) for s in ("stays", "comes", "goes")] == [True, True, False]
        assert at.ingest._sids["S"]["stays"] == subscribed["stays"]
        await stream.close()


async def test_a_closed_stream_takes_nothing_more(tmp_path: Path) -> None:
    async with site(tmp_path) as at:
        first, second = await at.open("FIRST", "first"), await at.open("SECOND", "second")
        at.ingest.on_closed(first)
        await at.connection.flush()
        assert [await at.has_responder(s) for s in ("first", "second")] == [False, True]
        for stream in (first, second):
            await stream.close()


async def test_a_stop_answers_all_that_was_taken(tmp_path: Path) -> None:
    async with site(tmp_path) as at:
        stream = await at.open("S", "s")
        answers = KeptSink()
        at.client.subscribe(b"answers.*", answers)
        for n in range(300):
            at.client.publish(b"s", b"%d" % n, b"answers.%d" % n)
        await at.client.flush()
        await at.ingest.stop()
        assert stream.publishing.backlog_bytes == 0
        assert stream.reading.durable_seq == 300
        await answers.got(300)
        assert [json.loads(data)["seq"] for data in answers.datas] == list(range(1, 301))
        assert not await at.has_responder("s")
        await stream.close()


def noted(calls: list[str], name: str, act: Callable[[object], None]) -> Callable[[object], None]:
    """Return an act that also writes down that it was called."""

    def both(owner: object) -> None:
        calls.append(name)
        act(owner)

    return both


async def test_a_stop_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(tmp_path) as at:
        stream = await at.open("S", "s")
        sync, gate, loop = stream._store.log.sync, asyncio.Event(), asyncio.get_running_loop()

        def slow_sync() -> None:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
            sync()

        monkeypatch.setattr(stream._store.log, "sync", slow_sync)
        at.client.publish(b"s", b"1")
        await at.client.flush()
        stopping = asyncio.create_task(at.ingest.stop())
        await until(lambda: stream.publishing.backlog_bytes)
        await asyncio.sleep(0.02)
        assert not stopping.done()
        gate.set()
        await stopping
        assert stream.reading.durable_seq == 1
        await stream.close()


async def test_while_the_disk_is_behind_nothing_more_is_read_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BACKLOG_BYTES", 10_000)
    async with site(tmp_path) as at:
        stream = await at.open("S", "s")
        log = stream._store.log
        sync = log.sync
        reading: list[str] = []
        gate, loop = asyncio.Event(), asyncio.get_running_loop()

        def slow_sync() -> None:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
            sync()

        monkeypatch.setattr(log, "sync", slow_sync)
        for name in ("pause_reading", "resume_reading"):
            monkeypatch.setattr(at.connection, name, noted(reading, name, getattr(at.connection, name)))
        for n in range(400):
            at.client.publish(b"s", b"%d" % n + b"x" * 1000)
        await at.client.flush()
        await until(lambda: reading == ["pause_reading"])
        assert stream.reading.durable_seq == 0
        gate.set()
        await until(lambda: stream.reading.durable_seq == 400)
        await until(lambda: len(reading) % 2 == 0)
        assert reading == ["pause_reading", "resume_reading"] * (len(reading) // 2)
        assert [int(m.data.rstrip(b"x")) for m in await everything(stream)] == list(range(400))
        await stream.close()


async def test_reading_continues_when_what_waited_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BACKLOG_BYTES", 1)
    async with site(tmp_path) as at:
        stream = await at.open("S", "s")
        log = stream._store.log
        append, refusals = log.append, [DiskError(tmp_path, "write", 28)]

        def refuse_once(encoded: Sequence[bytes]) -> list[Position]:
            if refusals:
                raise refusals.pop()
            return append(encoded)

        monkeypatch.setattr(log, "append", refuse_once)
        answer = await at.asker.publish("s", b"1")
        assert answer["error"]["err_code"] == 10077
        async with asyncio.timeout(60):
            while "error" in await at.asker.publish("s", b"2"):
                await asyncio.sleep(0.01)
        assert [m.data for m in await everything(stream)] == [b"2"]
        await stream.close()


async def test_streams_share_what_may_wait_for_the_disk(tmp_path: Path) -> None:
    async with site(tmp_path) as at:
        streams, shares = [], [at.ingest.share_bytes]
        for number in range(10):
            streams.append(await at.open(f"S{number}", f"s{number}"))
            shares.append(at.ingest.share_bytes)
        most = module.MAX_BACKLOG_BYTES
        assert shares == [most // n for n in (1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8)]
        for stream in streams:
            await stream.close()


async def test_a_stream_whose_disk_hangs_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BACKLOG_BYTES", 10_000)
    monkeypatch.setattr(module, "HOLD_S", 0.1)
    async with site(tmp_path) as at:
        at.workshop.sync_executor._max_workers = 4
        stuck, healthy = await at.open("STUCK", "stuck"), await at.open("HEALTHY", "healthy")
        with hung_disk(stuck, monkeypatch) as hung:
            answers = KeptSink()
            at.client.subscribe(b"answers.*", answers)
            for n in range(100):
                at.client.publish(b"stuck", b"%d" % n + b"x" * 1000, b"answers.%d" % n)
            await at.client.flush()
            await until(lambda: stuck.publishing.congestion)
            assert (await at.asker.publish("healthy", b"1"))["seq"] == 1
            for _ in range(3):
                refused = await at.asker.publish("stuck", b"more")
                assert refused["error"]["err_code"] == 10077
                assert "the disk does not respond" in refused["error"]["description"]
            with pytest.raises(ApiError):
                await stuck.publishing.promise()
            assert (await at.asker.publish("healthy", b"2"))["seq"] == 2
            assert stuck.publishing.backlog_bytes < 200_000
            hung.heal()
            await until(lambda: not stuck.publishing.congestion)
        await until(lambda: stuck.publishing.backlog_bytes == 0)
        await answers.got(100)
        acked = [json.loads(data) for data in answers.datas]
        assert len(await everything(stuck)) == sum("error" not in ack for ack in acked)
        assert "seq" in await at.asker.publish("stuck", b"again")
        for stream in (stuck, healthy):
            await stream.close()


@pytest.mark.parametrize("subjects", [(">",), ("*.*.REPLICATION.COMMIT", "x"), ("*.>",)])
async def test_no_stream_takes_what_engines_and_replicators_say_to_each_other(
    tmp_path: Path, subjects: tuple[str, ...]
) -> None:
    async with site(tmp_path) as at:
        stream = await at.open("ALL", *subjects)
        at.client.publish(b"$HEADWATER.id.REPLICATION.COMMIT", b"receipt")
        at.client.publish(b"$HEADWATER.id.INBOX.1", b"plan")
        at.client.publish(b"a.b.REPLICATION.COMMIT", b"legal")
        at.client.publish(b"$HEADWATER.id.REPLICATION.COMMIT", b"receipt")
        await at.client.flush()
        await at.connection.flush()
        await stream.publishing.settled()
        assert [message.data for message in await everything(stream)] == [b"legal"]
        await stream.close()


WILD = b"\r\n".join(
    [
        b"NATS/1.0",
        b"Nats-Expected-Last-Subject-Sequence: %d",
        b"Nats-Expected-Last-Subject-Sequence-Subject: %b",
        b"",
        b"",
    ]
)


def test_a_demand_on_all_subjects_of_a_pattern_is_costly_and_one_on_a_subject_is_not() -> None:
    assert module.costly_pattern((b"a", b"", WILD % (0, b"a.*"), b"")) == b"a.*"
    assert module.costly_pattern((b"a", b"", WILD % (0, b">"), b"")) == b">"
    assert not module.costly_pattern((b"a.*", b"", WILD % (0, b"a.b"), b"*"))
    assert not module.costly_pattern((b"a", b"", b"NATS/1.0\r\nX: *\r\n\r\n", b""))


def test_a_rollup_that_is_published_on_a_pattern_is_costly_and_one_on_a_subject_is_not() -> None:
    rollup = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
    assert module.costly_pattern((b"a.*", b"", rollup, b"")) == b"a.*"
    assert not module.costly_pattern((b"a.b", b"", rollup, b"*"))


async def test_messages_behind_a_costly_one_stay_in_order_and_other_streams_do_not_wait(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as at:
        stream, other = await at.open("S", "s.>"), await at.open("T", "t")
        for number in range(50):
            at.client.publish(b"s.a", b"%d" % (3 * number), b"", WILD % (3 * number, b"s.*"))
            at.client.publish(b"s.b", b"%d" % (3 * number + 1))
            at.client.publish(b"s.c", b"%d" % (3 * number + 2), b"", b"NATS/1.0\r\nK: V\r\n\r\n")
        at.client.publish(b"t", b"")
        await at.client.flush()
        await until(lambda: other.reading.durable_seq == 1)
        await until(lambda: stream.reading.durable_seq == 150)
        assert [message.data for message in await everything(stream)] == [b"%d" % n for n in range(150)]
        await stream.close()
        await other.close()


async def test_more_messages_than_may_wait_behind_a_costly_one_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 5)
    async with site(tmp_path) as at:
        stream = await at.open("S", "s.>")
        sink = module.StreamSink(stream, at.ingest)
        sink.items = [(b"s.a", b"_INBOX.r.%d" % n, WILD % (0, b"x.*"), b"%d" % n) for n in range(8)]
        sink.flush()
        await sink.drained()
        await stream.publishing.settled()
        assert len(await everything(stream)) == 5
        await stream.close()
