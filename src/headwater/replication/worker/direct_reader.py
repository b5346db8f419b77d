"""Reads an origin with batches of direct gets, which create nothing at the origin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from headwater.errors import BusError
from headwater.model import headers as header_block
from headwater.model.columns import columns_of
from headwater.model.message import Message
from headwater.model.times import parse_time
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.client import BlockingClient, ReplyTimeoutError, TaskInbox, UnsuitableError
from headwater.table.arrow_tables import rows_of
from headwater.table.rows import Rows
from headwater.wire.frames import Frame

BATCH_MESSAGES = 25_000
BATCH_BYTES = 8 << 20
ANSWER_S = 10.0
_MARK = b"\r\nNats-Stream: "
_PLACE = re.compile(
    rb"\r\nNats-Stream: ([^\r]*)\r\nNats-Subject: ([^\r]*)\r\nNats-Sequence: (\d+)"
    rb"\r\nNats-Time-Stamp: ([^\r]*)\r\nNats-Num-Pending: \d+\r\nNats-Last-Sequence: (\d+)\r\n"
)
_SECOND = 19
"""The length of a time up to its second."""


class DirectReader:
    """Reads batch by batch; a missing message is detected by the sequences that each message names."""

    def __init__(self, client: BlockingClient, origin: NatsOrigin, filters: tuple[str, ...]) -> None:
        self._client = client
        self._stream = origin.stream.encode()
        self._subject = f"{origin.api_prefix}.DIRECT.GET.{origin.stream}".encode()
        # A request supports one filter. With more filters, all messages are read and filtered here.
        self._filter = {"next_by_subj": filters[0]} if len(filters) == 1 else {}
        self._seconds: dict[bytes, int] = {}
        """A cache: nanoseconds of whole seconds, by their text."""
        self._messages_left = origin.max_messages
        """How many more messages the plan allows."""
        self._inbox: TaskInbox | None = None
        """Where answers arrive; None until the first request."""

    def read(self, start_seq: int, stop_seq: int) -> Iterator[Rows]:
        """Yield messages in order until the responder has no more, or the end of the range is passed."""
        self._inbox = inbox = self._client.open()
        seq = start_seq
        while seq <= stop_seq and self._messages_left > 0:
            self._ask(inbox, seq, min(BATCH_MESSAGES, self._messages_left, stop_seq - seq + 1))
            pending = last_seq = 0
            for messages, left in self._batch(inbox):
                if messages:
                    yield rows_of(columns_of(messages))
                    last_seq = messages[-1].seq
                    self._messages_left -= len(messages)
                pending = left
            if not (pending and last_seq):
                return
            seq = last_seq + 1

    def close(self) -> None:
        """Accept no more answers; nothing is left at the origin."""
        if self._inbox is not None:
            self._client.shut(self._inbox)
            self._inbox = None

    def _ask(self, inbox: TaskInbox, seq: int, count: int) -> None:
        asked = {"seq": seq, "batch": count, "max_bytes": BATCH_BYTES, **self._filter}
        self._client.publish(self._subject, json.dumps(asked).encode(), inbox.subject)

    def _batch(self, inbox: TaskInbox) -> Iterator[tuple[list[Message], int]]:
        """Yield the messages of one batch as they arrive, and at its end how many are left after it."""
        previous = 0
        while True:
            messages: list[Message] = []
            for _, _, headers, data in self._arrived(inbox):
                if (end := self._end(headers)) is not None:
                    pending, last_seq = end
                    _require(last_seq in (0, previous))
                    yield messages, pending
                    return
                message, before = self._message(headers, data)
                _require(before == previous < message.seq)
                previous = message.seq
                messages.append(message)
            yield messages, 0

    def _arrived(self, inbox: TaskInbox) -> list[Frame]:
        """Return what has arrived; an account that exports a single response never sends the rest."""
        try:
            return inbox.read(ANSWER_S)
        except ReplyTimeoutError:
            raise UnsuitableError("the batch was cut off") from None

    def _end(self, headers: bytes) -> tuple[int, int] | None:
        """Return the content of a batch's end, if this is one: messages left, and the last one's sequence.

        Not all servers report whether there were messages; then the sequence is 0.
        """
        status = header_block.status(headers) if headers.startswith(b"NATS/1.0 ") else None
        if status is None:
            return None
        if status.code not in (204, 404):
            raise UnsuitableError(status.description.decode(errors="replace"))
        pending, last_seq = (
            int(header_block.get(headers, name) or 0) for name in (b"Nats-Num-Pending", b"Nats-Last-Sequence")
        )
        return pending, last_seq

    def _message(self, headers: bytes, data: bytes) -> tuple[Message, int]:
        """Return a message as it is stored, and the sequence before it in the batch."""
        at = headers.rfind(_MARK)
        if at < 0:
            raise UnsuitableError("an answer without the sequence of its message")
        # The stored headers come first. nats-server appends its own, even if the names are present already.
        said = _PLACE.match(headers, at)
        if said is None or said[1] != self._stream:
            raise UnsuitableError("a mirror answers, or a server without batches of direct gets")
        stored = headers[: at + 2] + b"\r\n" if at > len(header_block.VERSION) else b""
        return Message(int(said[3]), self._time(said[4]), said[2], stored, data), int(said[5])

    def _time(self, text: bytes) -> int:
        """Return a time in nanoseconds; the parsed second is cached."""
        second = text[:_SECOND]
        base = self._seconds.get(second)
        if base is None or not text.endswith(b"Z"):
            whole = parse_time(second.decode() + (text[_SECOND:].decode().lstrip(".0123456789") or "Z"))
            if whole is None:
                raise BusError(f"not a time: {text!r}")
            if len(self._seconds) > 10_000:
                self._seconds.clear()
            base = self._seconds[second] = whole
        fraction = text[_SECOND + 1 : -1]
        return base + int(fraction.ljust(9, b"0")) if fraction else base


def _require(is_so: bool) -> None:
    if not is_so:
        raise BusError("a message of a batch was lost in transit")
