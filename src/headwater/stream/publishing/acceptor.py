"""Accepts or refuses published messages, one by one or in bulk, and gives them to the sequencer.

The answers go into the sequencer's group and are sent once that is durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.errors import ApiError, Error, api_error
from headwater.model import headers as header_block
from headwater.model.stream import Discard, Retention, StreamConfig
from headwater.model.transform import SubjectTransform
from headwater.stream.events import StreamEvents
from headwater.stream.ledger import Ledger
from headwater.stream.pending import BATCH_BYTES, PendingGroup
from headwater.stream.publishing import atomic_batch, fast_batch
from headwater.stream.publishing.admission import Admission, Admitted, Duplicate
from headwater.stream.publishing.atomic_batch import Abandoned, AtomicBatches
from headwater.stream.publishing.batch_check import BatchCheck, Checked
from headwater.stream.publishing.counter import CounterTotals, body_of
from headwater.stream.publishing.fast_batch import FastBatches
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.retention.account_room import AccountRoom
from headwater.stream.sequencer import Sequencer
from headwater.stream.store import Store
from headwater.wire.frames import Frame

_EXPECTS = b"\r\nNats-Expected-"
_BATCHED = b"\r\nNats-Batch-Id:"
_NOTHING_MORE: Mapping[str, object] = {}
_NONE_KNOWN: Mapping[str, bytes] = {}


class Acceptor:
    """Checks what publishers send to one stream; all calls run on the event loop, so each is atomic."""

    def __init__(self, store: Store, sequencer: Sequencer, events: StreamEvents) -> None:
        self._store = store
        self._events = events
        self.sequencer = sequencer
        """Stores what is accepted."""
        self._atomic = AtomicBatches(store.services.atomic_quota)
        self._fast = FastBatches(store.services.fast_quota)
        self._ledger: Ledger = store.ledger
        self.configure()

    def configure(self) -> None:
        """Use the config, ledger and head that the store holds now."""
        store, config = self._store, self._store.config
        if not config.allow_batched or store.ledger is not self._ledger:
            # What a fast batch counts as stored may have been undone with the ledger.
            self._fast.clear()
        if not config.allow_atomic:
            self._atomic.clear()
        self.sequencer.configure()
        self._config = config
        self._ledger = store.ledger
        self._admission = Admission(config, self._ledger, self.sequencer.last_of, store.services.client_limit)
        self._room = AccountRoom(config.storage, self._ledger, store.services.free_bytes)
        self._transform = _transform(config)
        self.counters = CounterTotals(store) if config.allow_msg_counter else None
        """The totals of a counter stream."""
        limited = config.max_msgs > 0 or config.max_bytes > 0
        self._is_plain = not (
            config.sealed
            or config.max_msgs_per_subject > 0
            or (config.discard == Discard.NEW and limited)
            or self._transform
            or config.republish
            or self.counters
            or config.retention == Retention.INTEREST
            or config.allow_msg_schedules
        )

    def offer(self, items: Sequence[Frame]) -> None:
        """Take published messages; their answers are sent when the group is durable."""
        self._room.refresh()
        subjects, replies, headers, datas = zip(*items, strict=True)
        plain = self._is_plain and not any(headers) and fast_batch.SUFFIX not in b"".join(replies)
        if plain and self._fits(subjects, datas) and b"".join(subjects).isascii():
            self._offer_plain(subjects, replies, headers, datas)
        else:
            self._offer_checked(items)

    def _fits(self, subjects: Sequence[bytes], datas: Sequence[bytes]) -> bool:
        limit = self._admission.max_size
        if limit is not None and max(map(len, datas)) > limit:
            return False
        sizes = len(datas) * self._ledger.overhead.per_message
        return self._room.fits(sizes + sum(map(len, subjects)) + sum(map(len, datas)))

    def _offer_plain(
        self,
        subjects: Sequence[bytes],
        replies: Sequence[bytes],
        headers: Sequence[bytes],
        datas: Sequence[bytes],
    ) -> None:
        """Store messages that nothing can refuse, in bulk."""
        count = len(subjects)
        base, now = self._ledger.last_seq + 1, self.sequencer.now()
        sizes = sum(map(len, datas)) + sum(map(len, subjects))
        step = max(1, count * BATCH_BYTES // max(sizes, BATCH_BYTES))
        for start in range(0, count, step):
            stop = min(start + step, count)
            run = OfferedRun(
                range(base + start, base + stop),
                range(now + start, now + stop),
                subjects[start:stop],
                headers[start:stop],
                datas[start:stop],
            )
            self.sequencer.store_plain(run, is_last=stop == count)
        if not self._config.no_ack:
            self.sequencer.group.acknowledge_run(replies, base)

    def _offer_checked(self, items: Sequence[Frame]) -> None:
        """Check and store messages one by one."""
        pending = PendingGroup()
        now = self.sequencer.now()
        for subject, reply, headers, data in items:
            try:
                self._offer_one(pending, subject, reply, headers, data, now)
            except Error as error:
                if not self._config.no_ack:
                    self.sequencer.group.refuse(reply, _refusal(error))
            now = max(self.sequencer.now(), now + 1)
        self.sequencer.flush(pending)

    def _offer_one(
        self, pending: PendingGroup, subject: bytes, reply: bytes, headers: bytes, data: bytes, now: int
    ) -> None:
        if reply.endswith(fast_batch.SUFFIX):
            self._offer_fast(pending, subject, reply, headers, data, now)
            return
        batch_id = header_block.get(headers, b"Nats-Batch-Id") if _BATCHED in headers else None
        if batch_id:
            self._offer_batched(pending, batch_id, subject, reply, headers, data, now)
            return
        subject = self._stored_subject(subject)
        if self.sequencer.evicts and _EXPECTS in headers:
            self.sequencer.flush(pending)  # a limit may just have removed what is expected
        verdict = self._admission.check(subject, headers, data, now, self._ledger.last_seq)
        if isinstance(verdict, Duplicate):
            self._acknowledge(reply, verdict.seq, {"duplicate": True})
            return
        if self.counters is not None and verdict.increment is not None:
            total = self._count_up(self.counters, pending, subject, verdict, now)
            self._acknowledge(reply, self._ledger.last_seq, {"val": str(total)})
            return
        self._room.check(self._ledger.overhead.of(subject, verdict.headers, data))
        self.sequencer.store_one(pending, subject, data, now, verdict)
        self._acknowledge(reply, self._ledger.last_seq)

    def _count_up(
        self, counters: CounterTotals, pending: PendingGroup, subject: bytes, verdict: Admitted, now: int
    ) -> int:
        """Store an increment of a counter and return the new total; one that is refused counts nothing."""
        assert verdict.increment is not None
        is_pending = bool(pending) and self._ledger.subjects.last.get(subject, 0) >= pending.seqs[0]
        if is_pending and not counters.remembers(subject):
            self.sequencer.flush(pending)  # the message that holds the total is among those
        after = counters.total_of(subject).plus(verdict.increment)
        data, headers = body_of(after.total), after.noted(verdict.headers)
        self._admission.check_size(headers, data)
        self._room.check(self._ledger.overhead.of(subject, headers, data))
        counters.remember(subject, after)
        self.sequencer.store_one(pending, subject, data, now, verdict._replace(headers=headers))
        return after.total

    def may_refuse(self, items: Sequence[Frame]) -> bool:
        """Return whether one of these messages may be refused for its size, or for want of room."""
        limit = self._admission.max_size
        sizes = (len(headers) + len(data) for _, _, headers, data in items)
        return self._room.is_limited or (limit is not None and max(sizes, default=0) > limit)

    def mapped(self, subject: bytes) -> bytes:
        """Return the subject that the stream's transform maps a subject to."""
        return subject if self._transform is None else self._transform.apply(subject) or subject

    def _stored_subject(self, subject: bytes) -> bytes:
        """Return the subject that a message is stored under."""
        subject = self.mapped(subject)
        if not subject.isascii():
            _require_text(subject)
        return subject

    def _offer_batched(
        self,
        pending: PendingGroup,
        batch_id: bytes,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        data: bytes,
        now: int,
    ) -> None:
        """Hold a message of an atomic batch back, or store the whole batch with its last one."""
        self._admission.check_batched(headers, data)
        if not self._config.allow_atomic:
            raise api_error("atomic_publish_disabled")
        step = self._atomic.offer(batch_id, subject, headers, data, now)
        if step.abandoned is not None:
            self._events.abandoned(batch_id, step.abandoned)
        if step.error is not None:
            raise step.error
        if step.messages is not None:
            self.sequencer.flush(pending)
            self._commit(step.messages, now)
            more = {"batch": batch_id.decode(errors="replace"), "count": len(step.messages)}
            self._acknowledge(reply, self._ledger.last_seq, more)
        elif not self._config.no_ack:
            self.sequencer.group.hold(reply)

    def _offer_fast(
        self, pending: PendingGroup, subject: bytes, reply: bytes, headers: bytes, data: bytes, now: int
    ) -> None:
        """Store a message of a fast batch, and answer its publisher if an answer is due."""
        self._admission.check_batched(headers, data)
        if not self._config.allow_batched:
            raise api_error("batch_publish_disabled")
        message = fast_batch.parse_reply(reply)
        if message is None:
            raise api_error("batch_publish_invalid_pattern")

        def store() -> int:
            if self.counters is not None or (self.sequencer.evicts and _EXPECTS in headers):
                self.sequencer.flush(pending)
            checked = self._batch_check().check(self._stored_subject(subject), headers, data, now)
            self._check_room([checked])
            self.sequencer.store_one(pending, checked.subject, checked.data, now, checked.admitted)
            return self._ledger.last_seq

        for answer in self._fast.offer(message, headers, now, store):
            if isinstance(answer, ApiError):
                self.sequencer.group.refuse(reply, answer)
            elif isinstance(answer, fast_batch.Ack):
                self.sequencer.group.acknowledge(reply, answer.seq, answer.more)
            else:
                self.sequencer.group.answer(reply, answer.body)

    def _batch_check(self) -> BatchCheck:
        return BatchCheck(self._config, self._ledger, self._admission, self.counters, self.sequencer.last_of)

    def _commit(self, messages: Sequence[atomic_batch.BatchMessage], now: int) -> None:
        """Store the messages of a batch in one change, or none of them."""
        check = self._batch_check()
        checked = [
            check.check_in_batch(self._stored_subject(subject), headers, data, now)
            for subject, headers, data in messages
        ]
        self._store_checked(checked, now)

    def _store_checked(
        self, checked: Sequence[Checked], now: int, known: Mapping[str, bytes] = _NONE_KNOWN
    ) -> None:
        """Store messages that may be stored together in one change."""
        self._check_room(checked)
        if self._config.republish is not None:
            for message in checked:
                self.sequencer.last_of(
                    message.subject
                )  # so that no read can fail once the first one is stored
        pending = PendingGroup(whole=True)
        for ts, message in enumerate(checked, now):
            self.sequencer.store_one(pending, message.subject, message.data, ts, message.admitted)
        self.sequencer.flush(pending, known)

    @property
    def max_size(self) -> int | None:
        """Return the largest headers and data together, None without a limit of ours."""
        return self._admission.max_size

    def store_bulk(self, messages: Sequence[atomic_batch.BatchMessage], known: Mapping[str, bytes]) -> int:
        """Store the messages of a bulk write in one change, or none of them; return how many were stored.

        Messages whose id is known are left out. `known` is what is known of upstreams from then on.
        """
        self._room.refresh()
        now, check = self.sequencer.now(), self._batch_check()
        checked = []
        for subject, headers, data in messages:
            self._admission.check_batched(headers, data)
            found = check.check_unless_known(self._stored_subject(subject), headers, data, now)
            if found is not None:
                checked.append(found)
        self._store_checked(checked, now, known)
        return len(checked)

    def _check_room(self, messages: Sequence[Checked]) -> None:
        """Refuse messages that the account has no room for."""
        size = self._ledger.overhead.of
        self._room.check(sum(size(each.subject, each.admitted.headers, each.data) for each in messages))

    def next_abandon_ns(self) -> int | None:
        """Return when the next idle batch is abandoned."""
        times = (self._atomic.next_ns(), self._fast.next_ns())
        return min((ns for ns in times if ns is not None), default=None)

    def abandon_idle(self, now_ns: int) -> None:
        """Abandon the batches that got no message in time."""
        for batch_id in self._atomic.give_up_idle(now_ns):
            self._events.abandoned(batch_id, Abandoned.TIMEOUT)
        self._fast.give_up_idle(now_ns)

    def abandon_all(self) -> None:
        """Abandon every batch, because the stream is closed."""
        self._atomic.clear()
        self._fast.clear()

    def publish(self, subject: bytes, data: bytes, admitted: Admitted) -> None:
        """Store a message that the stream itself publishes, such as that of a schedule."""
        subject = self._stored_subject(subject)
        self._admission.check_size(admitted.headers, data)
        self._room.refresh()
        self._room.check(self._ledger.overhead.of(subject, admitted.headers, data))
        pending = PendingGroup()
        self.sequencer.store_one(pending, subject, data, self.sequencer.now(), admitted)
        self.sequencer.flush(pending)

    def _acknowledge(self, reply: bytes, seq: int, more: Mapping[str, object] = _NOTHING_MORE) -> None:
        if not self._config.no_ack:
            self.sequencer.group.acknowledge(reply, seq, more)


def _transform(config: StreamConfig) -> SubjectTransform | None:
    declared = config.subject_transform
    return SubjectTransform(declared.src, declared.dest) if declared else None


def _require_text(subject: bytes) -> None:
    try:
        subject.decode()
    except UnicodeDecodeError:
        raise api_error("stream_store_failed", err="subject is not valid UTF-8") from None


def _refusal(error: Error) -> ApiError:
    return error if isinstance(error, ApiError) else api_error("stream_store_failed", err=str(error))
