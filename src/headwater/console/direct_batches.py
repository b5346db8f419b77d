"""Reads many messages with one request: DIRECT.GET in batches, which nats-server has since 2.11.

A stream must allow direct access for it. Older servers answer with one message and no count; then the caller
reads in another way.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import nats.errors
from nats.aio.msg import Msg

from headwater.client.jetstream_api import JetStreamApi
from headwater.console.raw_header_client import RawHeaders
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.times import parse_time

FIRST_BATCH = 64
MOST_PER_BATCH = 1000
BATCH_BYTES = 4 << 20
EVERYTHING = ">"
_MARK = b"\r\nNats-Stream: "
_PLACE = re.compile(
    rb"\r\nNats-Stream: ([^\r]*)\r\nNats-Subject: ([^\r]*)\r\nNats-Sequence: (\d{1,20})"
    rb"\r\nNats-Time-Stamp: ([^\r]*)\r\nNats-Num-Pending: (\d{1,20})\r\n"
)


class DirectUnavailableError(Exception):
    """The server does not answer batches of direct gets of this stream."""


@dataclass(frozen=True, slots=True)
class DirectBatch:
    """Some messages in order."""

    messages: tuple[Message, ...]
    pending: int
    """How many matching messages there are after them."""


class DirectBatches:
    """Reads one stream of one site."""

    def __init__(self, api: JetStreamApi, stream: str) -> None:
        self._api = api
        self._stream = stream.encode()
        self._subject = api.subject(f"DIRECT.GET.{stream}")

    async def each(
        self, start_seq: int, subject: str = "", first: int = FIRST_BATCH
    ) -> AsyncIterator[Message]:
        """Yield the messages from a sequence on until the end of the stream; batches grow."""
        seq, count = max(start_seq, 1), min(max(first, 1), MOST_PER_BATCH)
        while True:
            batch = await self.read(seq, count, subject)
            for message in batch.messages:
                yield message
            if not batch.messages or not batch.pending:
                return
            seq, count = batch.messages[-1].seq + 1, min(count * 2, MOST_PER_BATCH)

    async def count_from(self, seq: int, subject: str) -> tuple[int, int]:
        """Return the sequence of the first match from a sequence on, and how many there are with it."""
        batch = await self.read(seq, 1, subject)
        return (batch.messages[0].seq, batch.pending + 1) if batch.messages else (0, 0)

    async def read(self, seq: int, count: int, subject: str = "") -> DirectBatch:
        """Return up to so many messages; fewer if they are large, none at the end of the stream."""
        client = self._api.nats
        asked = {
            "seq": seq,
            "batch": count,
            "max_bytes": BATCH_BYTES,
            "next_by_subj": subject or EVERYTHING,
        }
        inbox = client.new_inbox()
        answers = await client.subscribe(inbox)
        try:
            await client.publish(self._subject, json.dumps(asked).encode(), reply=inbox)
            found: list[Message] = []
            pending = 0
            while True:
                answer = await answers.next_msg(self._api.timeout)
                if (status := (answer.headers or {}).get("Status")) is not None:
                    return DirectBatch(tuple(found), _end(status, answer, pending))
                message, pending = self._message(answer)
                found.append(message)
        except nats.errors.Error as error:
            raise DirectUnavailableError(str(error)) from None
        finally:
            await answers.unsubscribe()

    def _message(self, answer: Msg) -> tuple[Message, int]:
        """Return a message as it is stored, and how many follow."""
        raw = answer.headers.raw if isinstance(answer.headers, RawHeaders) else b""
        at = raw.rfind(_MARK)
        # The stored headers come first; the server appends its own, even if the names are there already.
        said = _PLACE.match(raw, at) if at >= 0 else None
        if said is None or said[1] != self._stream:
            raise DirectUnavailableError("a mirror answers, or a server without batches of direct gets")
        stored = raw[: at + 2] + b"\r\n" if at > len(header_block.VERSION) else b""
        time = parse_time(said[4].decode(errors="replace")) or 0
        return Message(int(said[3]), time, said[2], stored, bytes(answer.data)), int(said[5])


def _end(status: str, answer: Msg, pending: int) -> int:
    """Return how many messages follow a batch that has ended; raise if it is no end."""
    if status == "404":
        return 0
    if status != "204":
        raise DirectUnavailableError((answer.headers or {}).get("Description") or f"status {status}")
    said = (answer.headers or {}).get("Nats-Num-Pending", "")
    return int(said) if said.isascii() and said.isdigit() else pending
