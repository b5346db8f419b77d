"""Reads messages of a stream for people: by sequence, by time, by subject.

A stream that allows direct access is read in batches (`direct_batches.py`). Others are read through
STREAM.MSG.GET, which every JetStream server answers: without a filter, several sequences at a time; with a
filter, each request waits for the one before it, because only the server knows the next sequence.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from headwater.client.jetstream_api import JetStreamApi, RequestRefusedError
from headwater.console.direct_batches import (
    EVERYTHING,
    FIRST_BATCH,
    DirectBatches,
    DirectUnavailableError,
)
from headwater.errors import Error
from headwater.model.message import Message
from headwater.model.times import parse_time

logger = logging.getLogger(__name__)

NO_MESSAGE = 10037
MOST_PER_PAGE = 200
AT_ONCE = 32
"""How many requests are in progress at the same time, if messages are small."""
BYTES_AT_ONCE = 8 << 20
"""What these requests may bring together, by the size of the message before them."""
PAGE_BYTES = 32 << 20
"""A page with more payload ends early."""
MOST_WALKED = 300
"""How many requests look for the page before another, if messages cannot be counted."""
UNANSWERED_S = 300.0
"""For how long a stream is not read in batches after that has failed."""


@dataclass(frozen=True)
class MessagePage:
    """Some messages of a stream in order, and where the pages around them begin."""

    messages: tuple[Message, ...]
    newer_seq: int
    """The first sequence of the next page; 0 if there is none."""
    older_seq: int
    """The first sequence of the page before; 0 if there is none, or it is unknown because of a filter."""
    before_seq: int = 0
    """With a filter, the sequence that the page before ends at; 0 if there is none."""


class MessageReader:
    """Reads one stream of one site."""

    def __init__(
        self,
        api: JetStreamApi,
        stream: str,
        *,
        allows_direct: bool = False,
        without_batches: dict[str, float] | None = None,
    ) -> None:
        self._api = api
        self.stream = stream
        self._without = {} if without_batches is None else without_batches
        """Until when streams are not read in batches, by name; shared by all readers of a site."""
        is_barred = self._without.get(stream, 0.0) > time.monotonic()
        self._batches = DirectBatches(api, stream) if allows_direct and not is_barred else None

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
        async for message in self.each(start_seq, subject, count + 1):
            if len(found) == count or size > PAGE_BYTES:
                newer = message.seq
                break
            found.append(message)
            size += len(message.data)
        first = found[0].seq if found else start_seq
        if _is_everything(subject):
            return MessagePage(tuple(found), newer, max(first - count, 1) if first > 1 else 0)
        oldest = await self._get({"seq": 1, "next_by_subj": subject})
        has_older = oldest is not None and oldest.seq < first
        return MessagePage(tuple(found), newer, 0, first if has_older else 0)

    async def page_before(self, before_seq: int, count: int, subject: str = "") -> MessagePage:
        """Return up to so many messages that end before a sequence."""
        count = min(max(count, 1), MOST_PER_PAGE)
        page = await self.page(await self._start_before(before_seq, count, subject), count, subject)
        return replace(
            page,
            messages=tuple(message for message in page.messages if message.seq < before_seq),
            newer_seq=min(page.newer_seq or before_seq, before_seq),
        )

    async def _start_before(self, before_seq: int, count: int, subject: str) -> int:
        """Return the sequence at which the last matches before another begin."""
        if _is_everything(subject):
            return max(before_seq - count, 1)
        if self._batches is not None:
            try:
                return await self._counted_start(self._batches, before_seq, count, subject)
            except DirectUnavailableError as error:
                self._read_singly(error)
        return await self._walked_start(before_seq, count, subject)

    async def _counted_start(self, batches: DirectBatches, before_seq: int, count: int, subject: str) -> int:
        """Halve the range until as many matches as a page has lie between the start and the end."""
        wanted = (await batches.count_from(before_seq, subject))[1] + count
        low, total = await batches.count_from(1, subject)
        if total <= wanted:
            return max(low, 1)
        high = before_seq
        while high - low > 1:
            middle = (low + high) // 2
            seq, matches = await batches.count_from(middle, subject)
            if matches == wanted:
                return seq
            if matches < wanted:
                high = middle
            else:
                low = min(seq, high - 1)
        return low

    async def _walked_start(self, before_seq: int, count: int, subject: str) -> int:
        """Walk through ranges before the end, each longer than the one after it, for a bounded time."""
        found: list[int] = []
        high, width, left = before_seq, count * 4, MOST_WALKED
        while high > 1 and len(found) < count and left > 0:
            low, part = max(high - width, 1), []
            seq = low
            while left > 0:
                left -= 1
                message = await self._get({"seq": seq, "next_by_subj": subject})
                if message is None or message.seq >= high:
                    break
                part.append(message.seq)
                seq = message.seq + 1
            else:
                return found[0] if found else part[0]  # not the last matches, but some before the end
            found = [*part, *found][-count:]
            high, width = low, width * 4
        return found[0] if found else 1

    def _read_singly(self, error: DirectUnavailableError) -> None:
        """Stop reading in batches, also in the next minutes."""
        logger.info("cannot read in batches", extra={"stream": self.stream, "reason": str(error)})
        self._batches = None
        self._without[self.stream] = time.monotonic() + UNANSWERED_S

    async def each(
        self, start_seq: int, subject: str = "", first: int = FIRST_BATCH
    ) -> AsyncIterator[Message]:
        """Yield the messages from a sequence on until the end of the stream; `first` are wanted at once."""
        seq = max(start_seq, 1)
        if self._batches is not None:
            try:
                async for message in self._batches.each(seq, subject, first):
                    yield message
                    seq = message.seq + 1
                return
            except DirectUnavailableError as error:
                self._read_singly(error)
        async for message in self._each_singly(seq, subject):
            yield message

    async def _each_singly(self, seq: int, subject: str) -> AsyncIterator[Message]:
        while True:
            message = await self._get({"seq": seq, "next_by_subj": subject or EVERYTHING})
            if message is None:
                return
            yield message
            seq = message.seq + 1
            if not _is_everything(subject):
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


def _is_everything(subject: str) -> bool:
    return subject in ("", EVERYTHING)


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
