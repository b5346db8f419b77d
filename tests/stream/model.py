"""A stream as simple as can be: a dict of messages and the rules said plainly, to hold the real one to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headwater.clock import DrivenClock
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.stream import Discard, Storage, StreamConfig

SECOND = 1_000_000_000
NEVER = -1


@dataclass
class Model:
    """What a stream should hold."""

    config: StreamConfig
    clock: DrivenClock
    messages: dict[int, Message] = field(default_factory=dict)
    last_seq: int = 0
    last_ts: int = 0
    empty_first_seq: int = 0
    ids: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    expires: dict[int, int] = field(default_factory=dict)

    # What it reports.

    @property
    def first_seq(self) -> int:
        return min(self.messages) if self.messages else self.empty_first_seq

    @property
    def size(self) -> int:
        return sum(map(self.size_of, self.messages.values()))

    @property
    def deleted(self) -> list[int]:
        if not self.messages:
            return []
        return [seq for seq in range(self.first_seq, self.last_seq + 1) if seq not in self.messages]

    def size_of(self, message: Message) -> int:
        payload = len(message.subject) + len(message.headers) + len(message.data)
        if self.config.storage is Storage.MEMORY:
            return 16 + payload
        return 30 + payload + (4 if message.headers else 0)

    def matching(self, patterns: Sequence[str], low: int = 0, high: int = 1 << 62) -> list[Message]:
        """Return the messages on these patterns, all if there are none, between the sequences, in order."""
        return [
            self.messages[seq]
            for seq in sorted(self.messages)
            if low <= seq <= high
            and (not patterns or any(matches(p, self.messages[seq].subject) for p in patterns))
        ]

    def counts(self) -> Counter[bytes]:
        return Counter(message.subject for message in self.messages.values())

    def last_seqs(self, patterns: Sequence[str], up_to: int) -> list[int]:
        newest = {message.subject: message.seq for message in self.matching(patterns, 0, up_to)}
        return sorted(newest.values())

    def seq_at(self, ts: int) -> int:
        later = [seq for seq in sorted(self.messages) if self.messages[seq].ts >= ts]
        return later[0] if later else self.last_seq + 1

    # What happens to it.

    def offer(self, items: Iterable[tuple[bytes, bytes, bytes]]) -> list[int | None]:
        """Take in (subject, headers, data); return the sequence acknowledged for each, None if refused."""
        now = max(self.clock.now_ns(), self.last_ts + 1)
        answers = []
        for offset, (subject, headers, data) in enumerate(items):
            answers.append(self._offer_one(subject, headers, data, now + offset))
        self._hold_limits()
        return answers

    def _offer_one(self, subject: bytes, headers: bytes, data: bytes, now: int) -> int | None:
        def header(name: bytes) -> bytes:
            return header_block.get(headers, name) or b""

        if b"Nats-Expected-" in headers:
            self._hold_limits()
        expected = header(b"Nats-Expected-Last-Subject-Sequence")
        last = max([m.seq for m in self.messages.values() if m.subject == subject], default=0)
        if expected and int(expected) != last:
            return None
        expected = header(b"Nats-Expected-Last-Sequence")
        if expected and int(expected) != self.last_seq:
            return None
        message_id = header(b"Nats-Msg-Id")
        if message_id in self.ids and self.ids[message_id][1] > now - self.config.duplicate_window:
            return self.ids[message_id][0]
        if not self._has_room(subject, headers, data):
            return None
        if header(b"Nats-Rollup") == b"all":
            self._hold_limits()
            self._empty()
        self.store(Message(self.last_seq + 1, now, subject, headers, data))
        limit = 1 if header(b"Nats-Rollup") == b"sub" else self.config.max_msgs_per_subject
        if limit > 0:
            self._keep_newest(subject, limit)
        return self.last_seq

    def _has_room(self, subject: bytes, headers: bytes, data: bytes) -> bool:
        config = self.config
        if config.discard is not Discard.NEW:
            return True
        on_subject = [m for m in self.matching(()) if m.subject == subject]
        replaces = 0 < config.max_msgs_per_subject <= len(on_subject)
        if replaces and config.discard_new_per_subject:
            return False
        if 0 < config.max_msgs <= len(self.messages) and not replaces:
            return False
        size = len(headers) + len(data)
        if not 0 < config.max_bytes <= self.size + size:
            return True
        small = config.max_msgs_per_subject <= 64
        return replaces and (not small or self.size_of(on_subject[0]) > size)

    def store(self, message: Message) -> None:
        """Take in a message as it is."""
        self.messages[message.seq] = message
        self.last_seq, self.last_ts = message.seq, message.ts
        message_id = header_block.get(message.headers, b"Nats-Msg-Id")
        if message_id:
            self.ids[message_id] = (message.seq, message.ts)
        ttl = header_block.get(message.headers, b"Nats-TTL")
        if ttl == b"never":
            self.expires[message.seq] = NEVER
        elif ttl:
            self.expires[message.seq] = message.ts + int(ttl) * SECOND

    def skip_to(self, last_seq: int) -> None:
        if last_seq > self.last_seq:
            self.last_seq = last_seq
            if not self.messages:
                self.empty_first_seq = last_seq + 1

    def remove(self, seqs: Iterable[int]) -> int:
        """Take out messages; return how many there were."""
        gone = [seq for seq in seqs if self.messages.pop(seq, None) is not None]
        if gone and not self.messages:
            self.empty_first_seq = self.last_seq + 1
        return len(gone)

    def _empty(self) -> None:
        self.messages.clear()
        self.empty_first_seq = self.last_seq + 1

    def purge(self, pattern: str, seq: int, keep: int) -> int:
        if not pattern and not keep and (not seq or seq > self.last_seq):
            purged = len(self.messages)
            self._empty()
            self.skip_to(seq - 1)
            return purged
        chosen = self.matching((pattern,) if pattern else (), 0, seq - 1 if seq else self.last_seq)
        return self.remove([message.seq for message in chosen[: max(0, len(chosen) - keep)]])

    def reconfigure(self, config: StreamConfig) -> None:
        self.config = config
        self._hold_limits()
        self.enforce()

    def enforce(self) -> None:
        if self.config.max_msgs_per_subject > 0:
            for subject in self.counts():
                self._keep_newest(subject, self.config.max_msgs_per_subject)
        self._hold_limits()

    def _keep_newest(self, subject: bytes, limit: int) -> None:
        seqs = sorted(message.seq for message in self.messages.values() if message.subject == subject)
        self.remove(seqs[: max(0, len(seqs) - limit)])

    def _hold_limits(self) -> None:
        config = self.config
        if config.discard is Discard.NEW:
            return  # what is there stays, even when the limits are lowered below it
        while 0 < config.max_msgs < len(self.messages) or 0 < config.max_bytes < self.size:
            self.remove([self.first_seq])

    def expire(self) -> int:
        now, age = self.clock.now_ns(), self.config.max_age
        old = [
            seq
            for seq, message in self.messages.items()
            if (age and message.ts <= now - age and self.expires.get(seq) != NEVER)
            or 0 < self.expires.get(seq, 0) <= now
        ]
        return self.remove(old)


def matches(pattern: str, subject: bytes) -> bool:
    """Return whether a subject matches a pattern."""
    wanted, tokens = pattern.split("."), subject.decode().split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return index < len(tokens)
        if index >= len(tokens) or token not in ("*", tokens[index]):
            return False
    return len(wanted) == len(tokens)
