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

BATCH_MESSAGES = 10_000
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
        self._inbox: Inbox | None = None
        self._bulk: BulkAnswers | None = None
        self._pending = 0
        """How many messages the batch that was read last has left behind it."""

    def read(self, start_seq: int, stop_seq: int) -> Iterator[Columns]:
        """Yield messages in order until whoever answers has no more, or beyond the end of the range."""
        seq = start_seq
        while seq <= stop_seq:
            self._pending = 0
            last_seq = 0
            for columns in self._batch(seq, min(BATCH_MESSAGES, stop_seq - seq + 1)):
                yield columns
                last_seq = int(columns.seqs[-1])
            if not (self._pending and last_seq):
                return
            seq = last_seq + 1

    def close(self) -> None:
        """Take no more answers; there is nothing at the origin to take back."""
        if self._inbox is not None:
            self._end_batch(self._inbox)

    def _batch(self, seq: int, count: int) -> Iterator[Columns]:
        """Yield the messages of one batch as they come; at its end it is told how many are left after it."""
        self._inbox = inbox = self._client.open()
        self._bulk = bulk = BulkAnswers(inbox.subject, inbox.sid, self._stream)
        asked = {"seq": seq, "batch": count, "max_bytes": BATCH_BYTES, **self._filter}
        self._client.publish(self._subject, json.dumps(asked).encode(), inbox.subject)
        previous = 0
        ended = False
        while not ended:
            answers, frames = self._arrived(inbox, bulk)
            for columns, before in answers:
                _require_order(before, previous, int(columns.seqs[0]))
                previous = int(columns.seqs[-1])
                yield columns
            messages = []
            for _, _, headers, data in frames:
                if ended := self._is_end(headers):
                    break
                message, before = self._message(headers, data)
                _require_order(before, previous, message.seq)
                previous = message.seq
                messages.append(message)
            if messages:
                yield columns_of(messages)
        self._end_batch(inbox)

    def _end_batch(self, inbox: Inbox) -> None:
        """Take nothing more of a batch, however much of it is still to come."""
        if self._bulk is not None:
            self._client.end_bulk(self._bulk)
        self._client.shut(inbox)

    def _arrived(self, inbox: Inbox, bulk: BulkAnswers) -> tuple[list[Answers], list[Frame]]:
        """Return what has come; of an account that exports one answer only, the rest never comes."""
        try:
            return inbox.read_bulk(bulk, ANSWER_S)
        except SilentError:
            raise UnsuitableError("the batch breaks off") from None

    def _is_end(self, headers: bytes) -> bool:
        """Return whether these are the headers of the end of a batch, which tells how many are left."""
        status = header_block.status(headers) if headers.startswith(b"NATS/1.0 ") else None
        if status is None:
            return False
        if status.code not in (204, 404):
            raise UnsuitableError(status.description.decode(errors="replace"))
        self._pending = int(header_block.get(headers, b"Nats-Num-Pending") or 0)
        return True

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
        raise BusError("a message of a batch was lost on its way")
