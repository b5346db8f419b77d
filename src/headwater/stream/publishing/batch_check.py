"""Whether the messages of a batch may be stored together, each checked as if those before it were stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from headwater.errors import ApiError, api_error
from headwater.model import headers as header_block
from headwater.model.stream import Discard, StreamConfig
from headwater.stream.ledger import Ledger
from headwater.stream.publishing.admission import MAX_HEADER_BYTES, PLAIN, Admission, Admitted
from headwater.stream.publishing.counter import CounterTotal, CounterTotals, body_of
from headwater.stream.publishing.fast_batch import DuplicateError
from headwater.stream.timing.schedules import parse_schedule, purged_by
from headwater.stream.timing.time_to_live import parse_ttl

_LAST_ID = b"Nats-Expected-Last-Msg-Id"


class Checked(NamedTuple):
    """A message that may be stored with the rest."""

    subject: bytes
    data: bytes
    admitted: Admitted


class BatchCheck:
    """The checks of one batch, in nats-server's order, which is not that of single messages."""

    def __init__(
        self,
        config: StreamConfig,
        ledger: Ledger,
        admission: Admission,
        counters: CounterTotals | None,
        last_of: Callable[[bytes], int],
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._admission = admission
        self._counters = counters
        self._last_of = last_of
        """Returns the newest sequence on the subjects that a pattern matches."""
        self._count = 0
        """How many messages of the batch were checked; the others below count the same ones."""
        self._size = 0
        """What the checked messages of the batch will add to the size of the stream."""
        self._subjects: Counter[bytes] = Counter()
        """How many messages of the batch are on each subject."""
        self._schedules: dict[bytes, bool] = {}
        """Whether the newest message of the batch on a subject is a schedule."""
        self._totals: dict[bytes, CounterTotal] = {}
        """The counters after the messages of the batch so far."""
        self._ids: set[bytes] = set()
        """The message ids in the batch."""
        self._expected: dict[bytes, int] = {}
        """The last sequence of each pattern that the batch has asked for."""

    def check_in_batch(self, subject: bytes, headers: bytes, data: bytes, now_ns: int) -> Checked:
        """Return a message of an atomic batch in its stored form; raise why the batch is refused."""
        if header_block.get(headers, _LAST_ID):
            raise api_error("atomic_publish_unsupported_header_batch", header=_LAST_ID.decode())
        try:
            return self.check(subject, headers, data, now_ns)
        except DuplicateError:
            raise api_error("atomic_publish_contains_duplicate_message") from None

    def check_unless_known(self, subject: bytes, headers: bytes, data: bytes, now_ns: int) -> Checked | None:
        """Return a message of a bulk write as it is to be stored, None if its id is known already."""
        if header_block.get(headers, _LAST_ID):
            raise api_error("atomic_publish_unsupported_header_batch", header=_LAST_ID.decode())
        if not self._ledger.dedupe.window_ns:
            self._ids.clear()
        try:
            return self.check(subject, headers, data, now_ns)
        except DuplicateError:
            return None

    def check(self, subject: bytes, headers: bytes, data: bytes, now_ns: int) -> Checked:
        """Return the message in its stored form; raise the ApiError that refuses it, or DuplicateError."""
        admitted = PLAIN
        if headers:
            admitted = self._check_alone(headers, data, now_ns)
        if self._config.allow_msg_counter:
            admitted, data = self._count_up(subject, admitted)
        if headers:
            admitted = self._check_together(subject, admitted, now_ns)
        self._take_in(subject, admitted, data)
        if self._config.discard == Discard.NEW:
            self._check_room(subject, admitted)
        return Checked(subject, data, self._admission.with_ttl(admitted) if headers else admitted)

    def _check_alone(self, headers: bytes, data: bytes, now_ns: int) -> Admitted:
        """Check what does not depend on the state of the stream, but for ids."""
        admission = self._admission
        if len(headers) > MAX_HEADER_BYTES:
            raise api_error("stream_header_exceeds_maximum")
        increment = admission.increment(headers, data)
        admission.check_stream(headers)
        self._check_ttl(headers)
        message_id = header_block.get(headers, b"Nats-Msg-Id") or b""
        if message_id:
            seq = self._ledger.dedupe.find(message_id, now_ns)
            if message_id in self._ids or seq is not None:
                raise DuplicateError(seq or 0)
            self._ids.add(message_id)
        admission.check_source(headers)
        return Admitted(message_id=message_id, increment=increment, headers=headers)

    def _check_ttl(self, headers: bytes) -> None:
        value = header_block.get(headers, b"Nats-TTL") or b""
        try:
            carries = parse_ttl(value) != 0
        except ApiError:
            if self._config.allow_msg_ttl:
                raise
            carries = True
        if carries and not self._config.allow_msg_ttl:
            raise api_error("message_ttl_disabled")

    def _count_up(self, subject: bytes, admitted: Admitted) -> tuple[Admitted, bytes]:
        assert self._counters is not None
        if admitted.increment is None:
            raise api_error("message_incr_missing")
        before = self._totals.get(subject) or self._counters.total_of(subject)
        after = self._totals[subject] = before.plus(admitted.increment)
        admitted, data = admitted._replace(headers=after.noted(admitted.headers)), body_of(after.total)
        self._admission.check_size(admitted.headers, data)
        return admitted, data

    def _check_together(self, subject: bytes, admitted: Admitted, now_ns: int) -> Admitted:
        """Check what a message expects of the stream and of the messages before it."""
        headers = admitted.headers
        self._admission.check_last_id(headers)
        self._check_expected_last(headers)
        self._check_expected_on_subject(subject, headers)
        headers = self._admission.schedules.check(subject, headers, now_ns, self._is_schedule)
        rollup = self._admission.rollup(headers)
        if rollup == b"sub" and subject in self._subjects:
            raise api_error("stream_rollup_failed", err="batch rollup sub invalid")
        if rollup == b"all" and self._count:
            raise api_error("stream_rollup_failed", err="batch rollup all invalid")
        return admitted._replace(headers=headers, rollup=rollup, ends_schedule=purged_by(headers))

    def _is_schedule(self, subject: bytes) -> bool | None:
        staged = self._schedules.get(subject)
        return self._admission.is_schedule(subject) if staged is None else staged

    def _check_expected_last(self, headers: bytes) -> None:
        expected = header_block.get(headers, b"Nats-Expected-Last-Sequence")
        if not expected:
            return
        last_seq = self._ledger.last_seq + self._count
        if _number(expected) != last_seq:
            raise api_error("stream_wrong_last_sequence", seq=last_seq)
        if self._count:
            raise api_error("stream_wrong_last_sequence_constant")

    def _check_expected_on_subject(self, subject: bytes, headers: bytes) -> None:
        expected = header_block.get(headers, b"Nats-Expected-Last-Subject-Sequence")
        other = header_block.get(headers, b"Nats-Expected-Last-Subject-Sequence-Subject")
        if not expected:
            if other:
                raise api_error("stream_expected_last_seq_per_subject_invalid")
            return
        pattern = other or subject
        if pattern in self._subjects:
            raise api_error("stream_wrong_last_sequence_constant")
        actual = self._expected.get(pattern)
        if actual is None:
            actual = self._last_of(pattern)
        if _number(expected) != actual:
            raise api_error("stream_wrong_last_sequence", seq=actual)
        self._expected[pattern] = actual

    def _take_in(self, subject: bytes, admitted: Admitted, data: bytes) -> None:
        """Count the message as stored."""
        self._count += 1
        self._size += self._ledger.overhead.of(subject, admitted.headers, data)
        self._subjects[subject] += 1
        carries = bool(admitted.headers) and parse_schedule(admitted.headers) is not None
        self._schedules[subject] = carries

    def _check_room(self, subject: bytes, admitted: Admitted) -> None:
        """Refuse what `discard: new` has no room for."""
        config, ledger = self._config, self._ledger
        if 0 < config.max_msgs < ledger.messages + self._count:
            raise api_error("stream_store_failed", err="maximum messages exceeded")
        if 0 < config.max_bytes < ledger.size + self._size:
            raise api_error("stream_store_failed", err="maximum bytes exceeded")
        limited = config.discard_new_per_subject and config.max_msgs_per_subject > 0
        held = ledger.subjects.count.get(subject, 0) + self._subjects[subject]
        if limited and not admitted.rollup and held > config.max_msgs_per_subject:
            raise api_error("stream_store_failed", err="maximum messages per subject exceeded")


def _number(value: bytes) -> int:
    """Return a sequence given in a header, or -1, which equals none."""
    return int(value) if value.isdigit() and len(value) < 20 else -1
