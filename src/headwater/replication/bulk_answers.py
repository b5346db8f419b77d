"""Answers to a batch of direct gets, many at a time: from a socket read to columns, with no step per message.

A message without headers of its own comes as ten lines, the last of which is its data. Whatever is not
exactly that, down to every length, is left to the parser of single frames.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model import headers as header_block
from headwater.model.columns import Columns, Int64s
from headwater.table.rows import bytes_of, ends_of
from headwater.wire.frames import CRLF

LEAST_BYTES = 16 << 10
"""For less than that single frames are faster."""
_LINES = 10
_SIZES, _VERSION, _STREAM, _SUBJECT, _SEQ, _TIME, _PENDING, _BEFORE, _END, _DATA = range(_LINES)
_NAMES = {
    _SUBJECT: b"Nats-Subject: ",
    _SEQ: b"Nats-Sequence: ",
    _TIME: b"Nats-Time-Stamp: ",
    _PENDING: b"Nats-Num-Pending: ",
    _BEFORE: b"Nats-Last-Sequence: ",
}
_TIMES = pa.timestamp("ns", "UTC")


class Answers(NamedTuple):
    """Messages that follow on each other, and the sequence that the first one says was before it."""

    columns: Columns
    before: int


class BulkAnswers:
    """Takes the frames of one inbox out of what a socket reads, as long as they are plain messages."""

    def __init__(self, inbox: bytes, sid: bytes, stream: bytes) -> None:
        self._head = b"HMSG %s %s " % (inbox, sid)
        self._stream = b"Nats-Stream: " + stream
        self._rest = b""
        self._taken: list[Answers] = []

    def end_in(self, tail: bytes) -> tuple[int, int] | None:
        """Return what the end of a batch tells, if these last bytes are one: messages left, last sequence."""
        at = tail.rfind(CRLF + self._head) + len(CRLF)
        if at < len(CRLF):
            return None
        length = _frame_length(tail, at, len(self._head))
        headers = tail[tail.find(CRLF, at) + len(CRLF) :]
        if length != len(tail) - at or not headers.startswith(b"NATS/1.0 204 "):
            return None
        pending, last = (
            header_block.get(headers, name) for name in (b"Nats-Num-Pending", b"Nats-Last-Sequence")
        )
        return int(pending or 0), int(last or 0)

    def feed(self, data: bytes | memoryview) -> bytes:
        """Take the messages in what was read; return the frames, all whole, that somebody else must look at.

        Should it begin with anything but a frame of the inbox, all of it is returned as it is.
        """
        buffer = b"".join((self._rest, data))
        self._rest = b""
        if not buffer.startswith(self._head):
            return self._kept_or_not(buffer, 0)
        last = buffer.rfind(CRLF + self._head) + len(CRLF)
        if last > max(LEAST_BYTES, len(CRLF)):
            answers = self._parsed(memoryview(buffer)[len(self._head) : last - len(CRLF)])
            if answers is not None:
                self._taken.append(answers)
                end = last + _frame_length(buffer, last, len(self._head))
                return buffer[last:end] + self._kept_or_not(buffer, end)
        end = self._whole_frames(buffer)
        return buffer[:end] + self._kept_or_not(buffer, end)

    def _whole_frames(self, buffer: bytes) -> int:
        """Return where the frames of the inbox end that a buffer begins with, each found by its length."""
        end = 0
        while buffer.startswith(self._head, end) and (length := _frame_length(buffer, end, len(self._head))):
            end += length
        return end

    def _kept_or_not(self, buffer: bytes, start: int) -> bytes:
        """Keep the rest of a buffer if it is the beginning of a frame of the inbox, else return it."""
        rest = buffer[start:]
        if rest.startswith(self._head) or self._head.startswith(rest):
            self._rest = rest
            return b""
        return rest

    def taken(self) -> list[Answers]:
        """Return what was taken since this was last asked."""
        taken, self._taken = self._taken, []
        return taken

    def left(self) -> bytes:
        """Return the beginning of a frame that is kept, and keep it no longer: somebody else goes on."""
        rest, self._rest = self._rest, b""
        return rest

    def _parsed(self, frames: memoryview) -> Answers | None:
        """Return the messages of whole frames, without the first one's head; None if one is not plain."""
        try:
            return _parsed(frames, CRLF + self._head, self._stream)
        except pa.ArrowInvalid:
            return None


