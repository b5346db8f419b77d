"""A search reads a stream until it ends or a bound is reached."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from console.streams import MESSAGES, filled
from headwater.console.message_reader import MessageReader
from headwater.console.message_search import MessageSearch, SearchBounds, names_of, search_condition
from headwater.model.condition import ConditionError
from headwater.model.message import Message


async def test_a_search_finds_what_holds_and_says_where_it_stopped(tmp_path: Path) -> None:
    async with filled("nats-server", tmp_path) as api:

        async def search(condition: str, start: int = 1, subject: str = "", **bounds: float) -> MessageSearch:
            reader = MessageReader(api, "ORDERS")
            found = MessageSearch(reader, search_condition(condition), SearchBounds(**bounds))  # type: ignore[arg-type]
            await found.run(start, subject)
            return found

        result = (await search("json.where == 'us'")).result
        assert [message.seq for message in result.found] == list(range(10, 101, 10))
        assert (result.messages, result.stopped, result.next_seq) == (MESSAGES, "", 0)
        result = (await search("json.where == 'us'", found=2)).result
        assert ([m.seq for m in result.found], result.next_seq) == ([10, 20], 21)
        assert result.stopped == "2 messages found"
        result = (await search("json.where == 'us'", start=result.next_seq, found=1)).result
        assert [m.seq for m in result.found] == [30]
        result = (await search("json.id > 95", subject="orders.us")).result
        assert ([m.seq for m in result.found], result.messages) == ([100], 10)
        assert (await search("false", messages=30)).result.stopped == "30 messages read"
        assert (await search("false", bytes=200)).result.stopped == "200 bytes read"
        assert "seconds passed" in (await search("false", seconds=0)).result.stopped
        result = (await search("json.id < 'x'")).result
        assert (result.failed, result.found) == (MESSAGES, [])

        running = MessageSearch(MessageReader(api, "ORDERS"), search_condition("false"), SearchBounds())
        task = asyncio.create_task(running.run(1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_a_condition_sees_everything_of_a_message() -> None:
    block = b"NATS/1.0\r\nkind: first\r\nkind: second\r\n\r\n"
    message = Message(3, 0, b"a.b", block, b'{"x": [1]}')
    for text in (
        "seq == 3 and subject == 'a.b' and size == 10",
        "headers.kind == 'first'",
        "json.x[0] == 1",
        "'x' in text && lower('ABC') == 'abc' && len(text) == 10",
        "time == '1970-01-01T00:00:00Z'",
    ):
        assert search_condition(text).holds(names_of(message)), text
    assert names_of(Message(1, 0, b"a", b"", b"no json"))["json"] is None


@pytest.mark.parametrize("text", ["x" * 1000, "subject ==", "open == 1", "subject.format(1) == ''"])
def test_a_condition_that_is_not_allowed_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        search_condition(text)
