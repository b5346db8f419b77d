"""Rebuilds ledger and head from checkpoint and log, at open and after a refused write.

Where the log is damaged, what the table does not have either is recorded as lost, and the sums are counted
again from what can be read: a damaged batch may have held removals that later sums rely on.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from pyroaring import BitMap64

from headwater.errors import CorruptionError
from headwater.log.batch import StoredBatch
from headwater.log.log import Log
from headwater.log.segment import Position
from headwater.model.adopted import Adopted
from headwater.model.run import Run
from headwater.model.stream import StreamConfig
from headwater.stream import notes
from headwater.stream.copied_cursors import advanced, last_copied
from headwater.stream.head import HeadEntry
from headwater.stream.ledger import Ledger
from headwater.stream.subjects import HISTORY_LIMIT, SubjectIndex
from headwater.stream.timing.time_to_live import stored_ttl
from headwater.stream.view import View
from headwater.table.datafile import DataFile

logger = logging.getLogger(__name__)

MOST_UNFOLDED = 200_000
"""As many messages as are folded at the latest, with the default settings."""


class Replay:
    """Applies the batches of a log, in order, to a ledger and to the head of a view."""

    def __init__(
        self,
        config: StreamConfig,
        log: Log,
        ledger: Ledger,
        view: View,
        folded: int,
        forgiving: bool = False,
        from_segment: int = 0,
        complete: Callable[[Sequence[Adopted]], None] = lambda adoptions: None,
    ) -> None:
        self.ledger = ledger
        self.view = view
        self._config = config
        self._log = log
        self._forgiving = forgiving
        """Whether what is older than the log may be damaged, too, and must be counted again."""
        self._folded = folded
        """The table holds what is live up to this sequence."""
        files = view.table.files if forgiving else ()
        self._in_table = max([folded, *(file.last_seq for file in files)])
        """Up to where the table may hold what the log does not."""
        self._from_segment = from_segment
        """The checkpoint holds what is in segments below; those that could not be removed are still there."""
        self._complete = complete
        """Makes files that the log names part of the table."""
        self.adoptions: list[Adopted] = []
        """Files that the log says are part of the stream."""
        self.behind = ""
        """Where log and table end, if the table holds messages that the log does not know; else empty."""

    def run(self) -> None:
        """Return once ledger and head hold exactly what the log does."""
        last: Position | None = None
        for position, batch in self._log.replay(self._from_segment):
            if self._is_damaged:
                self._account_for_loss(_before(batch) - 1)
            self._apply(batch)
            last = position
            if batch.count and int(batch.seqs[-1]) > self._folded:
                self.view.head.append(HeadEntry.of(batch, position), resident=False)
        self._account_for_tail(last)
        self._catch_up()
        if self._forgiving:
            self._account_for_loss(self._in_table)
            self._skip_unknown()
        keeps = keeps_history(self._config)
        if self._is_damaged or (keeps and self.ledger.subjects.history is None):
            # What is still in the staging folder cannot be read, and would count as lost.
            self._complete(self.adoptions)
            self._count_again()
        if not keeps:
            self.ledger.subjects.history = None
        for damage in self._log.damage:
            logger.warning("stream %s: %s in its log", self._config.name, damage)

    @property
    def _is_damaged(self) -> bool:
        """Return whether there was damage so far that a crash does not explain."""
        return self._forgiving or any(not damage.torn for damage in self._log.damage)

    def _catch_up(self) -> None:
        """Find out whether the table holds messages that follow the log; damage explains that.

        Only what is durable in the log enters the table. So without damage log and checkpoint are those of an
        older backup, or the end of the log is missing.
        """
        ledger, files = self.ledger, self.view.table.files
        last_seq = max([self._folded, *(file.last_seq for file in files[-1:])])
        if last_seq <= ledger.last_seq:
            return
        if not self._is_damaged or (self._forgiving and self._from_segment):
            self.behind = f"it ends at sequence {ledger.last_seq}, but the table at {last_seq}"
        elif self._config.mirror is None:
            self._account_for_loss(last_seq)

    def _skip_unknown(self) -> None:
        """Use no sequence again that a missing end of the log may have held; a mirror copies it again."""
        if (self._log.missing or self.behind) and self._config.mirror is None:
            self.ledger.skip_to(self.ledger.last_seq + MOST_UNFOLDED)

    def _apply(self, batch: StoredBatch) -> None:
        ledger = self.ledger
        noted = notes.decode(batch.notes)
        if noted.removed_everything:
            ledger.remove_everything()
        if batch.count:
            seqs, ts = batch.seqs.tolist(), batch.ts.tolist()
            ledger.append(seqs, ts, batch.subjects, ledger.overhead.sizes(batch).tolist())
            if batch.with_headers.any():
                note_headers(ledger, self._config, seqs, ts, batch.headers)
            if self._config.allow_msg_schedules:
                ledger.schedules.note_run(seqs, ts, batch.subjects, batch.headers)
        for place, adopted in enumerate(noted.adopted):
            if adopted.first_seq > ledger.last_seq:
                # Else the table had it already, where damage made us look there.
                ledger.adopt(adopted)
                if noted.ids:
                    ledger.note_ids(adopted, noted.ids[place])
            self.adoptions.append(adopted)
        if batch.removed:
            removal = noted.removal(batch.removed)
            ledger.remove(ledger.still_there(removal) if self._is_damaged else removal)
        for name, change in noted.consumers.items():
            ledger.note_consumer(name, change)
        ledger.note_upstreams(noted.upstreams)
        ledger.skip_to(batch.last_seq)
        if self._is_damaged:
            ledger.remove_below(batch.first_seq)
        else:
            assert ledger.first_seq == batch.first_seq, (ledger.first_seq, batch.first_seq)

    def _account_for_tail(self, last: Position | None) -> None:
        """Count what is damaged behind the last intact batch as lost, and never assign its sequences again.

        If not even the header of a batch can be read, the batch counts as if it had held as many messages as
        fit. A mirror loses nothing: its cursor was in the same batch, so the messages are copied again with
        their sequences.
        """
        if self._config.mirror is not None:
            return
        last_seq = self.ledger.last_seq
        for damage in self._log.damage:
            if damage.torn or (last is not None and damage.position < last):
                continue
            last_seq = max(last_seq, damage.last_seq or last_seq + damage.most_messages)
        self._account_for_loss(last_seq)

    def _account_for_loss(self, last_seq: int) -> None:
        """Take what a damaged batch held from the table; what is not there either is lost."""
        while (seq := self.ledger.last_seq + 1) <= last_seq:
            through = self._covered(seq)
            if through >= seq:
                self._take_from_table(min(last_seq, through))
            elif not self._add_unnamed(seq, last_seq):
                following = self._file_behind(seq)
                end = last_seq if following is None else min(last_seq, following.first_seq - 1)
                self._record_loss(seq, end)

    def _add_unnamed(self, seq: int, last_seq: int) -> bool:
        """Add files to the table that hold only what would be lost; return whether there are any.

        A crash leaves a file in the table's folders that only the damaged batch named.
        """
        table = self.view.table
        found = [each.file for each in table.unreferenced()]
        inside = [file for file in found if seq <= file.first_seq and file.last_seq <= last_seq]
        chosen: list[DataFile] = []
        for file in sorted(inside, key=lambda each: each.first_seq):
            if not chosen or file.first_seq > chosen[-1].last_seq:
                chosen.append(file)
        if chosen:
            table.commit(add=chosen)
            logger.warning(
                "stream %s: %d files that its damaged log named were added to its table",
                *(self._config.name, len(chosen)),
            )
        return bool(chosen)

    def _covered(self, seq: int) -> int:
        """Return up to where the table says which messages there are from here on, less if it does not."""
        if seq <= self._in_table:
            return self._in_table
        # Behind what was folded the table holds files that were adopted, whole.
        file = self._file_behind(seq)
        return file.last_seq if file is not None and file.first_seq <= seq else seq - 1

    def _file_behind(self, seq: int) -> DataFile | None:
        """Return the file of the table that holds this sequence, or else the next one."""
        files = self.view.table.files
        at = bisect_left(files, seq, key=lambda file: file.last_seq)
        return files[at] if at < len(files) else None

    def _take_from_table(self, last_seq: int) -> None:
        """Count what the table holds up to a sequence, and how far it says that sources were copied."""
        ledger = self.ledger
        while (seq := ledger.last_seq + 1) <= last_seq:
            run = self._read(seq)
            seqs = run.seqs if run is not None else np.empty(0, np.int64)
            rows = np.flatnonzero((seqs >= seq) & (seqs <= last_seq)).tolist()
            if run is None or not rows:
                break
            sizes = ledger.overhead.sizes(run)
            ledger.append(
                [int(seqs[row]) for row in rows],
                [int(run.ts[row]) for row in rows],
                [run.subjects[row] for row in rows],
                [int(sizes[row]) for row in rows],
            )
            if self._config.sources:
                self._advance_cursors([run.message(row).headers for row in rows])
        ledger.skip_to(last_seq)

    def _advance_cursors(self, headers: list[bytes]) -> None:
        """Advance cursors that were in the damaged batch, so that no message is copied twice.

        A repair sets the cursors that were lost with a checkpoint itself: where messages leave once they are
        consumed, the last one that is here does not say how far the source was copied.
        """
        upstreams = self.ledger.upstreams
        for name, cursor in last_copied(headers).items():
            is_known = name in upstreams or not self._forgiving
            if is_known and name in {source.index_name for source in self._config.sources}:
                upstreams[name] = advanced(upstreams.get(name, b""), cursor)

    def _record_loss(self, seq: int, last_seq: int) -> None:
        name = self._config.name
        logger.error("stream %s: sequences %d to %d are lost, the log is damaged there", name, seq, last_seq)
        self.ledger.record_loss(seq, last_seq)
        self.ledger.skip_to(last_seq)

    def _read(self, seq: int) -> Run | None:
        try:
            return self.view.read_run_at(seq)
        except CorruptionError as error:
            logger.error("stream %s: %s", self._config.name, error)
            return None

    def _count_again(self) -> None:
        """Compute the sums again from what can be read; record as lost what cannot."""
        ledger = self.ledger
        expected = live_seqs(ledger)
        found, size, subjects = BitMap64(), 0, SubjectIndex(history=keeps_history(self._config))
        seq = ledger.first_seq
        while seq <= ledger.last_seq:
            try:
                run = self.view.read_run_at(seq)
            except CorruptionError as error:
                last_seq = self.view.reach(seq)
                logger.error(
                    "stream %s: sequences %d to %d are lost: %s", self._config.name, seq, last_seq, error
                )
                ledger.record_loss(seq, last_seq)
                seq = last_seq + 1
                continue
            if run is None:
                break
            rows = ledger.live_rows(run, seq)
            seqs, sizes, names = (
                run.seqs[rows].tolist(),
                ledger.overhead.sizes(run)[rows].tolist(),
                run.subjects,
            )
            found.update(seqs)
            size += sum(sizes)
            subjects.add_run([names[row] for row in rows.tolist()], seqs, sizes)
            seq = int(run.seqs[-1]) + 1
        ledger.lost |= expected - found
        ledger.restate(found, size, subjects)


def _before(batch: StoredBatch) -> int:
    """Return the first sequence that a batch brings, in messages or in files."""
    return min([batch.base_seq, *(adopted.first_seq for adopted in notes.decode(batch.notes).adopted)])


def live_seqs(ledger: Ledger) -> BitMap64:
    """Return the sequences of all messages that a ledger says are there."""
    found = BitMap64()
    if ledger.messages:
        found.add_range(ledger.first_seq, ledger.last_seq + 1)
    return found - ledger.deleted


def note_headers(
    ledger: Ledger, config: StreamConfig, seqs: list[int], ts: list[int], headers: list[bytes]
) -> None:
    """Record ids and times to live of stored messages in a ledger."""
    with_ttl = config.allow_msg_ttl
    for seq, stamp, block in zip(seqs, ts, headers, strict=True):
        if block:
            ledger.note_headers(seq, stamp, block, stored_ttl(block) if with_ttl else None)


def keeps_history(config: StreamConfig) -> bool:
    """Return whether the sequences of each subject are kept in memory."""
    return 0 < config.max_msgs_per_subject <= HISTORY_LIMIT
