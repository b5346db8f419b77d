"""The changes that become durable with one sync, and the answers that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from headwater.errors import ApiError
from headwater.stream.head import HeadEntry
from headwater.wire.pub_ack import PubAcks


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer to publishers: consecutive sequences, or one with further fields, or an error."""

    replies: Sequence[bytes]
    first_seq: int = 0
    more: Mapping[str, object] = field(default_factory=dict)
    error: ApiError | None = None
    body: bytes | None = None
    """An answer of another form, if it is not None."""

    def frames(self, acks: PubAcks) -> bytes:
        if self.error is not None:
            return acks.error(self.replies[0], self.error)
        if self.body is not None:
            return acks.other(self.replies[0], self.body)
        if self.more:
            return acks.one(self.replies[0], self.first_seq, self.more)
        return acks.run(self.replies, self.first_seq)


class Group:
    """Encoded batches in order, and the answers to send once they are synced."""

    def __init__(self) -> None:
        self.encoded: list[bytes] = []
        """The bytes of each batch, as the log writes them."""
        self.entries: list[tuple[int, HeadEntry]] = []
        """Entries of the head, by the index of their batch."""
        self.nbytes = 0
        """The size of all batches."""
        self.last_seq = 0
        """The last sequence of the stream once this is durable."""
        self.upstreams: dict[str, bytes] = {}
        """What is known of upstreams once this is durable."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the group is durable; fails if it cannot be."""
        self.after: list[bytes] = []
        """Frames to send once durable that are no answers, such as republished messages."""
        self._answers: list[_Answer] = []
        """In the order of the publishes; sent once the group is durable."""

    def __bool__(self) -> bool:
        return bool(self.encoded or self._answers or self.after)

    def add(self, encoded: bytes, entry: HeadEntry | None = None) -> None:
        """Add one change."""
        if entry is not None:
            self.entries.append((len(self.encoded), entry))
        self.encoded.append(encoded)
        self.nbytes += len(encoded)

    def acknowledge_run(self, replies: Sequence[bytes], first_seq: int) -> None:
        """Acknowledge consecutive sequences."""
        self._answers.append(_Answer(replies, first_seq))

    def acknowledge(self, reply: bytes, seq: int, more: Mapping[str, object]) -> None:
        """Acknowledge one message, with further fields such as `duplicate`."""
        if reply:
            self._answers.append(_Answer((reply,), seq, more))

    def hold(self, reply: bytes) -> None:
        """Answer that a message waits for the rest of its batch."""
        if reply:
            self._answers.append(_Answer((reply,), body=b""))

    def answer(self, reply: bytes, body: Mapping[str, object]) -> None:
        """Answer with the status of a batch."""
        self._answers.append(_Answer((reply,), body=msgspec.json.encode(body)))

    def refuse(self, reply: bytes, error: ApiError) -> None:
        """Refuse one message, after the answers to the messages before it."""
        if reply:
            self._answers.append(_Answer((reply,), error=error))

    def replies(self) -> set[bytes]:
        """Return the reply subjects that the group answers."""
        return {reply for answer in self._answers for reply in answer.replies}

    def answers(self, acks: PubAcks) -> bytes:
        """Return the frames to send now that the group is durable."""
        return b"".join([*(answer.frames(acks) for answer in self._answers), *self.after])

    def refusals(self, acks: PubAcks, error: ApiError) -> bytes:
        """Return the frames to send when the group could not be made durable."""
        return b"".join(
            acks.error(reply, answer.error or error)
            for answer in self._answers
            for reply in answer.replies
            if reply
        )
