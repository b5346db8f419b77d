"""Messages of an origin by batches of direct gets, which leave nothing behind there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from headwater.errors import BusError, Error
from headwater.model import headers as header_block
from headwater.model.columns import Columns, columns_of
from headwater.model.message import Message
from headwater.model.times import parse_time
from headwater.replication.bulk_answers import Answers, BulkAnswers
from headwater.replication.client import BlockingClient, Inbox, SilentError
from headwater.replication.work import NatsOrigin
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
"""How long a time is up to its second."""


class UnsuitableError(Error):
    """The origin cannot be read this way; there is another."""


class DirectReader:
    """Reads batch by batch; a batch that lacks a message is noticed by the sequences it names."""

    def __init__(self, client: BlockingClient, origin: NatsOrigin, filters: tuple[str, ...]) -> None:
        self._client = client
        self._stream = origin.stream.encode()
        self._subject = f"{origin.api_prefix}.DIRECT.GET.{origin.stream}".encode()
        # Only one pattern can be asked for at a time; with more, all messages come and are chosen from here.
        self._filter = {"next_by_subj": filters[0]} if len(filters) == 1 else {}
        self._seconds: dict[bytes, int] = {}
        self._max_messages = origin.max_messages
        self._max_bytes = origin.max_bytes
        self._inbox: Inbox | None = None
        self._bulk: BulkAnswers | None = None
        self._range = (0, 0)
        self._ahead = 0
        """Where the next batch begins that was asked for before the last one was looked at."""

    def read(self, start_seq: int, stop_seq: int) -> Iterator[Columns]:
        """Yield messages in order until whoever answers has no more, or beyond the end of the range."""
        self._range = (start_seq, stop_seq)
        self._inbox = inbox = self._client.open()
        self._bulk = bulk = BulkAnswers(inbox.subject, inbox.sid, self._stream)
        seq = start_seq
        while seq <= stop_seq:
            if not self._ahead:
                self._ask(seq, BATCH_MESSAGES, BATCH_BYTES)
            elif self._ahead != seq:
                raise _lost()
            self._ahead = 0
            pending = last_seq = 0
            for columns, left in self._batch(inbox, bulk):
                if columns is not None:
                    yield columns
                    last_seq = int(columns.seqs[-1])
                pending = left
            if not (pending and last_seq):
                return
            seq = last_seq + 1

    def close(self) -> None:
        """Take no more answers, however many are still to come; nothing is left behind at the origin."""
        if self._inbox is not None and self._bulk is not None:
            self._client.end_bulk(self._bulk)
            self._client.shut(self._inbox)
            self._inbox = None

    def _ask(self, seq: int, most_messages: int, most_bytes: int) -> None:
        """Ask for a batch."""
        assert self._inbox is not None
        count = min(most_messages, self._range[1] - seq + 1)
        asked = {"seq": seq, "batch": count, "max_bytes": most_bytes, **self._filter}
        self._client.publish(self._subject, json.dumps(asked).encode(), self._inbox.subject)

    def _look_ahead(self, tail: bytes) -> bool:
        """Return whether a batch ends with what has come; if the next one is wanted for sure, ask for it.

        What has come may wait for long until it is looked at, and the origin has nothing to do meanwhile.
        """
        assert self._bulk is not None
        end = self._bulk.end_in(tail)
        if end is None or self._ahead:
            return end is not None
        pending, last_seq = end
        start_seq, stop_seq = self._range
        # If there are gaps it is less that has come; then it is asked for later.
        messages, size = (
            self._max_messages - (last_seq + 1 - start_seq),
            self._max_bytes - self._client.received,
        )
        if pending and start_seq <= last_seq < stop_seq and messages > 0 and size > 0:
            self._ask(last_seq + 1, min(messages, BATCH_MESSAGES), min(size, BATCH_BYTES))
            self._ahead = last_seq + 1
        return True

    def _batch(self, inbox: Inbox, bulk: BulkAnswers) -> Iterator[tuple[Columns | None, int]]:
        """Yield the messages of one batch as they come, and at its end how many are left after it."""
        previous = 0
        while True:
            answers, frames = self._arrived(inbox, bulk)
            for columns, before in answers:
                _require_order(before, previous, int(columns.seqs[0]))
                previous = int(columns.seqs[-1])
                yield columns, 0
            messages = []
            pending: int | None = None
            for _, _, headers, data in frames:
                pending = self._pending_at_end(headers)
                if pending is not None:
                    break
                message, before = self._message(headers, data)
                _require_order(before, previous, message.seq)
                previous = message.seq
                messages.append(message)
            if messages:
                yield columns_of(messages), 0
            if pending is not None:
                yield None, pending
                return

    def _arrived(self, inbox: Inbox, bulk: BulkAnswers) -> tuple[list[Answers], list[Frame]]:
        """Return what has come; of an account that exports one answer only, the rest never comes."""
        try:
            return inbox.read_bulk(bulk, ANSWER_S, self._look_ahead)
        except SilentError:
            raise UnsuitableError("the batch breaks off") from None

    def _pending_at_end(self, headers: bytes) -> int | None:
        """Return how many messages are left, if these are the headers of the end of a batch."""
        status = header_block.status(headers) if headers.startswith(b"NATS/1.0 ") else None
        if status is None:
            return None
        if status.code not in (204, 404):
            raise UnsuitableError(status.description.decode(errors="replace"))
        return int(header_block.get(headers, b"Nats-Num-Pending") or 0)

    def _message(self, headers: bytes, data: bytes) -> tuple[Message, int]:
        """Return a message as it is stored, and the sequence before it in the batch."""
        at = headers.rfind(_MARK)
        if at < 0:
            raise UnsuitableError("an answer without the place of its message")
        # What was stored stands first; nats-server appends its own headers, whatever names are there.
        said = _PLACE.match(headers, at)
        if said is None or said[1] != self._stream:
            raise UnsuitableError("a mirror answers, or a server that knows no batches")
        stored = headers[: at + 2] + b"\r\n" if at > len(header_block.VERSION) else b""
        return Message(int(said[3]), self._time(said[4]), said[2], stored, data), int(said[5])

    def _time(self, text: bytes) -> int:
        """Return a time in nanoseconds; the many of one second share the work."""
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


def _require_order(before: int, previous: int, seq: int) -> None:
    if before != previous or seq <= previous:
        raise _lost()


def _lost() -> BusError:
    return BusError("a message of a batch was lost on its way")
