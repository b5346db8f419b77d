"""Frames parsed and encoded per second on one core, beside the ways of parsing that were tried.

Run: python bench/frames.py

Last figures, CPython 3.11, one of 2 cores, 128 B of data, millions of messages per second:

                       find + split   regex   frame parser
    MSG with reply             1.6      1.2            2.4
    MSG without reply          1.8      1.4            2.5
    HMSG with reply                                    1.2
    MSG, CRLF in data          1.7      1.3            0.9

The parser wins where it counts by splitting the whole read at once: lines and payloads come out of one pass
in C, and the announced size is compared as text, not parsed. Data that holds a CRLF costs it a second pass.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from headwater.wire.frames import Frame, FrameParser, answers, pubs

COUNT = 1700  # about one socket read of 256 KiB
DATA = bytes(range(97, 113)) * 8
HEADERS = b"NATS/1.0\r\nNats-Msg-Id: 0123456789abcdef\r\n\r\n"


class ListSink:
    """Keeps the frames of one read."""

    def __init__(self) -> None:
        self.items: list[Frame] = []

    def flush(self) -> None:
        """Forget them."""
        self.items.clear()


def by_find(buf: bytes, sink: ListSink) -> None:
    """Find each line end, split the line, slice the payload."""
    pos = 0
    while pos < len(buf):
        end = buf.find(b"\r\n", pos)
        args = buf[pos:end].split(b" ")
        reply = args[3] if len(args) == 5 else b""
        size = int(args[-1])
        sink.items.append((args[1], reply, b"", buf[end + 2 : end + 2 + size]))
        pos = end + size + 4


_LINE = re.compile(rb"MSG ([^ ]+) ([^ ]+) (?:([^ \r]+) )?(\d+)\r\n")


def by_regex(buf: bytes, sink: ListSink) -> None:
    """Match each line with a regular expression, slice the payload."""
    pos = 0
    while pos < len(buf):
        match = _LINE.match(buf, pos)
        assert match is not None
        subject, _, reply, size = match.groups(b"")
        pos = match.end() + int(size) + 2
        sink.items.append((subject, reply, b"", buf[match.end() : pos - 2]))


def by_frame_parser(buf: bytes, sink: ListSink) -> None:
    """Parse with the product's own parser."""
    FrameParser().feed(buf, {b"1": sink, b"2": sink})


def read_of(reply: bytes, headers: bytes, crlf: bytes = b"") -> bytes:
    """Return one socket read full of messages."""
    parts = []
    for i in range(COUNT):
        args = b"orders.eu.%d %d %b" % (i, 1 + i % 2, reply and reply + b"%d " % i)
        data = DATA[: -len(crlf)] + crlf if crlf else DATA
        if headers:
            total = len(headers) + len(data)
            parts.append(b"HMSG %b%d %d\r\n%b%b\r\n" % (args, len(headers), total, headers, data))
        else:
            parts.append(b"MSG %b%d\r\n%b\r\n" % (args, len(data), data))
    return b"".join(parts)


def best(action: Callable[[], object], rounds: int = 40) -> float:
    """Return millions of messages per second of the best round."""
    fastest = 1e9
    for _ in range(rounds):
        begin = time.perf_counter()
        action()
        fastest = min(fastest, time.perf_counter() - begin)
    return COUNT / fastest / 1e6


def main() -> None:
    """Print one line per way of parsing and kind of message."""
    reads = {
        "MSG with reply": read_of(b"_INBOX.abcdefghij.", b""),
        "MSG without reply": read_of(b"", b""),
        "HMSG with reply": read_of(b"_INBOX.abcdefghij.", HEADERS),
        "MSG, CRLF in data": read_of(b"_INBOX.abcdefghij.", b"", b"\r\nxx"),
    }
    for name, buf in reads.items():
        for parse in (by_find, by_regex, by_frame_parser):
            if name.startswith("HMSG") and parse is not by_frame_parser:
                continue
            rate = best(lambda p=parse, b=buf: p(b, ListSink()))  # type: ignore[misc]
            print(f"{name:20} {parse.__name__:16} {rate:6.2f} M/s")
    acks = [(b"_INBOX.abcdefghij.%d" % i, b'{"stream":"ORDERS","seq":%d}' % i) for i in range(COUNT)]
    frames = [(b"_INBOX.abcdefghij.%d" % i, b"reply.%d" % i, b"", DATA) for i in range(COUNT)]
    print(f"{'encode':20} {'answers':16} {best(lambda: answers(acks)):6.2f} M/s")
    print(f"{'encode':20} {'pubs':16} {best(lambda: pubs(frames)):6.2f} M/s")


if __name__ == "__main__":
    main()
