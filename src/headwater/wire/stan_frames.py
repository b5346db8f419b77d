"""The frequent messages of NATS Streaming, parsed and built as bytes, many at a time.

Messages with another layout than clients use are left to `stan_messages`, which also defines what is valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

_CLIENT, _GUID, _SUBJECT, _DATA, _CONNECTION = 0x0A, 0x12, 0x1A, 0x2A, 0x32
"""The tags of a PubMsg, in the order in which clients write the fields."""
_SHORT = 0x7F
_LOW = 0x3FFF

Publish = tuple[bytes, bytes, bytes, bytes]
"""The publisher, as encoded bytes; the PubAck; the channel; the data."""
Places = tuple[int, int, int, int]
"""Where in a PubMsg the guid's length, the channel's field, the data, and the rest begin."""


def varint(number: int) -> bytes:
    """Return a non-negative number as protobuf encodes it."""
    out = bytearray()
    while number > _SHORT:
        out.append(number & _SHORT | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def places(body: bytes) -> Places | None:
    """Return where the parts of a PubMsg without a reply subject are; None if the layout differs."""
    try:
        size = body[1]
        guid_at = size + 2
        more = body[guid_at + 1]
        subject_at = guid_at + more + 2
        size |= more
        more = body[subject_at + 1]
        data_at = subject_at + more + 2
        if (
            size | more > _SHORT
            or body[guid_at + 1] == 0
            or body[0] != _CLIENT
            or body[guid_at] != _GUID
            or body[subject_at] != _SUBJECT
            or body[data_at] != _DATA
        ):
            return None
        at, size = data_at + 2, body[data_at + 1]
        if size > _SHORT:
            size += (body[at] - 1) << 7
            if body[at] > _SHORT:
                at += 1
                size += (body[at] - 1) << 14
                if body[at] > _SHORT:
                    return None
            at += 1
        end, length = at + size, len(body)
        if end != length and (
            body[end] != _CONNECTION or body[end + 1] > _SHORT or length != end + body[end + 1] + 2
        ):
            return None
    except IndexError:
        return None
    return guid_at + 1, subject_at, at, end


def cut_publish(body: bytes, at: Places) -> Publish:
    """Return the parts of a PubMsg at these positions."""
    guid_at, subject_at, data_at, end = at
    # The field of the channel: its tag and its length, then its name; then those of the data.
    name_at = subject_at + 2
    return (
        body[: guid_at - 1] + body[end:],
        pub_ack(body[guid_at:subject_at]),
        body[name_at : name_at + body[subject_at + 1]],
        body[data_at:end],
    )


def pub_ack(guid: bytes) -> bytes:
    """Return the PubAck for a guid with its length before it, where it has another tag."""
    return b"\x0a" + guid


def frames_to(subjects: Sequence[bytes], bodies: Sequence[bytes]) -> bytes:
    """Return publishes of bodies, each to its subject; one without a subject is omitted."""
    if len(set(subjects)) == 1 and subjects[0] and len(set(map(len, bodies))) == 1:
        head = b"PUB %b %d\r\n" % (subjects[0], len(bodies[0]))
        return head + (b"\r\n" + head).join(bodies) + b"\r\n"
    both = zip(subjects, bodies, strict=True)
    return b"".join([b"PUB %b %d\r\n%b\r\n" % (to, len(body), body) for to, body in both if to])


def ack_prefix(channel: bytes) -> bytes:
    """Return how an Ack of a channel's message begins; the sequence follows."""
    return b"\x0a" + varint(len(channel)) + channel + b"\x10"


def ack_seq(encoded: bytes) -> int:
    """Return the sequence after the prefix; 0, which no message has, if it is malformed."""
    if 0 < len(encoded) < 5:
        raw = int.from_bytes(encoded, "little")
        if raw & 0x80808080 != 0x808080 >> 8 * (4 - len(encoded)):
            return 0
        return raw & 0x7F | raw >> 1 & 0x3F80 | raw >> 2 & 0x1FC000 | raw >> 3 & 0xFE00000
    seq = shift = 0
    last = len(encoded) - 1
    for at, byte in enumerate(encoded):
        if (byte > _SHORT) == (at == last) or shift > 56:
            return 0
        seq |= (byte & _SHORT) << shift
        shift += 7
    return seq


def deliveries(
    channel: bytes,
    seqs: Sequence[int],
    times: Sequence[int],
    replies: Sequence[bytes],
    datas: Sequence[bytes],
    redelivered: int = 0,
) -> list[bytes]:
    """Return messages as they follow `PUB <inbox> `: length, line end, MsgProto, line end."""
    low = _low()
    subject = b"\x12" + varint(len(channel)) + channel
    end = b"\x30\x01\x38" + varint(redelivered) if redelivered else b""
    out = []
    seq_above = ts_above = size_above = -1
    seq_high = ts_high = size_bytes = b""
    for seq, ts, reply, data in zip(seqs, times, replies, datas, strict=True):
        if seq >> 14 != seq_above:
            seq_above = seq >> 14
            seq_high = varint(seq_above)
        if ts >> 28 != ts_above:
            ts_above = ts >> 28
            ts_high = varint(ts_above)
        if len(data) != size_above:
            size_above = len(data)
            size_bytes = b"\x22" + varint(size_above) if size_above else b""
        body = b"\x08%b%b%b%b%b\x28%b%b%b%b" % (
            low[seq & _LOW] + seq_high if seq_above else varint(seq),
            subject,
            b"\x1a" + varint(len(reply)) + reply if reply else b"",
            size_bytes,
            data,
            low[ts & _LOW],
            low[ts >> 14 & _LOW],
            ts_high,
            end,
        )
        out.append(b"%d\r\n%b\r\n" % (len(body), body))
    return out


def payload_bytes(frames: Sequence[bytes]) -> int:
    """Return the total length of the messages in such frames."""
    return sum(map(len, frames)) - sum([frame.index(b"\r") + 4 for frame in frames])


@cache
def _low() -> list[bytes]:
    """Return the lowest fourteen bits of a longer varint, for each of their values."""
    return [bytes((n & _SHORT | 0x80, n >> 7 | 0x80)) for n in range(_LOW + 1)]
