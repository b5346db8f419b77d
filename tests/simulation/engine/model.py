"""What clients were promised: a model of each stream, consumer and copy, by the answers that clients got."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from simulation.engine.bus import matches
from simulation.engine.world import BrokenPromiseError, World

SECOND = 1_000_000_000
LATE_S = 120.0
"""So long after its client gave up a request may still be done, if the engine lives."""
Json = dict[str, Any]


@dataclass(eq=False)
class Sent:
    """One message that was offered to a stream."""

    data: bytes
    subject: bytes
    headers: bytes
    sent_s: float
    clock_ns: int
    ttl_ns: int = 0
    rolls_up: str = ""
    seq: int = 0
    acked_s: float = math.inf
    is_refused: bool = False
    may_repeat: bool = False
    """Whether it was offered twice, so far apart by the clock that both may be stored."""


@dataclass(eq=False)
class Purge:
    """A purge that was asked for."""

    pattern: bytes
    asked_s: float
    life: int
    done_s: float = math.inf
    is_confirmed: bool = False


class StreamModel:
    """What is known of one stream from its creation on."""

    def __init__(self, world: World, config: Json) -> None:
        self.world = world
        self.config = config
        self.name: str = config["name"]
        self.sent: dict[bytes, Sent] = {}
        self.stored: dict[int, Sent] = {}
        """Acknowledged, by sequence."""
        self.seen: dict[int, bytes] = {}
        """The data of what any reader was served, by sequence."""
        self.seen_at: dict[bytes, int] = {}
        self.deletable: set[int] = set()
        """Asked to be deleted."""
        self.deleted: dict[int, float] = {}
        """When each message was confirmed as deleted."""
        self.purges: list[Purge] = []
        self.consumers: list[ConsumerModel] = []
        self.copies: list[CopyModel] = []
        """Who copies from here and so keeps messages of a queue."""
        self.is_copy = bool(config.get("sources") or config.get("mirror"))
        self.is_doubtful = False
        """Whether it may have been deleted or made again, which ends all promises but that of content."""

    @property
    def keeps_by_limits(self) -> bool:
        """Return whether messages stay after all consumers have acknowledged them."""
        return bool(self.config.get("retention", "limits") == "limits")

    # What clients were answered.

    def offered(self, message: Sent) -> None:
        """Take note of an offer."""
        self.sent[message.data] = message

    def acknowledged(self, message: Sent, seq: int) -> None:
        """Take note of an acknowledgement."""
        known = self.stored.get(seq)
        if known is not None and known.data != message.data:
            self.fail(f"sequence {seq} was given to {known.data[:40]!r} and to {message.data[:40]!r}")
        if message.seq and message.seq != seq and not message.may_repeat:
            self.fail(f"{message.data[:40]!r} was stored at {message.seq} and again at {seq}")
        if self.seen.get(seq, message.data) != message.data:
            self.fail(f"sequence {seq} was served as {self.seen[seq][:40]!r}, acked as {message.data[:40]!r}")
        message.seq = seq
        message.acked_s = self.world.loop.time()
        self.stored[seq] = message

    def served(self, seq: int, subject: bytes, headers: bytes, data: bytes, asked_s: float = 0.0) -> None:
        """Hold a message that anybody was served against what was offered and acknowledged.

        What was asked for before a deletion was confirmed may be answered after it.
        """
        known = self.stored.get(seq)
        if known is not None and known.data != data:
            self.fail(f"{seq} was acknowledged as {known.data[:40]!r} and is served as {data[:40]!r}")
        if self.seen.get(seq, data) != data:
            self.fail(f"{seq} was served as {self.seen[seq][:40]!r} and is {data[:40]!r} now")
        message = self.sent.get(data)
        if message is None:
            if not self.is_copy:
                self.fail(f"{seq} is served as {data[:60]!r}, which nobody offered")
        else:
            if message.subject != subject:
                self.fail(f"{seq} was offered on {message.subject!r} and is served on {subject!r}")
            if message.headers != headers:
                self.fail(f"{seq} was offered with {message.headers!r} and is served with {headers!r}")
            first = self.seen_at.setdefault(data, seq)
            if first != seq and not message.may_repeat:
                self.fail(f"{data[:40]!r} is stored at {first} and at {seq}")
        if self.deleted.get(seq, math.inf) < asked_s and not self.is_doubtful:
            self.fail(f"{seq} was deleted and is served")
        self.seen[seq] = data
        if known is None:
            # Readers are served what is durable: from now on it counts as acknowledged.
            now_s = self.world.loop.time()
            if message is None or (message.seq and message.seq != seq):
                message = Sent(data, subject, headers, now_s, self.world.now_ns(), may_repeat=True)
            message.seq, message.acked_s = seq, now_s
            self.stored[seq] = message

    # What may be gone.

    def why_gone(self, seq: int) -> str:
        """Return by which rule an acknowledged message may be gone, or nothing if there is none."""
        message, config = self.stored[seq], self.config
        if self.is_doubtful:
            return "the stream may have been made again"
        if seq in self.deletable:
            return "deleted"
        if self.may_be_purged(message):
            return "purged"
        if config.get("storage") == "memory":
            return "memory"
        if 0 < config.get("max_msgs", -1) <= self._newer(seq):
            return "max_msgs"
        if 0 < config.get("max_msgs_per_subject", -1) <= self._newer(seq, message.subject):
            return "max_msgs_per_subject"
        age_ns = self.world.latest_ns - message.clock_ns
        if config.get("max_age") and age_ns >= config["max_age"]:
            return "max_age"
        if message.ttl_ns and age_ns >= message.ttl_ns:
            return "ttl"
        if any(self._rolls_up(other, message) for other in self.sent.values()):
            return "rollup"
        return self._why_released(message)

    def _why_released(self, message: Sent) -> str:
        if self.keeps_by_limits:
            return ""
        takers = [c for c in self.consumers if c.takes(message.subject)]
        if all(message.seq in c.acks_sent for c in takers) and all(
            copy.has(self, message) for copy in self.copies
        ):
            return "acknowledged by all"
        return ""

    def may_be_purged(self, message: Sent) -> bool:
        """Return whether a purge may have removed a message, wherever it was stored."""
        return any(self._may_have_purged(purge, message) for purge in self.purges)

    def _may_have_purged(self, purge: Purge, message: Sent) -> bool:
        end = min(purge.done_s, purge.asked_s + LATE_S, self.world.deaths.get(purge.life, math.inf))
        return matches(purge.pattern, message.subject) and message.sent_s <= end

    def _newer(self, seq: int, subject: bytes | None = None) -> int:
        """Return how many messages may have been stored after a sequence."""
        count = sum(
            1
            for other, data in {**{s: m.data for s, m in self.stored.items()}, **self.seen}.items()
            if other > seq and (subject is None or (data in self.sent and self.sent[data].subject == subject))
        )
        return count + sum(
            1
            for message in self.sent.values()
            if not message.seq and message.data not in self.seen_at and subject in (None, message.subject)
        )

    def _rolls_up(self, other: Sent, message: Sent) -> bool:
        if not other.rolls_up or other is message or (other.seq and other.seq < message.seq):
            return False
        return other.rolls_up == "all" or other.subject == message.subject

    def must_be_gone(self, seq: int) -> str:
        """Return why a message may not be there any more, or nothing if it may."""
        if self.is_doubtful:
            return ""
        if seq in self.deleted:
            return "deleted"
        message = self.stored.get(seq)
        if message is not None:
            for purge in self.purges:
                if (
                    purge.is_confirmed
                    and matches(purge.pattern, message.subject)
                    and message.acked_s < purge.asked_s
                ):
                    return "purged"
        return ""

    def fail(self, what: str) -> None:
        """Say that a promise is broken."""
        raise BrokenPromiseError(f"stream {self.name}: {what}")


@dataclass(eq=False)
class ConsumerModel:
    """What one consumer was sent and said."""

    stream: StreamModel
    name: str
    filter: bytes = b">"
    acks_all: bool = False
    delivered: Counter[int] = field(default_factory=Counter)
    acks_sent: set[int] = field(default_factory=set)
    """What was said to be done with, confirmed or not."""
    settled: dict[int, str] = field(default_factory=dict)
    """Confirmed as done with, and how."""
    is_doubtful: bool = False

    def takes(self, subject: bytes) -> bool:
        """Return whether it takes messages of a subject."""
        return matches(self.filter, subject)

    def got(self, seq: int, subject: bytes, headers: bytes, data: bytes) -> None:
        """Take a delivery."""
        self.stream.served(seq, subject, headers, data)
        if not self.takes(subject):
            self.fail(f"{seq} on {subject!r} was delivered, the filter is {self.filter!r}")
        if seq in self.settled and not self.is_doubtful:
            self.fail(f"{seq} was confirmed ({self.settled[seq]}) and is delivered again")
        self.delivered[seq] += 1

    def says_done(self, seq: int) -> None:
        """Take note of an acknowledgement on its way."""
        self.acks_sent.update(self._meant(seq))

    def is_confirmed(self, seq: int, how: str) -> None:
        """Take note of an acknowledgement that was confirmed."""
        for settled in self._meant(seq):
            self.settled[settled] = how

    def _meant(self, seq: int) -> list[int]:
        return [s for s in self.delivered if s <= seq] if self.acks_all else [seq]

    def fail(self, what: str) -> None:
        """Say that a promise is broken."""
        raise BrokenPromiseError(f"consumer {self.stream.name}/{self.name}: {what}")


@dataclass(eq=False)
class CopyModel:
    """A mirror or one source of a stream: what of its origin it must have."""

    origin: StreamModel
    target: StreamModel
    is_mirror: bool
    filter: bytes = b">"
    subject_from: bytes = b""
    subject_to: bytes = b""
    held: dict[bytes, int] = field(default_factory=dict)
    """Data that the target was found to hold, with its sequence there."""

    def has(self, origin: StreamModel, message: Sent) -> bool:
        """Return whether the target was found to hold a message, or need not."""
        return not matches(self.filter, message.subject) or message.data in self.held

    def subject_at_target(self, subject: bytes) -> bytes:
        """Return the subject under which the target has a message."""
        if self.subject_from and subject.startswith(self.subject_from):
            return self.subject_to + subject[len(self.subject_from) :]
        return subject
