"""The answers to DIRECT.GET: stored messages, with their sequence, time and subject as headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from headwater.api.direct_request import DirectRequest, Refusal
from headwater.model import headers, times
from headwater.model.message import Message
from headwater.stream.stream import Stream

MAX_SUBJECTS = 1024
"""How many subjects a request for last messages may match."""
DEFAULT_MAX_BYTES = 64 << 20
_NOT_FOUND = (404, "Message Not Found")


@dataclass(frozen=True, slots=True)
class DirectAnswerFormat:
    """How a message of a stream is shown: its own headers, then ours."""

    stream: bytes
    plain: bool = False

    def headers(self, message: Message, *batch: tuple[bytes, bytes]) -> bytes:
        """Return the header block of an answer."""
        if self.plain:
            return b""
        stamp = times.format_time(message.ts).encode()
        ours = b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n" % (
            self.stream,
            message.subject,
            message.seq,
            stamp,
        )
        for name, value in batch:
            ours += b"%b: %b\r\n" % (name, value)
        stored = message.headers[:-2] if message.headers else b"NATS/1.0\r\n"
        return stored + ours + b"\r\n"


async def answers(stream: Stream, request: DirectRequest) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield header and data of each message that answers the request; raise Refusal if there is none."""
    if request.multi_last:
        async for answer in _last_of_each(stream, request):
            yield answer
    elif request.batch:
        async for answer in _batch(stream, request):
            yield answer
    else:
        message = await _one(stream, request)
        if message is None:
            raise Refusal(*_NOT_FOUND)
        yield DirectAnswerFormat(stream.name.encode(), request.no_hdr).headers(message), message.data


async def _one(stream: Stream, request: DirectRequest) -> Message | None:
    if request.last_by_subj:
        return await stream.reading.last(request.last_by_subj)
    seq = await _start_seq(stream, request)
    if request.next_by_subj:
        return await stream.reading.next(request.next_by_subj, seq)
    return await stream.reading.message(seq)


async def _start_seq(stream: Stream, request: DirectRequest) -> int:
    if request.start_time is None:
        return request.seq
    ts = times.parse_time(request.start_time)
    assert ts is not None
    return await stream.reading.seq_at(ts)


async def _batch(stream: Stream, request: DirectRequest) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield messages in order until there are enough, then the status with the number of pending ones."""
    filters = (request.next_by_subj,) if request.next_by_subj else ()
    shown = DirectAnswerFormat(stream.name.encode(), request.no_hdr)
    seq = await _start_seq(stream, request)
    known_last = (await stream.reading.state()).last_seq
    pending = await stream.reading.pending(seq, filters)
    if not pending and request.batch > 0:
        raise Refusal(*_NOT_FOUND)
    last = sent = size = 0
    max_bytes = request.max_bytes or DEFAULT_MAX_BYTES
    if request.batch > 0:
        async for message in _each(stream, seq, filters):
            pending = max(pending - 1, 0)
            yield shown.headers(message, *_progress(pending, last)), message.data
            last = message.seq
            sent += 1
            size += len(message.subject) + len(message.headers) + len(message.data)
            if sent >= request.batch or size >= max_bytes:
                break
    if not sent and request.batch > 0:
        raise Refusal(*_NOT_FOUND)
    if (await stream.reading.state()).last_seq > known_last:
        pending = await stream.reading.pending(last + 1 if last else seq, filters)
    yield headers.build(_progress(pending, last), code=204, description=b"EOB"), b""


async def _each(stream: Stream, seq: int, filters: tuple[str, ...]) -> AsyncIterator[Message]:
    async for messages in stream.reading.scan(seq, filters):
        for message in messages:
            yield message


async def _last_of_each(stream: Stream, request: DirectRequest) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield the newest message of every matching subject in order, then the status that ends them."""
    up_to_seq = await _up_to_seq(stream, request)
    found = await stream.reading.last_seqs(request.multi_last, up_to_seq, MAX_SUBJECTS)
    if found is None:
        raise Refusal(413, "Too Many Results")
    if not found:
        raise Refusal(404, "No Results")
    seqs = [seq for seq in found if seq >= request.seq]
    shown = DirectAnswerFormat(stream.name.encode())
    pending = len(seqs)
    last = sent = size = 0
    max_bytes = request.max_bytes or DEFAULT_MAX_BYTES
    for seq in seqs:
        message = await stream.reading.message(seq)
        pending -= 1
        if message is None:  # removed meanwhile
            continue
        yield shown.headers(message, *_progress(pending, last)), message.data
        last = message.seq
        sent += 1
        size += len(message.subject) + len(message.headers) + len(message.data)
        if size >= max_bytes or sent == request.batch:
            break
    end = (*_progress(pending, last), (b"Nats-UpTo-Sequence", b"%d" % up_to_seq))
    yield headers.build(end, code=204, description=b"EOB"), b""


async def _up_to_seq(stream: Stream, request: DirectRequest) -> int:
    """Return the last sequence to include."""
    if request.up_to_time is None:
        return request.up_to_seq or (await stream.reading.state()).last_seq
    ts = times.parse_time(request.up_to_time)
    assert ts is not None
    seq = await stream.reading.seq_at(ts)
    if seq <= (await stream.reading.state()).first_seq:
        raise Refusal(404, "No Results")
    return seq - 1


def _progress(pending: int, last: int) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    return (b"Nats-Num-Pending", b"%d" % pending), (b"Nats-Last-Sequence", b"%d" % last)
