"""Frames of the NATS client protocol, parsed a whole socket read at a time, and their encoders.

There are two paths. The fast one splits the read at every CRLF in one pass, which gives command lines and
payloads in turn. It applies as long as every frame is a MSG whose payload has the announced length. At the
first frame that does not (headers, a CRLF inside a payload, a control line, an incomplete frame) the careful
path takes over for the rest of the read and finds each frame by its position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import length_hint
from typing import Protocol

from headwater.errors import Error
from headwater.wire.partial_frame import PartialFrame

Frame = tuple[bytes, bytes, bytes, bytes]
"""Subject, reply, header block, data; the reply and the headers are empty if there are none."""

Event = tuple[bytes, bytes]
"""A control line: its verb (INFO, PING, PONG, +OK, -ERR) and the rest of it."""

CRLF = b"\r\n"
MAX_LINE = 1 << 20
MAX_SIZE = 64 << 20  # the largest max_payload that nats-server accepts
_CONTROL = frozenset((b"INFO", b"PING", b"PONG", b"+OK", b"-ERR"))
# Comparing the announced size with the text of the real one costs a fraction of parsing it.
_SIZE_TEXT = [b"%d" % size for size in range(8192)]
_SMALL = len(_SIZE_TEXT)
# Replaces the part after the last CRLF. It is too long for a small payload, so it never counts as one.
_UNENDED = b" " * _SMALL


class ProtocolError(Error):
    """The peer sent bytes that are not a frame of the protocol."""


class Sink(Protocol):
    """Receives the frames of one or more subscriptions."""

    items: list[Frame]

    def flush(self) -> None:
        """Process all of `items`; called once after each socket read that added some."""
        ...


class FrameParser:
    """Turns socket reads into frames in sinks and control events."""

    def __init__(self, suspect: bytes = b"") -> None:
        self.touched: list[Sink] = []
        """The sinks that got frames from the current read, in order of their first."""
        self.is_suspect = False
        """Whether the bytes to watch for were in what the last read completed."""
        self._suspect = suspect
        self._partial = PartialFrame()
        self._appends: dict[bytes, Callable[[Frame], None]] = {}
        """How to add a frame to the sink of a subscription id."""

    def unfinished(self) -> bytes:
        """Return the bytes of an incomplete frame, and clear them."""
        return self._partial.take()

    def feed(self, data: bytes, sinks: dict[bytes, Sink]) -> list[Event]:
        """Append each complete frame to the sink of its sid, and return the control lines in order.

        Afterwards `touched` lists the sinks that got frames, in the order of their first one. A frame for an
        unknown sid is dropped: the server may send some until it has processed the UNSUB.
        """
        self.touched = []
        self._appends = {}
        buf = self._partial.join(data) if self._partial else data
        # One search for each read costs less than checking each frame.
        self.is_suspect = bool(self._suspect) and self._suspect in buf
        if not buf:
            return []
        start = self._bulk(buf, sinks) if buf.startswith(b"MSG ") else 0
        return self._careful(buf, start, sinks)

    def _bulk(self, buf: bytes, sinks: dict[bytes, Sink]) -> int:
        """Append the plain MSG frames at the front of `buf`, and return where another frame begins."""
        appends, small, size_text = self._appends, _SMALL, _SIZE_TEXT
        lines = buf.split(CRLF)
        unended = len(lines[-1])
        lines[-1] = _UNENDED
        rest = iter(lines)
        for line, payload in zip(rest, rest, strict=False):
            args = line.split(b" ")
            if len(args) == 5:
                verb, subject, sid, reply, size = args
            elif len(args) == 4:
                verb, subject, sid, size = args
                reply = b""
            else:
                verb = b""
            length = len(payload)
            if verb != b"MSG" or length >= small or size_text[length] != size:
                left = lines[len(lines) - length_hint(rest) - 2 : -1]
                return len(buf) - unended - sum(map(len, left)) - 2 * len(left)
            try:
                appends[sid]((subject, reply, b"", payload))
            except KeyError:
                self._append(sid, sinks)((subject, reply, b"", payload))
        return len(buf) - unended

    def _careful(self, buf: bytes, start: int, sinks: dict[bytes, Sink]) -> list[Event]:
        """Append every complete frame from `start` on, keep an incomplete one; return the control lines."""
        events: list[Event] = []
        find, appends = buf.find, self._appends
        while (line_end := find(CRLF, start)) >= 0:
            args = buf[start:line_end].split(b" ")
            verb, words = args[0], len(args)
            header_text = b"0"
            if verb == b"HMSG" and words == 6:
                _, subject, sid, reply, header_text, size = args
            elif verb == b"MSG" and words == 5:
                _, subject, sid, reply, size = args
            elif verb == b"HMSG" and words == 5:
                _, subject, sid, header_text, size = args
                reply = b""
            elif verb == b"MSG" and words == 4:
                _, subject, sid, size = args
                reply = b""
            elif verb in _CONTROL:
                events.append((verb, buf[start + len(verb) + 1 : line_end]))
                start = line_end + 2
                continue
            else:
                raise ProtocolError(f"not a frame of the client protocol: {_excerpt(buf, start)}")
            try:
                header_size, total = int(header_text), int(size)
            except ValueError:
                raise ProtocolError(f"a size that is not a number: {_excerpt(buf, start)}") from None
            if not 0 <= header_size <= total <= MAX_SIZE:
                raise ProtocolError(f"an invalid size: {_excerpt(buf, start)}")
            body = line_end + 2
            split, end = body + header_size, body + total
            if buf[end : end + 2] != CRLF:
                if len(buf) >= end + 2:
                    raise ProtocolError(f"no line end after {total} bytes: {_excerpt(buf, start)}")
                self._partial.keep(buf[start:], end + 2 - start)
                return events
            try:
                append = appends[sid]
            except KeyError:
                append = self._append(sid, sinks)
            append((subject, reply, buf[body:split], buf[split:end]))
            start = end + 2
        if len(buf) - start > MAX_LINE:
            raise ProtocolError(f"a line longer than {MAX_LINE} bytes: {_excerpt(buf, start)}")
        self._partial.keep(buf[start:])
        return events

    def _append(self, sid: bytes, sinks: dict[bytes, Sink]) -> Callable[[Frame], None]:
        """Look up, for the rest of this read, the callback for frames of `sid`."""
        sink = sinks.get(sid)
        if sink is not None and sink not in self.touched:
            self.touched.append(sink)
        self._appends[sid] = append = _drop if sink is None else sink.items.append
        return append


def whole_until(buffer: bytearray, start: int, end: int, least: int) -> int:
    """Return where a complete frame or control line ends after `least` bytes, or the last one before the end.

    Bytes that are not a frame end at their line end, or have none: the parser will report them.
    """
    stop = start
    while stop - start < least:
        line_end = buffer.find(CRLF, stop, end)
        if line_end < 0:
            return end if end - stop > MAX_LINE else stop
        words = bytes(memoryview(buffer)[stop:line_end]).split(b" ")
        size = words[-1] if words[0] in (b"MSG", b"HMSG") else b""
        is_size = size.isdigit() and int(size) <= MAX_SIZE
        frame_end = line_end + 2 + (int(size) + 2 if is_size else 0)
        if frame_end > end:
            return stop
        stop = frame_end
    return stop


def _drop(frame: Frame) -> None:
    pass


def _excerpt(buf: bytes, start: int) -> str:
    return repr(buf[start : start + 100])


def pub(subject: bytes, reply: bytes, headers: bytes, data: bytes) -> bytes:
    """Return the frame that publishes one message; a subject with white space is refused."""
    _check(subject)
    if reply:
        _check(reply)
    if headers:
        return _hpub(subject, reply, headers, data)
    if reply:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(data), data)
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(data), data)


def _check(name: bytes) -> None:
    """Refuse characters that would end the word or the line, and could smuggle in another frame."""
    if name.split() != [name]:
        raise ValueError(f"not a subject: {name[:200]!r}")


def _hpub(subject: bytes, reply: bytes, headers: bytes, data: bytes) -> bytes:
    size, total = len(headers), len(headers) + len(data)
    if reply:
        return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, size, total, headers, data)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, size, total, headers, data)


def pubs(frames: Iterable[Frame]) -> bytes:
    """Return the frames that publish many messages, without checking subjects."""
    return b"".join(
        [
            _hpub(subject, reply, headers, data)
            if headers
            else b"PUB %b %b%d\r\n%b\r\n" % (subject, reply and reply + b" ", len(data), data)
            for subject, reply, headers, data in frames
        ]
    )


def answers(replies: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the frames that answer many requests: pairs of reply subject, not checked, and data.

    A request without a reply subject gets none: the server would close the connection for an empty subject.
    """
    return b"".join(
        [b"PUB %b %d\r\n%b\r\n" % (subject, len(data), data) for subject, data in replies if subject]
    )


def sub(subject: bytes, sid: bytes, queue: bytes = b"") -> bytes:
    """Return the frame that subscribes; a subject with white space is refused."""
    _check(subject)
    if queue:
        _check(queue)
        return b"SUB %b %b %b\r\n" % (subject, queue, sid)
    return b"SUB %b %b\r\n" % (subject, sid)


def unsub(sid: bytes) -> bytes:
    """Return the frame that ends a subscription."""
    return b"UNSUB %b\r\n" % sid


def connect(options: bytes) -> bytes:
    """Return the CONNECT line followed by the PING whose answer confirms it."""
    return b"CONNECT %b\r\nPING\r\n" % options


PING = b"PING\r\n"
PONG = b"PONG\r\n"
