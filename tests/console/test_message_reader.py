"""Messages are read from an engine and from a plain nats-server alike."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from console.streams import KINDS, MESSAGES, filled, raw_api
from headwater.client.jetstream_api import RequestRefusedError
from headwater.console import message_reader
from headwater.console.direct_batches import DirectBatch, DirectBatches
from headwater.console.message_reader import AT_ONCE, BYTES_AT_ONCE, MessageReader, requests_at_once
from headwater.model import headers
from headwater.model.message import Message
from headwater.model.times import format_time


@pytest.mark.parametrize("kind", KINDS)
async def test_messages_are_read_by_sequence_time_and_subject(kind: str, tmp_path: Path) -> None:
    async with filled(kind, tmp_path) as api:
        reader = MessageReader(api, "ORDERS")
        one = await reader.one(7)
        assert one is not None
        assert (one.seq, one.subject, headers.get(one.headers, b"number")) == (7, b"orders.eu", b"7")
        assert one.ts > 0
        assert await reader.one(MESSAGES + 1) is None

        page = await reader.page(1, 25)
        assert [message.seq for message in page.messages] == list(range(1, 26))
        assert (page.newer_seq, page.older_seq) == (26, 0)
        page = await reader.page(90, 25)
        assert [message.seq for message in page.messages] == list(range(90, 101))
        assert (page.newer_seq, page.older_seq) == (0, 65)

        page = await reader.page(15, 3, "orders.us")
        assert [message.seq for message in page.messages] == [20, 30, 40]
        assert (page.newer_seq, page.older_seq) == (50, 0)
        newest = await reader.newest("orders.us")
        assert newest is not None
        assert newest.seq == 100
        assert await reader.newest("orders.nowhere") is None

        since = await reader.first_since(format_time(one.ts), "orders.us")
        assert since is not None
        assert since.seq == 10
        assert await reader.first_since(format_time(time.time_ns() + 10**12)) is None

        for seq in [*range(20, 60), 2, 4, 61]:
            await api.request("STREAM.MSG.DELETE.ORDERS", {"seq": seq})
        left = [message.seq async for message in reader.each(1)]
        assert left == [seq for seq in range(1, MESSAGES + 1) if seq not in {*range(20, 60), 2, 4, 61}]
        with pytest.raises(RequestRefusedError, match="stream not found"):
            await MessageReader(api, "NONE").one(1)


async def test_a_page_of_large_messages_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_reader, "PAGE_BYTES", 100)
    async with filled("nats-server", tmp_path) as api:
        page = await MessageReader(api, "ORDERS").page(1, 50)
    assert 2 <= len(page.messages) < 10
    assert page.newer_seq == page.messages[-1].seq + 1


def test_large_messages_are_requested_few_at_a_time() -> None:
    assert requests_at_once(0) == requests_at_once(1000) == AT_ONCE
    assert requests_at_once(BYTES_AT_ONCE // 3) == 3
    assert requests_at_once(BYTES_AT_ONCE * 8) == 1


class Counted:
    """Counts the requests that a reader sends in each way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.single = self.batches = 0
        get, read = MessageReader._get, DirectBatches.read

        async def counted_get(reader: MessageReader, asked: dict[str, Any]) -> Message | None:
            self.single += 1
            return await get(reader, asked)

        async def counted_read(batches: DirectBatches, *given: Any) -> DirectBatch:
            self.batches += 1
            return await read(batches, *given)

        monkeypatch.setattr(MessageReader, "_get", counted_get)
        monkeypatch.setattr(DirectBatches, "read", counted_read)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_with_direct_access_is_read_in_batches(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with filled(kind, tmp_path, allow_direct=True) as plain, raw_api(plain) as api:
        sent = Counted(monkeypatch)
        reader = MessageReader(api, "ORDERS", allows_direct=True)
        singly = MessageReader(api, "ORDERS")
        assert [each async for each in reader.each(1)] == [each async for each in singly.each(1)]
        assert 0 < sent.batches <= 3
        before = sent.single
        everything = [message.seq async for message in reader.each(5, "orders.us")]
        assert everything == list(range(10, 101, 10))
        page = await reader.page(95, 3)
        assert [message.seq for message in page.messages] == [95, 96, 97]
        assert (page.newer_seq, page.older_seq, sent.single) == (98, 92, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("allows_direct", [True, False])
async def test_pages_of_a_subject_lead_back_to_the_first(
    kind: str, allows_direct: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with filled(kind, tmp_path, allow_direct=True) as plain, raw_api(plain) as api:
        sent = Counted(monkeypatch)
        reader = MessageReader(api, "ORDERS", allows_direct=allows_direct)
        page = await reader.page_before(101, 4, "orders.us")
        pages = [page]
        while page.before_seq:
            page = await reader.page_before(page.before_seq, 4, "orders.us")
            pages.append(page)
        assert [[message.seq for message in each.messages] for each in pages] == [
            [70, 80, 90, 100],
            [30, 40, 50, 60],
            [10, 20],
        ]
        assert [each.newer_seq for each in pages] == [101, 70, 30]
        assert bool(sent.batches) is allows_direct
        wild = await reader.page_before(31, 40, "orders.*")
        assert [message.seq for message in wild.messages] == list(range(1, 31))
        assert (await reader.page_before(10, 5, "orders.us")).messages == ()
        assert (await reader.page_before(50, 5, "orders.none")).messages == ()


async def test_the_walk_to_older_messages_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_reader, "MOST_WALKED", 5)
    async with filled("nats-server", tmp_path) as api:
        page = await MessageReader(api, "ORDERS").page_before(100, 3, "orders.*")
    assert page.messages, "some older messages are shown, if not the last ones"
    assert all(message.seq < 100 for message in page.messages)


async def test_a_server_that_answers_no_batches_is_read_singly_and_not_asked_again(tmp_path: Path) -> None:
    without: dict[str, float] = {}
    async with filled("nats-server", tmp_path) as plain, raw_api(plain) as api:
        for _ in range(2):
            reader = MessageReader(api, "ORDERS", allows_direct=True, without_batches=without)
            page = await reader.page(1, 5)
            assert [message.seq for message in page.messages] == [1, 2, 3, 4, 5]
            assert list(without) == ["ORDERS"]
        assert MessageReader(api, "ORDERS", allows_direct=True, without_batches=without)._batches is None
