"""Gives messages their sequences and turns every change of a stream into batches of the log.

1. A message gets the next sequence and a time that does not run backwards, unless the clock was set back.
2. The ledger takes it in, the head holds it, and the limits take out what has no room any more.
3. All of it is encoded as one batch, or a few, and joins the group that the next sync makes durable.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from headwater.clock import AHEAD_NS
from headwater.errors import Error
from headwater.log.batch import Batch, encode
from headwater.model.adopted import Adopted
from headwater.model.run import Run
from headwater.model.stream import Retention
from headwater.model.times import format_time
from headwater.stream import notes
from headwater.stream.events import StreamEvents
from headwater.stream.group import Group
from headwater.stream.head import HeadEntry
from headwater.stream.ledger import Ledger
from headwater.stream.live_runs import ReadRun
from headwater.stream.pending import PendingGroup
from headwater.stream.publishing.admission import Admitted
from headwater.stream.publishing.dedupe import FileIds
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.publishing.republish import Republisher
from headwater.stream.replay import note_headers
from headwater.stream.retention import rules as retention
from headwater.stream.retention.evictions import Evictions
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store
from headwater.stream.timing.time_to_live import marker

logger = logging.getLogger(__name__)

_NONE: Mapping[str, bytes] = {}


class Sequencer:
    """The one changer of a stream's ledger; all calls run on the event loop, so each is atomic."""

    def __init__(self, store: Store, events: StreamEvents) -> None:
        self._store = store
        self._events = events
        self.group = Group()
        """The changes that the next sync makes durable."""
        self._evictions = Evictions(store, events)
        self._reported_ts = 0
        """The time ahead of the clock that was last logged."""
        self.configure()

    def configure(self) -> None:
        """Use the config, ledger and head that the store holds now."""
        config = self._store.config
        self._config = config
        self._ledger: Ledger = self._store.ledger
        self._republisher = (
            Republisher(config, self._store.services.max_payload) if config.republish else None
        )
        self._evictions.configure()
        self.evicts = self._evictions.evicts
        """Whether `max_msgs` or `max_bytes` removes the oldest messages."""
        self._keeps_only_interest = config.retention == Retention.INTEREST

    def store_plain(self, run: OfferedRun, *, is_last: bool) -> None:
        """Store messages without headers that replace nothing; enforce the limits after the last run."""
        ledger = self._ledger
        size = run.payload_bytes + len(run) * ledger.overhead.per_message
        ledger.append(run.seq_list, run.timestamps, run.subjects, size)
        self._add(run, self._hold(run), self._evictions.over_limits() if is_last and self.evicts else None)

    def store_one(
        self, pending: PendingGroup, subject: bytes, data: bytes, now: int, admitted: Admitted
    ) -> None:
        """Give an admitted message its sequence and remove what it replaces."""
        if pending.is_full:
            self.flush(pending)
        if admitted.rollup == b"all":
            self.flush(pending)
            pending.removal.everything = True
            self._ledger.remove_everything()
        if admitted.rollup == b"sub":
            self._ledger.subjects.note_only(subject)
        previous = self.last_of(subject) if self._republisher else 0
        self._require_found(pending, subject, admitted)
        kept = self._append(pending, subject, data, now, admitted, previous)
        limit = kept if admitted.rollup == b"sub" else self._config.max_msgs_per_subject or -1
        if limit >= 0 and self._ledger.subjects.count.get(subject, 0) > limit:
            self._keep_newest(pending, {subject}, limit)
        if admitted.rollup == b"sub":
            for others in self._evictions.rolled_up_with(subject):
                self._keep_newest(pending, others, 0)
        if admitted.ends_schedule in self._ledger.subjects:
            self._keep_newest(pending, {admitted.ends_schedule}, 0)

    def _append(
        self, pending: PendingGroup, subject: bytes, data: bytes, now: int, admitted: Admitted, previous: int
    ) -> int:
        """Store a message after the `previous` one on its subject; return how many were, 0 or 1."""
        ledger, headers = self._ledger, admitted.headers
        if self._keeps_only_interest and not self._events.wants(subject):
            self._pass_over(pending, admitted, now)
            return 0
        seq = ledger.last_seq + 1
        size = ledger.overhead.of(subject, headers, data)
        ledger.append((seq,), (now,), (subject,), (size,))
        if headers:
            ledger.note_headers(seq, now, headers, admitted.ttl_ns)
        if self._config.allow_msg_schedules:
            ledger.schedules.note(seq, now, subject, headers)
        pending.add(seq, now, subject, headers, data)
        if self._republisher is not None:
            self.group.after += self._republisher.frames(seq, now, subject, headers, data, previous)
        return 1

    def _pass_over(self, pending: PendingGroup, admitted: Admitted, now: int) -> None:
        """Consume the sequence of a message that no consumer and no copy wants."""
        ledger = self._ledger
        ledger.skip_to(ledger.last_seq + 1)
        ledger.last_message_id = admitted.message_id
        if admitted.message_id:
            ledger.dedupe.add(admitted.message_id, ledger.last_seq, now)
        pending.skipped = True

    def _keep_newest(self, pending: PendingGroup, subjects: set[bytes], limit: int) -> None:
        """Remove the older messages of each subject, in the same change that adds the newest."""

        removal = self._evictions.older_than(limit, self._read_with(pending), subjects)
        self._ledger.remove(removal)
        pending.removal.merge(removal)

    def _read_with(self, pending: PendingGroup) -> ReadRun:
        """Return how runs are read while these messages are not in the head yet."""

        def read(seq: int) -> Run | None:
            if not pending:
                return self._store.view.run_now(seq)
            if seq > pending.seqs[-1]:
                return None
            if seq >= pending.seqs[0]:
                return pending.run()
            return self._store.view.run_now(seq) or pending.run()

        return read

    def _require_found(self, pending: PendingGroup, subject: bytes, admitted: Admitted) -> None:
        """Raise if what a rollup removes is in a bucket and was not found: it must go in the same change."""
        if not self._store.table.is_remote:
            return
        emptied = {admitted.ends_schedule}
        if admitted.rollup == b"sub":
            emptied |= {subject}.union(*self._evictions.rolled_up_with(subject))
        self._evictions.require_found(emptied, self._read_with(pending))

    def flush(self, pending: PendingGroup, known: Mapping[str, bytes] = _NONE) -> None:
        """Encode what is pending as one change, with what is known of upstreams from then on."""
        self._ledger.note_upstreams(known)
        if not pending:
            if pending.skipped or pending.removal or known:
                self._add(None, None, pending.removal, upstreams=known)
            pending.clear()
            return
        run = pending.run()
        entry = self._hold(run)
        if self.evicts:
            pending.removal.merge(self._evictions.over_limits())
        self._add(run, entry, pending.removal, upstreams=known)
        pending.clear()

    def remove(self, removal: Removal, *, last_seq: int = 0) -> None:
        """Remove messages; with `last_seq`, also consume sequences up to it."""
        if removal.everything:
            self._ledger.remove_everything()
        elif removal.seqs:
            self._ledger.remove(removal)
        self._ledger.skip_to(last_seq)
        self._add(None, None, removal)

    def record(self, consumers: Mapping[str, bytes], removal: Removal | None = None) -> None:
        """Record changes of consumers, and the removals they cause, in one change."""
        if removal:
            self._ledger.remove(removal)
        self._add(None, None, removal, consumers)

    def enforce_subjects(self) -> None:
        """Remove what exceeds a lowered `max_msgs_per_subject`, if the table is in a bucket.

        Otherwise `StreamRetention.limit_subjects` does it.
        """
        limit = self._config.max_msgs_per_subject
        if limit > 0 and self._store.table.is_remote:
            self.enforce_on([s for s, count in self._ledger.subjects.count.items() if count > limit])

    def enforce_totals(self) -> bool:
        """Remove what exceeds `max_msgs` and `max_bytes`; return whether more must go.

        Let others run before you call it again.
        """
        removal = Removal()
        try:
            if self.evicts:
                removal = self._evictions.excess()
                self._remove_if_any(removal)
        except Error as error:
            self._evictions.complain(error)
        return bool(removal) and retention.is_over(self._config, self._ledger)

    def enforce_on(self, subjects: Collection[bytes]) -> None:
        """Remove what exceeds `max_msgs_per_subject` on these subjects."""
        if subjects and self._config.max_msgs_per_subject > 0:
            limit, read = self._config.max_msgs_per_subject, self._store.view.run_now
            self._remove_if_any(self._evictions.older_than(limit, read, subjects))

    def _remove_if_any(self, removal: Removal) -> None:
        if removal:
            self.remove(removal)

    def expire(self, removal: Removal, marked: Mapping[bytes, int]) -> None:
        """Remove messages and, in the same change, leave delete markers on subjects they emptied.

        With each such subject comes the last sequence that it held.
        """
        if not marked:
            self.remove(removal)
            return
        ttl_ns = self._config.subject_delete_marker_ttl
        admitted = Admitted(ttl_ns=ttl_ns, headers=marker(ttl_ns))
        pending = PendingGroup(whole=True)
        self._ledger.remove(removal)
        pending.removal.merge(removal)
        for subject, last_seq in marked.items():
            self._append(pending, subject, b"", self.now(), admitted, last_seq)
        self.flush(pending)

    def load(self, run: OfferedRun) -> None:
        """Store messages that bring their own sequences and times."""
        ledger = self._ledger
        sizes = ledger.overhead.sizes(run).tolist()
        ledger.append(run.seq_list, run.timestamps, run.subjects, sizes)
        note_headers(ledger, self._config, list(run.seq_list), list(run.timestamps), list(run.headers))
        if self._config.allow_msg_schedules:
            ledger.schedules.note_run(run.seq_list, run.timestamps, run.subjects, run.headers)
        self._add(run, self._hold(run), self._evictions.without_room(run))

    def take_in(self, run: OfferedRun, upstream: str, cursor: bytes, rollup: bytes = b"") -> None:
        """Store copied messages with their sequences and, in the same change, the cursor of the copy.

        A `rollup` is what the last of them does: of `all`, which must be the only one, or of its subject.
        """
        ledger = self._ledger
        if rollup == b"sub" and self._store.table.is_remote:
            emptied = {run.subjects[-1]}.union(*self._evictions.rolled_up_with(run.subjects[-1]))
            self._evictions.require_found(emptied, self._store.view.run_now)
        before = [self.last_of(subject) for subject in run.subjects] if self._republisher else []
        sizes = ledger.overhead.sizes(run).tolist()
        if rollup == b"all":
            ledger.remove_everything()
        elif rollup == b"sub":
            ledger.subjects.note_only(run.subjects[-1])
        ledger.append(run.seq_list, run.timestamps, run.subjects, sizes)
        note_headers(ledger, self._config, list(run.seq_list), list(run.timestamps), list(run.headers))
        ledger.upstreams[upstream] = cursor
        entry = self._hold(run)
        removal = self._unwanted(run, sizes)
        removal.merge(self._evictions.without_room(run))
        if rollup == b"sub":
            removal.merge(self._evictions.over_subject_limit({run.subjects[-1]}, 1))
            for others in self._evictions.rolled_up_with(run.subjects[-1]):
                removal.merge(self._evictions.over_subject_limit(others, 0))
        removal.everything = rollup == b"all"
        self._add(run, entry, removal, upstreams={upstream: cursor})
        if self._republisher is not None:
            for row, previous in enumerate(before):
                self.group.after += self._republisher.frames(*run.message(row), previous)

    def adopt(
        self, adopted: Sequence[Adopted], known: Mapping[str, bytes], ids: Sequence[FileIds] = ()
    ) -> None:
        """Add files by their sums and ids, with what is known of upstreams from then on."""
        for place, file in enumerate(adopted):
            self._ledger.adopt(file)
            if ids:
                self._ledger.note_ids(file, *ids[place])
        self._ledger.note_upstreams(known)
        self._add(None, None, None, upstreams=known, adopted=adopted, ids=ids)

    def note_cursor(self, upstream: str, cursor: bytes, last_seq: int = 0) -> None:
        """Record how far an upstream has been copied; with `last_seq`, consume sequences up to it."""
        ledger = self._ledger
        if ledger.upstreams.get(upstream) == cursor and last_seq <= ledger.last_seq:
            return
        self.note_upstreams({upstream: cursor}, last_seq)

    def note_upstreams(self, known: Mapping[str, bytes], last_seq: int = 0) -> None:
        """Record in one change what is known of upstreams; with `last_seq`, consume sequences up to it."""
        self._ledger.note_upstreams(known)
        self._ledger.skip_to(last_seq)
        self._add(None, None, None, upstreams=known)

    def _unwanted(self, run: OfferedRun, sizes: Sequence[int]) -> Removal:
        """Remove copied messages that no consumer wants, if retention is by interest."""
        removal = Removal()
        if self._keeps_only_interest:
            for seq, subject, size in zip(run.seq_list, run.subjects, sizes, strict=True):
                if not self._events.wants(subject):
                    removal.take_known(seq, subject, size)
            if removal:
                self._ledger.remove(removal)
        return removal

    def now(self) -> int:
        """Return the time for the next message: the clock's, but after the last message's.

        If the last time is far ahead of the clock, the clock was wrong then, and the last time is ignored.
        """
        now, last_ts = self._store.services.clock.now_ns(), self._ledger.last_ts
        if last_ts <= now + AHEAD_NS:
            return max(now, last_ts + 1)
        self._report_ahead(last_ts)
        return now

    @property
    def floor_ts(self) -> int:
        """Return the earliest time of the next message; 0 if the last one is far ahead of the clock."""
        last_ts = self._ledger.last_ts
        return 0 if last_ts > self._store.services.clock.now_ns() + AHEAD_NS else last_ts

    def last_of(self, pattern: bytes) -> int:
        """Return the newest sequence on the subjects that a pattern matches, 0 if there is none."""
        index = self._ledger.subjects
        known = index.prepared_newest(pattern.decode(errors="replace"))
        if known is not None:
            return known
        subjects = list(index.matching(pattern.decode(errors="replace")))
        stale = sorted((index.last[s], s) for s in subjects if s in index.stale) if index.stale else []
        if stale:
            subjects = [subject for subject in subjects if subject not in index.stale]
        newest = max(map(index.last.__getitem__, subjects), default=0)
        while stale and stale[-1][0] > newest:
            bound, subject = stale.pop()
            index.settle(subject, self._store.find_last_now(subject, bound))
            newest = max(newest, index.last[subject])
        return newest

    def _report_ahead(self, last_ts: int) -> None:
        """Log once that the newest message has a time in the future."""
        if last_ts != self._reported_ts:
            self._reported_ts = last_ts
            name, shown = self._config.name, format_time(last_ts)
            logger.warning(
                "stream %s: its last message has the time %s, in the future: the clock was set back; "
                "new messages get the current time",
                name,
                shown,
            )

    def _hold(self, run: OfferedRun) -> HeadEntry:
        entry = HeadEntry.of(run, None)
        self._store.head.append(entry)
        return entry

    def _add(
        self,
        run: OfferedRun | None,
        entry: HeadEntry | None,
        removal: Removal | None,
        consumers: Mapping[str, bytes] = _NONE,
        upstreams: Mapping[str, bytes] = _NONE,
        adopted: Sequence[Adopted] = (),
        ids: Sequence[FileIds] = (),
    ) -> None:
        """Encode one change, already made to the ledger, into the group."""
        ledger = self._ledger
        seqs: Sequence[int] = run.seq_list if run else ()
        base = seqs[0] if seqs else ledger.last_seq + 1
        dense = not seqs or seqs[-1] - base + 1 == len(seqs)
        self.group.add(
            encode(
                Batch(
                    base_seq=base,
                    timestamps=run.timestamps if run else (),
                    subjects=run.subjects if run else (),
                    headers=run.headers if run else (),
                    datas=run.datas if run else (),
                    first_seq=ledger.first_seq,
                    last_seq=ledger.last_seq,
                    offsets=None if dense else [seq - base for seq in seqs],
                    removed=removal.seqs.serialize() if removal and removal.seqs else b"",
                    notes=notes.encode(removal, consumers, upstreams, adopted, [each.ids for each in ids]),
                )
            ),
            entry,
        )
        self.group.last_seq = ledger.last_seq
        self.group.upstreams.update(upstreams)
        if removal:
            self._events.removed(removal)
