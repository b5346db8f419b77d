"""Parses deliveries of a push consumer in bulk: from a socket read to rows, with no step per message.

A delivery is a line and its payload. HMSG has headers and one more length, MSG has neither:

    HMSG orders.eu 7 $JS.ACK.S.C.1.501.12.1700000000000000000.88 24 1024 CR LF
    <headers, 24 bytes><data, 1000 bytes> CR LF

    starts     the H of HMSG
    subjects   the o of `orders.eu`
    before     ` 7 $JS.ACK.S.C.1.`, the same in every first delivery: subscription, stream, consumer, 1
    dots       the marks before 501 (sequence), 12 (delivery number), 1700… (time), 88 (pending) and after it
    lasts      the blank before 1024, the length of headers and data; in HMSG, that of the headers precedes it
    line_ends  the CR of the line; `bodies` is after its LF, `datas` after the headers
    ends       after the closing CR LF, where the next frame starts

1. Find all line ends (CR LF) in one pass, and the lines that begin with `MSG ` or `HMSG`.
2. In the last `_NUMBERS_BYTES` of each line find the marks (blanks and dots). Counted from the end of the
   line, the nth mark always separates the same two fields.
3. Read the total length of every line. Frames are genuine where each one ends exactly where the next begins:
   payload bytes that look like a line break that chain.
4. Read all sequences, delivery numbers, times and pending counts as matrices of digits.
5. Write each data length over the four bytes before the data, which are parsed by then. That makes `length,
   value` as in a Parquet page (`table/pages/data_chunk`), so the data is copied only once.

Frames that do not match are left to the parser of single frames.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from headwater.model.columns import Int64s
from headwater.replication.worker.receive_buffer import MARGIN
from headwater.table.pages import LENGTH_BYTES, PlainValues, taken_out
from headwater.table.rows import Rows, bytes_of, empty_as_null, subject_codes
from headwater.wire import frames
from headwater.wire.ack_subject import numbers_in
from headwater.wire.frames import CRLF

LEAST_BYTES = 16 << 10
"""Below this size, parsing single frames is faster."""
SINGLE_BYTES = 64 << 10
"""How much is given to the single-frame parser at a time, so that one odd frame costs little."""
MOST_BYTES = 4 << 20
_NUMBERS_BYTES = 128
"""More than the numbers and lengths at the end of a line take."""
_MOST_DIGITS = 19
_CR, _LF, _SPACE, _DOT, _ZERO = b"\r\n .0"
_MSG, _HMSG = np.frombuffer(b"MSG HMSG", "<u4").tolist()

Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]


class DeliveredMessages(NamedTuple):
    """Messages with consecutive delivery numbers."""

    rows: Rows
    first: int
    """The number of the first delivery."""
    pending: int
    """How many messages were left after the last one."""

    @property
    def last(self) -> int:
        """Return the number of the last delivery."""
        return self.first + len(self.rows) - 1


class BulkDeliveries:
    """Extracts the deliveries of one consumer from socket reads."""

    def __init__(self, sid: bytes) -> None:
        self._sid = sid
        self._before = b""
        """The constant bytes between subject and numbers; empty if bulk parsing is not possible."""
        self._tokens = 0
        """How many tokens follow the numbers in the reply subject."""
        self._reach = MOST_BYTES
        """How many bytes are looked at next; smaller after frames that do not match."""
        self.is_learned = False
        """Whether it is known what the consumer's deliveries look like."""

    def learn(self, reply: bytes) -> None:
        """Take a delivery's reply; those of all others differ in their numbers only."""
        self.is_learned = True
        start, stop = numbers_in(reply)
        before = b" %b %b" % (self._sid, reply[:start])
        self._tokens = reply.count(b".", stop)
        is_usual = self._tokens <= 1 and len(before) <= MARGIN - _NUMBERS_BYTES
        self._before = before if is_usual else b""

    def take(self, buffer: bytearray, start: int, end: int) -> tuple[list[DeliveredMessages | bytes], int]:
        """Return what the bytes from start to end hold, in order, and where the rest begins.

        These are deliveries, and whole frames for the single-frame parser. The bytes of what was returned are
        overwritten.
        """
        reach = min(end, start + self._reach)
        if self._before and reach - start >= LEAST_BYTES:
            found = _found(buffer, start, reach, len(self._before))
            if found is not None and (not found.is_broken or found.stop - start >= LEAST_BYTES):
                self._reach = max(2 * (found.stop - start), SINGLE_BYTES) if found.is_broken else MOST_BYTES
                pieces = _pieces(buffer, found, self._before, self._tokens)
                if pieces:
                    return pieces, found.stop
        stop = frames.whole_until(buffer, start, end, SINGLE_BYTES if self.is_learned else 1)
        if stop == start:
            return [], start
        # If many frames do not match, look at less at a time, unless frames are longer.
        is_short = stop - start > self._reach
        self._reach = MOST_BYTES if is_short else max(self._reach // 2, min(2 * SINGLE_BYTES, MOST_BYTES))
        return [bytes(memoryview(buffer)[start:stop])], stop


class _WholeFrames(NamedTuple):
    """Whole consecutive frames, each of which ends where its lengths say."""

    raw: Bytes
    starts: Int64s
    line_ends: Int64s
    ends: Int64s
    lasts: Int64s
    """The offset of the last blank of each line; the total length follows it."""
    has_headers: Mask
    header_sizes: Int64s
    marks: _Marks
    is_broken: bool
    """Whether something other than a matching frame follows them."""

    @property
    def subjects(self) -> Int64s:
        """Return where the subjects begin."""
        return self.starts + len(b"MSG ") + self.has_headers

    @property
    def stop(self) -> int:
        """Return where the last one ends."""
        return int(self.ends[-1])


class _Marks:
    """The offsets of blanks and dots in the last `width` bytes of each line."""

    def __init__(self, raw: Bytes, line_ends: Int64s, width: int) -> None:
        ends = sliding_window_view(raw, width)[line_ends - width]
        is_mark = (ends == _DOT) | (ends == _SPACE)
        self._places = np.append(np.flatnonzero(is_mark), 0)
        self._lasts = np.cumsum(np.count_nonzero(is_mark, axis=1)) - 1
        self._lines = line_ends - width * np.arange(1, len(line_ends) + 1)

    def from_end(self, nth: int | Int64s, count: int) -> Int64s:
        """Return where the nth mark before a line's last one is, of the first lines.

        For a line with too few marks the offset is arbitrary, and later checks refuse the line.
        """
        places: Int64s = self._places[np.maximum(self._lasts[:count] - nth, 0)] + self._lines[:count]
        return places


def _found(buffer: bytearray, start: int, end: int, before: int) -> _WholeFrames | None:
    """Return the frames that bytes begin with, of a consumer whose reply prefixes have this length."""
    raw = np.frombuffer(buffer, np.uint8)
    line_ends = np.flatnonzero(raw[start : end - 1] == _CR) + start
    line_ends = line_ends[raw[line_ends + 1] == _LF]
    if not len(line_ends):
        return None
    lines = np.append(start, line_ends[:-1] + len(CRLF))
    words = sliding_window_view(raw, 4)[lines].view("<u4")[:, 0]
    has_headers = words == _HMSG
    chosen = np.flatnonzero(has_headers | (words == _MSG))
    if not len(chosen) or chosen[0]:
        return None
    starts, line_ends, has_headers = lines[chosen], line_ends[chosen], has_headers[chosen]
    # Before the numbers and lengths are the verb, the subject, and the beginning of the reply.
    longest = int((line_ends - starts).max())
    marks = _Marks(raw, line_ends, min(max(longest - before - len(b"MSG "), 16), _NUMBERS_BYTES))
    lasts = marks.from_end(0, len(starts))
    totals = _numbers(raw, lasts + 1, line_ends)
    ends = line_ends + 2 * len(CRLF) + totals
    fits = (ends[:-1] == starts[1:]) & (totals[:-1] >= 0)
    fitting = len(fits) if fits.all() else int(np.argmin(fits))
    is_last_whole = totals[fitting] >= 0 and ends[fitting] <= end
    count = fitting + 1 if is_last_whole else fitting
    if not count or buffer[int(ends[count - 1]) - 2 : int(ends[count - 1])] != CRLF:
        return None
    has_headers = has_headers[:count]
    header_sizes = np.zeros(count, np.int64)
    if has_headers.any():
        rows = np.flatnonzero(has_headers)
        blanks = marks.from_end(1, count)[rows]
        sizes = _numbers(raw, blanks + 1, lasts[rows])
        if not ((raw[blanks] == _SPACE) & (sizes >= 0) & (sizes <= totals[rows])).all():
            return None
        header_sizes[rows] = sizes
    return _WholeFrames(
        raw,
        starts[:count],
        line_ends[:count],
        ends[:count],
        lasts[:count],
        has_headers,
        header_sizes,
        marks,
        fitting < len(fits),
    )


def _pieces(
    buffer: bytearray, found: _WholeFrames, before: bytes, tokens: int
) -> list[DeliveredMessages | bytes]:
    """Return deliveries and other frames in order; nothing if the frames are not deliveries as expected."""
    raw, count = found.raw, len(found.starts)
    # From the end: lengths, tokens after the numbers, pending, time, delivery number, sequence.
    skipped = found.has_headers.astype(np.int64) + (1 + tokens)
    dots = np.stack([found.marks.from_end(skipped + at, count) for at in range(-1, 4)])
    subject_ends = dots[-1] + 1 - len(before)
    is_delivery = _is_at(raw, before, subject_ends) & (subject_ends > found.subjects)
    # There are no other marks between these, so the line has exactly these fields.
    is_delivery &= (raw[dots[1 - tokens :]] == _DOT).all(axis=0) & (raw[found.lasts] == _SPACE)
    is_delivery &= raw[found.subjects - 1] == _SPACE
    others = np.flatnonzero(~is_delivery)
    if len(others) * 8 > count:
        return []
    view = memoryview(buffer)
    single = [bytes(view[found.starts[row] : found.ends[row]]) for row in others.tolist()]
    if len(others):
        chosen = np.flatnonzero(is_delivery)
        dots, subject_ends = dots[:, chosen], subject_ends[chosen]
        found = found._replace(
            starts=found.starts[chosen],
            line_ends=found.line_ends[chosen],
            ends=found.ends[chosen],
            lasts=found.lasts[chosen],
            has_headers=found.has_headers[chosen],
            header_sizes=found.header_sizes[chosen],
        )
    pending_ends, pending_at, ts_at, number_at, seq_at = dots
    seqs = _numbers(raw, seq_at + 1, number_at)
    numbers = _numbers(raw, number_at + 1, ts_at)
    ts = _numbers(raw, ts_at + 1, pending_at)
    pending = _numbers(raw, pending_at + 1, pending_ends)
    subjects = taken_out(buffer, found.subjects, subject_ends)
    if (
        min(seqs[0], numbers[0], ts.min(), pending.min()) < 0
        or (np.diff(seqs) < 1).any()
        or (np.diff(numbers) != 1).any()
        or b" " in bytes(bytes_of(subjects))
    ):
        return []
    # The number of deliveries before each other frame, and in total.
    stops = [*(others - np.arange(len(others))).tolist(), len(seqs)]
    rows = _rows(buffer, found, seqs, ts, subject_codes(subjects))
    pieces: list[DeliveredMessages | bytes] = []
    start = 0
    for stop, frame in zip(stops, [*single, b""], strict=True):
        if stop > start:
            part = rows if stop - start == len(rows) else rows.slice(start, stop)
            pieces.append(DeliveredMessages(part, int(numbers[start]), int(pending[stop - 1])))
        pieces += [frame] if frame else []
        start = stop
    return pieces


def _rows(
    buffer: bytearray, found: _WholeFrames, seqs: Int64s, ts: Int64s, subjects: pa.DictionaryArray
) -> Rows:
    """Return the messages of deliveries; overwrites parts of their frames in the buffer."""
    count = len(seqs)
    bodies = found.line_ends + len(CRLF)
    datas = bodies + found.header_sizes
    headers = pa.nulls(count, pa.binary())
    if found.has_headers.any():
        headers = empty_as_null(taken_out(buffer, bodies, datas))
    # The four bytes before the data are parsed by now. The data length replaces them, as in a page.
    ends = found.ends - len(CRLF)
    lengths = (ends - datas).astype("<u4").view(np.uint8).reshape(count, LENGTH_BYTES)
    sliding_window_view(found.raw, LENGTH_BYTES, writeable=True)[datas - LENGTH_BYTES] = lengths
    values = bytes_of(taken_out(buffer, datas - LENGTH_BYTES, ends))
    widths = ends - datas + LENGTH_BYTES
    return Rows(seqs, ts, subjects, headers, PlainValues((values,), widths))


def _numbers(raw: Bytes, starts: Int64s, stops: Int64s) -> Int64s:
    """Return the decimal numbers between these offsets; -1 where there is none."""
    lengths = stops - starts
    width = min(max(int(lengths.max()), 1), _MOST_DIGITS)
    digits = sliding_window_view(raw, width)[stops - width] - np.uint8(_ZERO)
    if lengths.min() < width:
        digits[np.arange(width) < (width - lengths)[:, np.newaxis]] = 0
    numbers = digits[:, 0].astype(np.int64)
    for column in range(1, width):
        numbers *= 10
        numbers += digits[:, column]
    if digits.max() > 9 or lengths.min() < 1 or lengths.max() > _MOST_DIGITS:
        numbers[(digits > 9).any(axis=1) | (lengths < 1) | (lengths > _MOST_DIGITS)] = -1
    # Numbers that are too large have become negative.
    return np.maximum(numbers, -1)


def _is_at(raw: Bytes, text: bytes, places: Int64s) -> Mask:
    """Return at which of these offsets a text is."""
    found: Mask = (sliding_window_view(raw, len(text))[places] == np.frombuffer(text, np.uint8)).all(axis=1)
    return found
