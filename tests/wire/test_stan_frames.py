"""Tests of wire.stan_frames: what is cut and built by hand is what the protobuf library says."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from headwater.wire import stan_messages as wire
from headwater.wire.stan_frames import (
    ack_prefix,
    ack_seq,
    cut_publish,
    deliveries,
    frames_to,
    payload_bytes,
    places,
    varint,
)

NOW_NS = 1_790_000_000_123_456_789
texts = st.text(max_size=150)
datas = st.one_of(st.binary(max_size=40), st.integers(0, 40_000).map(lambda size: b"x" * size))


@given(texts, texts, texts, texts, datas, st.binary(max_size=150), st.binary(max_size=40))
@example("me", "g" * 22, "foo", "", b"x" * 128, b"conn", b"")
@example("me", "g" * 22, "foo", "", b"x" * (1 << 14), b"", b"")
def test_a_publish_is_cut_as_the_library_reads_it(
    client: str, guid: str, channel: str, reply: str, data: bytes, connection: bytes, sha: bytes
) -> None:
    message = wire.PubMsg(
        clientID=client,
        guid=guid,
        subject=channel,
        reply=reply,
        data=data,
        connID=connection,
        sha256=sha,
    )
    body = message.SerializeToString()
    where = places(body)
    cut = None if where is None else cut_publish(body, where)
    plain = client and guid and channel and data and not reply and not sha
    if plain and max(len(client.encode()), len(guid.encode()), len(channel.encode()), len(connection)) < 128:
        assert cut is not None
    if cut is None:
        return
    who = wire.PubMsg(clientID=client, connID=connection).SerializeToString()
    assert cut == (who, wire.PubAck(guid=guid).SerializeToString(), channel.encode(), data)


@given(st.binary(max_size=60))
@example(b"")
@example(b"\x0a\x01a\x12\x01g\x1a\x01c\x2a\x05ab")
@example(b"\x0a\x01a\x12\x01g\x1a\x01c\x2a\x80")
@example(b"\x0a\x01a\x12\x01g\x1a\x01c\x2a\x01a\x2a\x01b")
@example(b"\x0a\x01a\x12\x01g\x1a\x01c\x2a\x01a\x32\x05ab")
def test_what_is_cut_from_any_bytes_the_library_reads_in_the_same_way(body: bytes) -> None:
    where = places(body)
    if where is None:
        return
    cut = cut_publish(body, where)
    try:
        message = wire.decode(wire.PubMsg, body)
    except wire.MalformedError:
        # Only text that is no text: it is looked at once, where client and channel are looked up.
        assert not all(_is_text(part) for part in cut)
        return
    assert cut[1:] == (
        wire.PubAck(guid=message.guid).SerializeToString(),
        message.subject.encode(),
        message.data,
    )


def _is_text(part: bytes) -> bool:
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(st.integers(0, (1 << 63) - 1))
@example(127)
@example(128)
@example(1 << 14)
@example((1 << 21) - 1)
@example(1 << 21)
@example((1 << 28) - 1)
@example(1 << 28)
@example((1 << 63) - 1)
def test_the_sequence_of_an_ack_is_read(seq: int) -> None:
    body = wire.Ack(subject="foo.bar", sequence=seq).SerializeToString()
    prefix = ack_prefix(b"foo.bar")
    assert prefix[-1:] + varint(seq) == wire.Ack(sequence=seq).SerializeToString() or seq == 0
    if seq:
        assert body.startswith(prefix)
        assert ack_seq(body[len(prefix) :]) == seq


def test_an_ack_with_anything_else_behind_it_is_left_to_the_library() -> None:
    for encoded in (
        b"",
        b"\x80",
        b"\x01\x01",
        b"\x81\x01\x01",
        b"\x81\x80\x80\x80",
        b"\x01\x0a\x01x",
        b"\xff" * 10 + b"\x01",
    ):
        assert ack_seq(encoded) == 0


@given(
    st.lists(
        st.tuples(st.integers(1, (1 << 63) - 1), st.integers(0, NOW_NS), texts, datas), min_size=1, max_size=5
    ),
    st.integers(0, 300),
    st.sampled_from(["foo", "x" * 255]),
)
@example([(16383, NOW_NS, "", b"x"), (16384, NOW_NS, "", b"x"), (5, NOW_NS, "", b"")], 0, "foo")
def test_deliveries_are_what_the_library_writes(
    messages: list[tuple[int, int, str, bytes]], count: int, channel: str
) -> None:
    seqs, times, replies, bodies = (list(column) for column in zip(*messages, strict=True))
    frames = deliveries(channel.encode(), seqs, times, [r.encode() for r in replies], bodies, count)
    payload = 0
    for frame, (seq, ts, reply, data) in zip(frames, messages, strict=True):
        size, _, rest = frame.partition(b"\r\n")
        assert rest.endswith(b"\r\n")
        body = rest[:-2]
        assert int(size) == len(body)
        payload += len(body)
        decoded = wire.MsgProto.FromString(body)
        assert (decoded.sequence, decoded.timestamp, decoded.subject) == (seq, ts, channel)
        assert (decoded.reply, decoded.data) == (reply, data)
        assert (decoded.redelivered, decoded.redeliveryCount) == (count > 0, count)
    assert payload_bytes(frames) == payload


@given(
    st.lists(
        st.tuples(st.sampled_from([b"", b"a", b"bb"]), st.sampled_from([b"1", b"22", b"33"])), min_size=1
    )
)
def test_answers_go_each_to_its_subject(answers: list[tuple[bytes, bytes]]) -> None:
    wanted = b"".join([b"PUB %b %d\r\n%b\r\n" % (to, len(body), body) for to, body in answers if to])
    assert frames_to([to for to, _ in answers], [body for _, body in answers]) == wanted
