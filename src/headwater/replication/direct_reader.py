"""Messages of an origin by batches of direct gets, which leave nothing behind there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, repeat

from headwater.errors import BusError, Error
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.times import parse_time
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
_BLOCK = re.compile(rb"NATS/1\.0" + _PLACE.pattern + rb"\r\n")
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

    def read(self, start_seq: int, stop_seq: int) -> Iterator[list[Message]]:
        """Yield messages in order until whoever answers has no more, or beyond the end of the range."""
        seq = start_seq
        while seq <= stop_seq:
            last_seq = pending = 0
            for messages, left in self._batch(seq, min(BATCH_MESSAGES, stop_seq - seq + 1)):
                yield messages
                pending = left
                last_seq = messages[-1].seq if messages else last_seq
            if not (pending and last_seq):
                return
            seq = last_seq + 1

    def close(self) -> None:
        """Take no more answers; there is nothing at the origin to take back."""
        if self._inbox is not None:
            self._client.shut(self._inbox)

    def _batch(self, seq: int, count: int) -> Iterator[tuple[list[Message], int]]:
        """Yield the messages of one batch as they come, each time with how many are left after it."""
        self._inbox = inbox = self._client.open()
        asked = {"seq": seq, "batch": count, "max_bytes": BATCH_BYTES, **self._filter}
        self._client.publish(self._subject, json.dumps(asked).encode(), inbox.subject)
        previous = pending = 0
        ended = False
        while not ended:
            arrived = self._arrived(inbox)
            messages, previous = self._plain(arrived, previous)
            for _, _, headers, data in arrived[len(messages) :]:
                if headers.startswith(b"NATS/1.0 ") and (status := header_block.status(headers)):
                    if status.code not in (204, 404):
                        raise UnsuitableError(status.description.decode(errors="replace"))
                    pending = int(header_block.get(headers, b"Nats-Num-Pending") or 0)
                    ended = True
                    break
                message, before = self._message(headers, data)
                if before != previous or message.seq <= previous:
                    raise BusError("a message of a batch was lost on its way")
                previous = message.seq
                messages.append(message)
            yield messages, pending
        self._client.shut(inbox)

    def _arrived(self, inbox: Inbox) -> list[Frame]:
        """Return what has come; of an account that exports one answer only, the rest never comes."""
        try:
            return inbox.read(ANSWER_S)
        except SilentError:
            raise UnsuitableError("the batch breaks off") from None

    def _plain(self, arrived: Sequence[Frame], previous: int) -> tuple[list[Message], int]:
        """Return the messages without headers of their own, all at once, and the last one's sequence.

        None if there are others among them, or if anything is not as it should be: then each is looked at.
        """
        last = bool(arrived) and arrived[-1][2].startswith(b"NATS/1.0 ")
        answers = arrived[:-1] if last else arrived
        places = _BLOCK.findall(b"".join([frame[2] for frame in answers]))
        if not places or len(places) != len(answers):
            return [], previous
        streams, subjects, numbers, times, befores = zip(*places, strict=True)
        seqs = list(map(int, numbers))
        follows = list(map(int, befores)) == [previous, *seqs[:-1]] and all(a < b for a, b in pairwise(seqs))
        if not follows or seqs[0] <= previous or set(streams) != {self._stream}:
            return [], previous
        datas = [frame[3] for frame in answers]
        return list(map(Message, seqs, map(self._time, times), subjects, repeat(b""), datas)), seqs[-1]

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
