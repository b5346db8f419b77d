"""Frames of the leaf protocol, as far as a delivering leaf uses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.wire.frames import CRLF, MAX_LINE, MAX_SIZE, Event, Frame, ProtocolError
from headwater.wire.partial_frame import PartialFrame

_MESSAGES = frozenset((b"LMSG", b"HMSG"))
_CONTROL = frozenset((b"INFO", b"PING", b"PONG", b"+OK", b"-ERR", b"LS+", b"LS-"))


class LeafParser:
    """Turns socket reads into frames and control events."""

    def __init__(self) -> None:
        self._partial = PartialFrame()

    def feed(self, data: bytes, frames: list[Frame]) -> list[Event]:
        """Append each complete message to `frames`, and return the control lines, including LS+ and LS-."""
        events: list[Event] = []
        buf = self._partial.join(data) if self._partial else data
        if not buf:
            return events
        start = 0
        while (line_end := buf.find(CRLF, start)) >= 0:
            line = buf[start:line_end]
            verb, _, rest = line.partition(b" ")
            if verb in _CONTROL:
                events.append((verb, rest))
                start = line_end + 2
                continue
            subject, reply, header_size, total = _message_line(line)
            body = line_end + 2
            split, end = body + header_size, body + total
            if len(buf) < end + 2:
                self._partial.keep(buf[start:], end + 2 - start)
                return events
            if not buf.startswith(CRLF, end):
                raise ProtocolError(f"no line end after {total} bytes: {line[:100]!r}")
            frames.append((subject, reply, buf[body:split], buf[split:end]))
            start = end + 2
        if len(buf) - start > MAX_LINE:
            raise ProtocolError(f"a line longer than {MAX_LINE} bytes: {buf[start : start + 100]!r}")
        self._partial.keep(buf[start:])
        return events


def _message_line(line: bytes) -> tuple[bytes, bytes, int, int]:
    """Return subject, reply, header size and total size of an LMSG or HMSG line, with or without queues."""
    verb, *args = line.split(b" ")
    if verb not in _MESSAGES:
        raise ProtocolError(f"not a frame of the leaf protocol: {line[:100]!r}")
    try:
        total = int(args.pop())
        header_size = int(args.pop()) if verb == b"HMSG" else 0
        subject, *target = args
        # `+ reply queue…` and `| queue…` name queue groups, `reply` alone does not.
        if target[:1] == [b"+"]:
            reply = target[1]
        elif not target or target[0] == b"|":
            reply = b""
        else:
            (reply,) = target
    except (ValueError, IndexError):
        raise ProtocolError(f"not a frame of the leaf protocol: {line[:100]!r}") from None
    if not 0 <= header_size <= total <= MAX_SIZE:
        raise ProtocolError(f"an invalid size: {line[:100]!r}")
    return subject, reply, header_size, total


def lmsg(subject: bytes, reply: bytes, headers: bytes, data: bytes, queues: Sequence[bytes] = ()) -> bytes:
    """Return the frame that delivers to all plain subscribers and to one of each named queue group."""
    if queues:
        target = (b" + %b " % reply if reply else b" | ") + b" ".join(queues)
    else:
        target = reply and b" " + reply
    if headers:
        size, total = len(headers), len(headers) + len(data)
        return b"HMSG %b%b %d %d\r\n%b%b\r\n" % (subject, target, size, total, headers, data)
    return b"LMSG %b%b %d\r\n%b\r\n" % (subject, target, len(data), data)


def deliveries(
    subject: bytes,
    replies: Sequence[bytes],
    stored_subjects: Sequence[bytes],
    headers: Sequence[bytes],
    datas: Sequence[bytes],
    queues: Sequence[bytes] = (),
) -> bytes:
    """Return the frames that deliver stored messages to one subject, each shown with its stored subject."""
    start = b"MSG %b %b" % (subject, b"+ " if queues else b"")
    named = b"".join(b" " + queue for queue in queues)
    if not any(headers):
        return b"".join(
            [
                b"L%b%b@%b%b %d\r\n%b\r\n" % (start, reply, stored, named, len(data), data)
                for reply, stored, data in zip(replies, stored_subjects, datas, strict=True)
            ]
        )
    frames = []
    for reply, stored, block, data in zip(replies, stored_subjects, headers, datas, strict=True):
        size = len(block)
        sizes = b"%d %d" % (size, size + len(data)) if size else b"%d" % len(data)
        verb = b"H" if size else b"L"
        frames.append(b"%b%b%b@%b%b %b\r\n%b%b\r\n" % (verb, start, reply, stored, named, sizes, block, data))
    return b"".join(frames)


def lmsgs(
    subject: bytes, messages: Iterable[tuple[bytes, bytes, bytes]], queues: Sequence[bytes] = ()
) -> bytes:
    """Return the frames that deliver many messages (reply, headers, data) to one subject."""
    return b"".join([lmsg(subject, reply, headers, data, queues) for reply, headers, data in messages])


def subscribe(subject: bytes, queue: bytes = b"") -> bytes:
    """Return the frame that subscribes to a subject."""
    return b"LS+ %b %b 1\r\n" % (subject, queue) if queue else b"LS+ %b\r\n" % subject


def unsubscribe(subject: bytes, queue: bytes = b"") -> bytes:
    """Return the frame that ends a subscription."""
    return b"LS- %b %b\r\n" % (subject, queue) if queue else b"LS- %b\r\n" % subject