def _frame_length(buffer: bytes, start: int, head: int) -> int:
    """Return how long the frame is that begins somewhere in a buffer; 0 if it is not there whole."""
    line_end = buffer.find(CRLF, start + head)
    if line_end < 0:
        return 0
    size = buffer[start + head : line_end].rpartition(b" ")[2]
    end = line_end + len(CRLF) + (int(size) + len(CRLF) if size.isdigit() else 0)
    return end - start if end <= len(buffer) else 0


def _parsed(frames: memoryview, between: bytes, stream: bytes) -> Answers | None:
    whole = pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(np.array([0, len(frames)], np.int32)), pa.py_buffer(frames)]
    )
    pieces = pc.split_pattern(whole, between).flatten()
    lines = pc.split_pattern(pieces, CRLF, max_splits=_LINES - 1)
    count = len(pieces)
    if not (np.diff(np.frombuffer(lines.buffers()[1], np.int32)[: count + 1]) == _LINES).all():
        return None
    values = lines.flatten()
    column = [values.take(pa.array(np.arange(line, _LINES * count, _LINES))) for line in range(_LINES)]
    is_plain = (
        pc.all(pc.equal(column[_VERSION], pa.scalar(b"NATS/1.0", pa.binary()))).as_py()
        and pc.all(pc.equal(column[_STREAM], pa.scalar(stream, pa.binary()))).as_py()
        and not len(bytes_of(column[_END]))
        and all(pc.all(pc.starts_with(column[line], pattern=name)).as_py() for line, name in _NAMES.items())
        and _fits(pieces, column[_SIZES], column[_DATA])
    )
    if not is_plain:
        return None
    seqs, befores = (_said(column[line], line).cast(pa.int64()).to_numpy() for line in (_SEQ, _BEFORE))
    if not ((befores[1:] == seqs[:-1]).all() and (np.diff(seqs) > 0).all()):
        return None
    times = _said(column[_TIME], _TIME).cast(_TIMES).cast(pa.int64()).to_numpy()
    subjects = _without(column[_SUBJECT], len(_NAMES[_SUBJECT]))
    columns = Columns(
        seqs,
        times,
        _lengths(subjects).astype(np.uint32),
        bytes_of(subjects),
        np.zeros(count, np.uint32),
        b"",
        _lengths(column[_DATA]).astype(np.uint32),
        bytes_of(column[_DATA]),
    )
    return Answers(columns, int(befores[0]))


def _fits(pieces: pa.BinaryArray, sizes: pa.BinaryArray, datas: pa.BinaryArray) -> bool:
    """Return whether every frame has the lengths that its first line announces."""
    words = pc.split_pattern(sizes, b" ").flatten()
    if len(words) != 2 * len(pieces):
        return False
    announced = words.cast(pa.string()).cast(pa.int64()).to_numpy().reshape(-1, 2)
    total = _lengths(pieces) - _lengths(sizes) - len(CRLF)
    return bool((announced[:, 1] == total).all() and (announced[:, 0] == total - _lengths(datas)).all())


def _said(values: pa.BinaryArray, line: int) -> pa.StringArray:
    return _without(values, len(_NAMES[line])).cast(pa.string())


def _without(values: pa.BinaryArray, prefix: int) -> pa.BinaryArray:
    """Return values without so many of their first bytes."""
    return pc.binary_slice(values, prefix, int(_lengths(values).max()) + 1)


def _lengths(values: pa.BinaryArray) -> Int64s:
    return np.diff(ends_of(values)).astype(np.int64)
