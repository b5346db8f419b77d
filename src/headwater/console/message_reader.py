"""Reads messages of a stream for people: by sequence, by time, by subject, through STREAM.MSG.GET.

Every JetStream server answers these requests, also for streams without direct access, and with the headers
as they are stored. Without a filter, sequences are requested several at a time. With a filter, each request
waits for the one before it, because only the server knows the next sequence.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from headwater.client.jetstream_api import JetStreamApi, RequestRefusedError
from headwater.errors import Error
from headwater.model.message import Message
from headwater.model.times import parse_time

NO_MESSAGE = 10037
MOST_PER_PAGE = 200
AT_ONCE = 32
"""How many requests are in progress at the same time, if messages are small."""
BYTES_AT_ONCE = 8 << 20
"""What these requests may bring together, by the size of the message before them."""
PAGE_BYTES = 32 << 20
"""A page with more payload ends early."""
EVERYTHING = ">"


@dataclass(frozen=True)
class MessagePage:
    """Some messages of a stream in order, and where the pages around them begin."""

    messages: tuple[Message, ...]
    newer_seq: int
    """The first sequence of the next page; 0 if there is none."""
    older_seq: int
    """The first sequence of the page before; 0 if there is none, or it is unknown because of a filter."""


class MessageReader:
    """Reads one stream of one site."""

    def __init__(self, api: JetStreamApi, stream: str) -> None:
        self._api = api
        self.stream = stream

    async def one(self, seq: int) -> Message | None:
        """Return a message, None if the stream does not hold it."""
        return await self._get({"seq": seq})

    async def newest(self, subject: str) -> Message | None:
        """Return the last message of a subject, None if there is none."""
        return await self._get({"last_by_subj": subject or EVERYTHING})

    async def first_since(self, time: str, subject: str = "") -> Message | None:
        """Return the first message that is not older than a time, None if there is none."""
        return await self._get({"start_time": time, "next_by_subj": subject or EVERYTHING})

    async def page(self, start_seq: int, count: int, subject: str = "") -> MessagePage:
        """Return up to this many messages from a sequence on."""
        count = min(max(count, 1), MOST_PER_PAGE)
        found: list[Message] = []
        size = newer = 0
        async for message in self.each(start_seq, subject):
            if len(found) == count or size > PAGE_BYTES:
                newer = message.seq
                break
            found.append(message)
            size += len(message.data)
        first = found[0].seq if found else start_seq
        older = max(first - count, 1) if first > 1 and subject in ("", EVERYTHING) else 0
        return MessagePage(tuple(found), newer, older)

    async def each(self, start_seq: int, subject: str = "") -> AsyncIterator[Message]:
        """Yield the messages from a sequence on until the end of the stream."""
        seq = max(start_seq, 1)
        while True:
            message = await self._get({"seq": seq, "next_by_subj": subject or EVERYTHING})
            if message is None:
                return
            yield message
            seq = message.seq + 1
            if subject not in ("", EVERYTHING):
                continue
            async for following in self._run(seq, len(message.data)):
                yield following
                seq = following.seq + 1

    async def _run(self, seq: int, size: int) -> AsyncIterator[Message]:
        """Yield messages as long as most sequences hold one; a removed range ends the run."""
        while True:
            count = requests_at_once(size)
            wanted = (self._get({"seq": each}) for each in range(seq, seq + count))
            found = [message for message in await asyncio.gather(*wanted) if message is not None]
            for message in found:
                yield message
            if len(found) * 2 < count or not found:
                return
            seq += count
            size = max(len(message.data) for message in found)

    async def _get(self, asked: dict[str, Any]) -> Message | None:
        try:
            answer = await self._api.request(f"STREAM.MSG.GET.{self.stream}", asked)
        except RequestRefusedError as refusal:
            if refusal.err_code == NO_MESSAGE:
                return None
            raise
        return _message(answer.get("message") or {})


def requests_at_once(size: int) -> int:
    """Return how many messages of this size are requested together."""
    return max(min(AT_ONCE, BYTES_AT_ONCE // max(size, 1)), 1)


def _message(stored: dict[str, Any]) -> Message:
    try:
        return Message(
            int(stored["seq"]),
            parse_time(str(stored.get("time"))) or 0,
            str(stored["subject"]).encode(),
            base64.b64decode(stored.get("hdrs") or ""),
            base64.b64decode(stored.get("data") or ""),
        )
    except (KeyError, ValueError):
        raise Error("the answer to STREAM.MSG.GET is not a message") from None
