"""Tests of stan.batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from headwater.stan.batches import Batches
from headwater.stan.channel import Channel
from headwater.wire.frames import Frame
from headwater.wire.stan_messages import PubAck, PubMsg


@dataclass(frozen=True)
class Named:
    """What a batch needs of a channel."""

    subject: bytes


def publish(client: str, channel: str, number: int, data: bytes, reply: str = "") -> Frame:
    body = PubMsg(
        clientID=client, guid=f"g{number}", subject=channel, data=data, reply=reply, connID=client.encode()
    ).SerializeToString()
    return f"pub.{channel}".encode(), b"to.%d" % number, b"", body


publishes = st.lists(
    st.tuples(
        st.sampled_from(["me", "it"]),
        st.sampled_from(["foo", "bar"]),
        st.integers(10, 99),
        st.sampled_from([b"", b"x", b"y", b"long" * 50]),
        st.sampled_from(["", "", "", "there"]),
    ),
    max_size=30,
)


@given(publishes)
def test_every_publish_is_taken_as_it_is_however_it_looks(
    wanted: list[tuple[str, str, int, bytes, str]],
) -> None:
    batches = Batches()
    channels = {name: cast("Channel", Named(name.encode())) for name in ("foo", "bar")}
    frames = [publish(*one) for one in wanted]
    at = looked_at = 0
    while at < len(frames):
        if not batches.take(frames[at]):
            looked_at += 1
            batches.add(channels[wanted[at][1]], frames[at], PubMsg.FromString(frames[at][3]))
        at = batches.take_alike(frames, at + 1)
    taken = batches.taken()
    for name, channel in channels.items():
        ours = [one for one in wanted if one[1] == name]
        if not ours:
            assert channel not in taken
            continue
        batch = taken[channel]
        assert [(subject, data) for subject, _, _, data in batch.items] == [
            (name.encode(), one[3]) for one in ours
        ]
        assert [bool(headers) for _, _, headers, _ in batch.items] == [bool(one[4]) for one in ours]
        assert batch.replies == [b"to.%d" % one[2] for one in ours]
        assert batch.acks == [PubAck(guid=f"g{one[2]}").SerializeToString() for one in ours]
    if all(data and not reply for _, _, _, data, reply in wanted):
        assert looked_at <= 4, "one look for each client and channel"


def test_what_is_known_is_forgotten_with_the_socket_read() -> None:
    batches = Batches()
    frame = publish("me", "foo", 10, b"x")
    batches.add(cast("Channel", Named(b"foo")), frame, PubMsg.FromString(frame[3]))
    assert batches.take_alike([frame], 0) == 1
    assert len(batches.taken()) == 1
    assert batches.take_alike([frame], 0) == 0
    assert not batches.take(frame)
    assert batches.taken() == {}
