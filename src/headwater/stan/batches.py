"""The publishes of one socket read by channel, of which only a few are decoded.

Clients and open channels do not change within a socket read. So only the first publish of a client to a
channel is decoded; others with the same bytes around guid and data are accepted without decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headwater.model import headers as header_block
from headwater.stan.channel import Channel
from headwater.stan.sender import REPLY_HEADER
from headwater.wire.frames import Frame
from headwater.wire.stan_frames import Places, cut_publish, places, pub_ack
from headwater.wire.stan_messages import PubAck


class ChannelBatch:
    """The publishes of one socket read to one channel."""

    def __init__(self, subject: bytes) -> None:
        self.subject = subject
        self.items: list[Frame] = []
        self.replies: list[bytes] = []
        """The reply subjects of the acknowledgements."""
        self.acks: list[bytes] = []
        """The PubAcks for success."""

    def add(self, headers: bytes, data: bytes, reply: bytes, ack: bytes) -> None:
        """Add a publish."""
        self.items.append((self.subject, b"", headers, data))
        self.replies.append(reply)
        self.acks.append(ack)


class PublishTemplate(NamedTuple):
    """The bytes that publishes of the same length share if they differ only in guid and data."""

    subject: bytes
    head: bytes
    guid_at: int
    middle: bytes
    middle_at: int
    data_at: int
    end: int
    tail: bytes
    batch: ChannelBatch


class Batches:
    """Collects publishes by channel."""

    def __init__(self) -> None:
        self._batches: dict[Channel, ChannelBatch] = {}
        """The publishes of this socket read, by channel."""
        self._by_name: dict[bytes, ChannelBatch] = {}
        """The same by the channel's subject."""
        self._known: set[bytes] = set()
        """The encoded client and connection ids of checked publishers."""
        self._layouts: dict[int, PublishTemplate] = {}
        """A checked publish by the length of its body, to compare others with."""

    def take_alike(self, frames: Sequence[Frame], start: int) -> int:
        """Collect publishes that match earlier ones; return the index of the first that does not."""
        layouts = self._layouts
        for at in range(start, len(frames)):
            subject, reply, _, body = frames[at]
            layout = layouts.get(len(body))
            if layout is None:
                return at
            known, head, guid_at, middle, middle_at, data_at, end, tail, batch = layout
            if not (
                subject == known
                and body.startswith(head)
                and body.startswith(middle, middle_at)
                and body.endswith(tail)
            ):
                return at
            batch.add(b"", body[data_at:end], reply, pub_ack(body[guid_at:middle_at]))
        return len(frames)

    def take(self, frame: Frame) -> bool:
        """Collect a publish if its client and channel are known; return whether they are."""
        where = places(frame[3])
        if where is None:
            return False
        who, ack, name, data = cut_publish(frame[3], where)
        batch = self._by_name.get(name)
        if batch is None or who not in self._known:
            return False
        batch.add(b"", data, frame[1], ack)
        self._layouts[len(frame[3])] = _layout(frame, where, batch)
        return True

    def add(self, channel: Channel, frame: Frame, message: Any) -> None:
        """Collect a decoded publish, and use it as a template for others."""
        batch = self._batches.get(channel)
        if batch is None:
            batch = self._batches[channel] = ChannelBatch(channel.subject)
        headers = b""
        if message.reply:
            headers = header_block.build([(REPLY_HEADER, message.reply.encode())])
        batch.add(headers, message.data, frame[1], PubAck(guid=message.guid).SerializeToString())
        where = places(frame[3])
        if where is not None:
            who, _, name, _ = cut_publish(frame[3], where)
            self._known.add(who)
            self._by_name[name] = batch
            self._layouts[len(frame[3])] = _layout(frame, where, batch)

    def taken(self) -> dict[Channel, ChannelBatch]:
        """Return the collected publishes, and clear them."""
        batches, self._batches = self._batches, {}
        self._by_name.clear()
        self._known.clear()
        self._layouts.clear()
        return batches


def _layout(frame: Frame, where: Places, batch: ChannelBatch) -> PublishTemplate:
    body = frame[3]
    guid_at, subject_at, data_at, end = where
    return PublishTemplate(
        frame[0],
        body[: guid_at + 1],
        guid_at,
        body[subject_at:data_at],
        subject_at,
        data_at,
        end,
        body[end:],
        batch,
    )
