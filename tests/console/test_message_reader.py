"""Messages are read from an engine and from a plain nats-server alike."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from console.streams import KINDS, MESSAGES, filled
from headwater.client.jetstream_api import RequestRefusedError
from headwater.console import message_reader
from headwater.console.message_reader import AT_ONCE, BYTES_AT_ONCE, MessageReader, requests_at_once
from headwater.model import headers
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
