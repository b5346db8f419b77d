"""Which messages of a stream are schedules, when each is due, and what is published then.

A schedule is the newest message on its subject that carries `Nats-Schedule`. The message it publishes names
it and says when it is due next, so replaying the log gives the same index.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyroaring import BitMap64

from headwater.errors import ApiError, api_error
from headwater.model import headers as header_block
from headwater.model.subject import collides, valid_literal
from headwater.model.times import parse_time
from headwater.stream.timing.schedule import Schedule, zone_of
from headwater.stream.timing.time_to_live import parse_ttl

PURGE = b"purge"
"""The value of `Nats-Schedule-Next` that takes the schedule out."""
_MARK = b"\r\nNats-Schedule"
_PRUNE_LEAST = 1024


class Due(NamedTuple):
    """A schedule: when it is due, its sequence and its subject."""

    at_ns: int
    seq: int
    subject: bytes


class ScheduleIndex:
    """The schedules of a stream, soonest first."""

    def __init__(self) -> None:
        self._by_subject: dict[bytes, Due] = {}
        """The one schedule of each subject."""
        self._subjects: dict[int, bytes] = {}
        """The subject of each schedule, by sequence."""
        self._seqs = BitMap64()
        """The sequences of all schedules, to intersect with removals."""
        self._heap: list[Due] = []
        """May hold entries that a later one of the subject replaced."""

    def __len__(self) -> int:
        return len(self._by_subject)

    def note(self, seq: int, ts: int, subject: bytes, headers: bytes) -> None:
        """Record a stored message: a schedule, the end of one, or what one has published."""
        found = _MARK in headers
        scheduler = header_block.get(headers, b"Nats-Scheduler") if found else None
        due_ns = due_after(headers, ts, ts) if found else None
        if due_ns is not None:
            self._put(Due(due_ns, seq, subject))
        elif not scheduler:
            self._drop(subject)
        next_time = header_block.get_str(headers, b"Nats-Schedule-Next") if scheduler else None
        next_ns = parse_time(next_time) if next_time else None
        if next_ns is not None and scheduler:
            self.postpone(scheduler, next_ns)

    def note_run(
        self, seqs: Sequence[int], ts: Sequence[int], subjects: Sequence[bytes], headers: Sequence[bytes]
    ) -> None:
        """Record stored messages."""
        for seq, stamp, subject, block in zip(seqs, ts, subjects, headers, strict=True):
            self.note(seq, stamp, subject, block)

    def postpone(self, subject: bytes, at_ns: int) -> None:
        """Set another due time for the schedule on a subject, if there is one."""
        old = self._by_subject.get(subject)
        if old is not None:
            self._put(Due(at_ns, old.seq, subject))

    def remove(self, gone: BitMap64) -> None:
        """Forget schedules whose messages were removed."""
        for seq in self._seqs & gone:
            self._drop(self._subjects[seq])

    def remove_on(self, subject: bytes) -> None:
        """Forget the schedule on a subject."""
        self._drop(subject)

    def retain(self, live: BitMap64) -> None:
        """Forget schedules whose messages are not among these."""
        self.remove(self._seqs - live)

    def clear(self) -> None:
        """Forget everything."""
        self._by_subject.clear()
        self._subjects.clear()
        self._seqs.clear()
        self._heap.clear()

    def next_ns(self) -> int | None:
        """Return when the soonest one is due."""
        while self._heap and not self.holds(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0].at_ns if self._heap else None

    def due(self, now_ns: int, limit: int) -> list[Due]:
        """Return at most `limit` schedules that are due, by sequence; each stays until postponed or gone."""
        # A schedule that was postponed twice may be in the heap twice.
        due: set[Due] = set()
        while len(due) < limit and (at_ns := self.next_ns()) is not None and at_ns <= now_ns:
            due.add(heapq.heappop(self._heap))
        for entry in due:
            heapq.heappush(self._heap, entry)
        return sorted(due, key=lambda entry: entry.seq)

    def seq_on(self, subject: bytes) -> int:
        """Return the sequence of the schedule on a subject, 0 if there is none."""
        entry = self._by_subject.get(subject)
        return entry.seq if entry else 0

    def holds(self, entry: Due) -> bool:
        """Return whether the schedule is still as it was."""
        return self._by_subject.get(entry.subject) == entry

    def _put(self, entry: Due) -> None:
        self._drop(entry.subject)
        self._by_subject[entry.subject] = entry
        self._subjects[entry.seq] = entry.subject
        self._seqs.add(entry.seq)
        heapq.heappush(self._heap, entry)
        if len(self._heap) > max(_PRUNE_LEAST, 2 * len(self._by_subject)):
            self._heap = list(self._by_subject.values())
            heapq.heapify(self._heap)

    def _drop(self, subject: bytes) -> None:
        entry = self._by_subject.pop(subject, None)
        if entry is not None:
            del self._subjects[entry.seq]
            self._seqs.remove(entry.seq)

    def dump(self) -> list[tuple[int, int, bytes]]:
        """Return what a checkpoint must keep."""
        return [(entry.at_ns, entry.seq, entry.subject) for entry in self._by_subject.values()]

    def restore(self, entries: list[tuple[int, int, bytes]]) -> None:
        """Take back what `dump` returned."""
        for at_ns, seq, subject in entries:
            self._put(Due(at_ns, seq, subject))


class Fired(NamedTuple):
    """What a schedule publishes."""

    target: bytes
    headers: bytes
    next_ns: int | None
    """When the schedule is due again; None if it goes."""


def fired(entry: Due, headers: bytes, content: bytes, now_ns: int) -> Fired | None:
    """Return what a schedule with these headers publishes; `content` is the block of what it sends on.

    None if the schedule is invalid.
    """
    schedule, target = _schedule(headers), header_block.get(headers, b"Nats-Schedule-Target")
    if schedule is None or not target:
        return None
    next_ns = schedule.next_ns(entry.at_ns, now_ns) if schedule.repeats else None
    if schedule.repeats and next_ns is None:
        return None
    block = content
    for prefix in (b"Nats-Schedule", b"Nats-Expected-"):
        block = header_block.remove_prefix(block, prefix)
    for name in (b"Nats-Msg-Id", b"Nats-TTL", b"Nats-Rollup"):
        block = header_block.remove(block, name)
    block = header_block.add(block, b"Nats-Scheduler", entry.subject)
    following = PURGE if next_ns is None else schedule.format(next_ns).encode()
    block = header_block.add(block, b"Nats-Schedule-Next", following)
    for name in (b"TTL", b"Rollup"):
        value = header_block.get(headers, b"Nats-Schedule-" + name)
        if value:
            block = header_block.add(block, b"Nats-" + name, value)
    return Fired(target, block, next_ns)


def due_after(headers: bytes, ts: int, now_ns: int) -> int | None:
    """Return when the schedule that a message carries is due after a time; None if it carries none."""
    schedule = _schedule(headers)
    return schedule.next_ns(ts, now_ns) if schedule else None


def _schedule(headers: bytes) -> Schedule | None:
    try:
        return parse_schedule(headers)
    except ApiError:
        return None


def parse_schedule(headers: bytes) -> Schedule | None:
    """Return the schedule that a message carries, None if none; raise if it is invalid."""
    name = header_block.get(headers, b"Nats-Schedule-Time-Zone")
    zone = zone_of(name.decode(errors="replace")) if name else None
    if name is not None and zone is None:
        raise api_error("message_schedules_time_zone_invalid")
    pattern = header_block.get(headers, b"Nats-Schedule")
    if not pattern:
        return None
    schedule = Schedule.parse(pattern.decode(errors="replace"), zone)
    if schedule is None:
        raise api_error("message_schedules_pattern_invalid")
    return schedule


IsSchedule = Callable[[bytes], bool | None]
"""Says whether the newest message of a subject is a schedule, None if there is none."""


class ScheduleRules:
    """Whether a message may schedule another, or end a schedule, on one stream."""

    def __init__(self, subjects: Sequence[str], *, allowed: bool, with_ttl: bool) -> None:
        self._subjects = subjects
        self._allowed = allowed
        self._with_ttl = with_ttl

    def check(self, subject: bytes, headers: bytes, now_ns: int, is_schedule: IsSchedule) -> bytes:
        """Return the headers to store: a schedule replaces the one before it. Raise if refused."""
        if _MARK not in headers:
            return headers
        try:
            schedule = parse_schedule(headers)
            if schedule is not None and schedule.next_ns(now_ns, now_ns) is None:
                raise api_error("message_schedules_pattern_invalid")
        except ApiError:
            if not self._allowed:
                raise api_error("message_schedules_disabled") from None
            raise
        if schedule is not None:
            headers = self._check_schedule(subject, headers)
        self._check_next(subject, headers, is_schedule)
        return headers

    def _check_schedule(self, subject: bytes, headers: bytes) -> bytes:
        get = header_block.get
        if not self._allowed:
            raise api_error("message_schedules_disabled")
        self._check_ttl(get(headers, b"Nats-Schedule-TTL"))
        if get(headers, b"Nats-Schedule-Rollup") not in (None, b"", b"sub"):
            raise api_error("message_schedules_rollup_invalid")
        if get(headers, b"Nats-Schedule-TTL") and not self._with_ttl:
            raise api_error("message_ttl_disabled")
        target = get(headers, b"Nats-Schedule-Target") or b""
        source = get(headers, b"Nats-Schedule-Source")
        if target == subject or not _is_literal(target):
            raise api_error("message_schedules_target_invalid")
        if source and (source in (target, subject) or not _is_literal(source)):
            raise api_error("message_schedules_source_invalid")
        if not self._takes(target):
            raise api_error("message_schedules_target_invalid")
        if source and not self._takes(source):
            raise api_error("message_schedules_source_invalid")
        rollup = get(headers, b"Nats-Rollup")
        if not rollup:
            return header_block.add(headers, b"Nats-Rollup", b"sub")
        if rollup.lower() != b"sub":
            raise api_error("message_schedules_rollup_invalid")
        return headers

    def _check_ttl(self, value: bytes | None) -> None:
        try:
            parse_ttl(value or b"")
        except ApiError:
            raise api_error("message_schedules_ttl_invalid") from None

    def _takes(self, subject: bytes) -> bool:
        """Return whether the stream takes messages on this subject."""
        name = subject.decode()
        return any(collides(taken, name) for taken in self._subjects)

    def _check_next(self, subject: bytes, headers: bytes, is_schedule: IsSchedule) -> None:
        """Check a message that ends a schedule."""
        following = header_block.get(headers, b"Nats-Schedule-Next")
        scheduler = header_block.get(headers, b"Nats-Scheduler") or b""
        if not following:
            if scheduler:
                raise api_error("message_schedules_scheduler_invalid")
            return
        if following != PURGE or scheduler == subject or not _is_literal(scheduler):
            raise api_error("message_schedules_scheduler_invalid")
        if not self._allowed:
            raise api_error("message_schedules_disabled")
        if is_schedule(scheduler) is False:
            raise api_error("message_schedules_scheduler_invalid")


def _is_literal(subject: bytes) -> bool:
    try:
        return valid_literal(subject.decode())
    except UnicodeDecodeError:
        return False


def purged_by(headers: bytes) -> bytes:
    """Return the subject of the schedule that a stored message ends, empty if none."""
    if header_block.get(headers, b"Nats-Schedule-Next") != PURGE:
        return b""
    return header_block.get(headers, b"Nats-Scheduler") or b""
