"""The answer to a publish: one PubAck, or runs of them as encoded frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headwater.errors import ApiError


class PubAcks:
    """Encodes the PubAcks of one stream."""

    def __init__(self, stream: str, domain: str) -> None:
        self._stream = stream
        named: dict[str, object] = {"stream": stream}
        if domain:
            named["domain"] = domain
        self._start = msgspec.json.encode(named)[:-1] + b',"seq":'
        """The beginning that all acknowledgements of the stream share."""

    def run(self, replies: Sequence[bytes], first_seq: int) -> bytes:
        """Return the frames that acknowledge consecutive sequences; an empty reply gets none."""
        start = self._start
        frames = []
        seq = first_seq
        left = replies
        while left:
            # The length of the answer changes only with the number of digits.
            digits = len(str(seq))
            same = left[: 10**digits - seq]
            head = b" %d\r\n%b" % (len(start) + digits + 1, start)
            frames += [
                b"PUB %b%b%d}\r\n" % (reply, head, number) for number, reply in enumerate(same, seq) if reply
            ]
            seq += len(same)
            left = left[len(same) :]
        return b"".join(frames)

    def one(self, reply: bytes, seq: int, more: Mapping[str, object]) -> bytes:
        """Return the frame that acknowledges one message, with further fields such as `duplicate`."""
        body = self._start + b"%d," % seq + msgspec.json.encode(more)[1:]
        return b"PUB %b %d\r\n%b\r\n" % (reply, len(body), body)

    def other(self, reply: bytes, body: bytes) -> bytes:
        """Return the frame of an answer of another form; an empty one means that a message was accepted."""
        return b"PUB %b %d\r\n%b\r\n" % (reply, len(body), body)

    def error(self, reply: bytes, error: ApiError) -> bytes:
        """Return the frame that refuses a message."""
        body = msgspec.json.encode(
            {
                "error": {
                    "code": error.code,
                    "err_code": error.err_code,
                    "description": error.description,
                },
                "stream": self._stream,
                "seq": 0,
            }
        )
        return b"PUB %b %d\r\n%b\r\n" % (reply, len(body), body)
