"""Deliberate breakages of the engine, by which the simulator shows that it would find such a bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pyroaring import BitMap64

from headwater.control import catalog_file
from headwater.delivery.consumers import StreamConsumers
from headwater.delivery.state import ConsumerState
from headwater.delivery.state_recorder import StateRecorder
from headwater.disk import RealAppendFile, RealDisk
from headwater.log import log, segment
from headwater.log.log import Log
from headwater.log.segment import records
from headwater.model.gaps import Gaps
from headwater.stan.journal import Journal
from headwater.stream import notes
from headwater.stream.bulk.bulk import StreamBulk
from headwater.stream.committer import Committer
from headwater.stream.ledger import Ledger
from headwater.stream.publishing.dedupe import DedupeWindow
from headwater.stream.sequencer import Sequencer
from headwater.table.delta_log import DeltaLog
from headwater.upstreams.holds import UpstreamHold


class Mutation(NamedTuple):
    """A breakage, and what the simulator says of it."""

    apply: Callable[[], None]
    found: str
    arguments: tuple[str, ...] = ()
    """Options of the runs that look for it: a fixed story for what chance alone seldom meets."""


def _replace(owner: Any, name: str, value: object) -> None:
    assert hasattr(owner, name), f"{owner.__name__}.{name} is gone"
    setattr(owner, name, value)


def no_file_sync() -> None:
    """Acknowledge messages whose bytes are not synced."""
    _replace(RealAppendFile, "sync", lambda self: None)


def no_directory_sync() -> None:
    """Trust that a new name is durable."""
    _replace(RealDisk, "sync_dir", lambda self, path: None)


def late_sync() -> None:
    """Acknowledge a publish once it is written; sync it together with the next one."""

    def write(self: Any, encoded: Any) -> Any:
        if not encoded:
            return []
        self._store.log.sync()
        return self._store.log.append(encoded)

    _replace(Committer, "_write", write)


def no_rollback() -> None:
    """Go on after a refused write as if it had been done."""

    def forgiving(self: Log, encoded: Any) -> Any:
        try:
            return append(self, encoded)
        except Exception:
            self._failed = False
            return positions(self, encoded)

    append = Log.append

    def positions(self: Log, encoded: Any) -> Any:
        assert self._file is not None
        return records(self.segment, self._file.size, encoded)[1]

    _replace(Log, "append", forgiving)


def early_confirmation() -> None:
    """Confirm an acknowledgement before it is durable, as D4 did."""
    record: Callable[..., Any] = StateRecorder.record

    def first_confirm(self: Any, confirmed: Any = ()) -> None:
        self._stream.consumers._committer._send(b"".join(confirmed))
        record(self)

    _replace(StateRecorder, "record", first_confirm)


def lost_delta() -> None:
    """Drop what changed in a consumer's state now and then, as D3 did."""
    take: Callable[..., Any] = ConsumerState.take_delta
    count = 0

    def forgetful(self: Any) -> Any:
        nonlocal count
        count += 1
        change = take(self)
        return None if count % 3 == 0 else change

    _replace(ConsumerState, "take_delta", forgetful)


def emptied_checkpoint() -> None:
    """Leave consumers that are closed while the engine stops out of a checkpoint."""
    dump = StreamConsumers.dump

    def without_closed(self: StreamConsumers) -> Any:
        self._closed.clear()
        return dump(self)

    _replace(StreamConsumers, "dump", without_closed)


def early_release() -> None:
    """Let a queue's messages go by what its target was only offered, as D1 did."""

    async def follow(self: UpstreamHold) -> None:
        self.hold.floor = max(self.hold.floor, self.origin.reading.durable_seq)
        settled = self.hold.next_release
        if settled is not None:
            await self.origin.retention.drop_unneeded(*settled)
            self.hold.released = max(self.hold.released, settled[1])

    _replace(UpstreamHold, "follow", follow)


def reused_sequence() -> None:
    """Begin again below the last sequence after a restart."""
    restore: Callable[..., Any] = Ledger.restore

    def stepped_back(self: Any, dumped: Any) -> None:
        restore(self, dumped)
        if self.messages == 0:
            self.last_seq = max(0, self.last_seq - 2)

    _replace(Ledger, "restore", stepped_back)


def unsynced_commit() -> None:
    """Trim the log before the Delta commit that holds its messages is durable."""
    commit: Callable[..., Any] = DeltaLog.commit

    def hasty(self: Any, *args: Any, **named: Any) -> None:
        disk = self._disk
        self._disk = _Unsynced(disk)
        try:
            commit(self, *args, **named)
        finally:
            self._disk = disk

    _replace(DeltaLog, "commit", hasty)


class _Unsynced:
    """A disk that syncs nothing."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return (lambda path: None) if name.startswith("sync") else getattr(self._disk, name)


def forgetful_journal() -> None:
    """Forget which messages NATS Streaming clients have not acknowledged."""
    put: Callable[..., Any] = Journal.put
    nothing = BitMap64().serialize()

    def unkept(self: Any, ops: Any, then: Any = None) -> None:
        kept = [(s, (v[0], nothing, v[2])) if s.startswith("UPDATE flows") else (s, v) for s, v in ops]
        put(self, kept, then)

    _replace(Journal, "put", unkept)


def stuck_committer() -> None:
    """Never store again after the first refusal."""

    async def never(self: Any, group: Any, error: Any) -> None:
        self.failure = error
        self._refuse(group, error)

    _replace(Committer, "_recover", never)


def skipped_cursor() -> None:
    """Do not record the cursor of a copy in the log."""
    encode: Callable[..., Any] = notes.encode

    def without_cursor(removal: Any, consumers: Any, upstreams: Any, adopted: Any) -> bytes:
        kept = {name: value for name, value in upstreams.items() if name.endswith("\ngaps")}
        return bytes(encode(removal, consumers, kept, adopted))

    _replace(notes, "encode", without_cursor)


def unlogged_delete() -> None:
    """Remove messages in memory alone."""
    remove: Callable[..., Any] = Sequencer.remove

    def forgotten(self: Any, removal: Any, *, last_seq: int = 0) -> None:
        if removal.everything or last_seq or not removal.seqs:
            remove(self, removal, last_seq=last_seq)
            return
        self._ledger.remove(removal)
        self.on_removed(removal)

    _replace(Sequencer, "remove", forgotten)


def forgotten_ids() -> None:
    """Leave the message ids of the duplicate window out of a restart."""
    _replace(DedupeWindow, "restore", lambda self, entries: None)


def silent_gap() -> None:
    """Copy on behind messages that are gone at the origin, and report no gap."""
    _replace(Gaps, "with_gap", lambda self, gap: self)


def unsynced_catalogue() -> None:
    """Confirm creations and deletions before the catalogue is synced."""
    open_database: Callable[..., Any] = vars(catalog_file)["open_database"]

    def hasty(path: Any) -> Any:
        db = open_database(path)
        db.execute("PRAGMA synchronous=OFF")
        return db

    _replace(catalog_file, "open_database", hasty)


def unchecked_batches() -> None:
    """Accept any bytes in the log as what was written there."""
    for module in (log, segment):
        _replace(module, "is_intact", lambda encoded: True)


def unrecorded_batch() -> None:
    """Store the messages of a bulk write without the record of their query."""
    changes: Callable[..., Any] = StreamBulk._changes

    def forgotten(self: Any, name: str, batch: int, count: int) -> Any:
        return {name: b""} if count % 2 else changes(self, name, batch, count)

    _replace(StreamBulk, "_changes", forgotten)


MUTATIONS = {
    "no_file_sync": Mutation(
        no_file_sync, "acknowledged|was served|is offline|gave sequence|ends at|holds|delivered again"
    ),
    "late_sync": Mutation(
        late_sync, "acknowledged|was served|is offline|gave sequence|ends at|holds|delivered again|was given"
    ),
    "no_directory_sync": Mutation(
        no_directory_sync, "acknowledged|is offline|absent|ends at|does not start|answers|delivered again"
    ),
    "no_rollback": Mutation(no_rollback, "."),
    "early_confirmation": Mutation(early_confirmation, "delivered again|stays although"),
    "lost_delta": Mutation(lost_delta, "delivered again|never acked|stays although|unacked|pending"),
    "emptied_checkpoint": Mutation(
        emptied_checkpoint,
        "delivered again|stays although|never acked|pending",
        ("--lasts", "20", "--calm", "--late-folds"),
    ),
    "early_release": Mutation(early_release, "is gone|does not get|not found"),
    "reused_sequence": Mutation(reused_sequence, "was given|twice|ends at|was served|comes after|is here"),
    "unsynced_commit": Mutation(unsynced_commit, "acknowledged|is offline|is gone|answers"),
    "forgetful_journal": Mutation(forgetful_journal, "STAN"),
    "skipped_cursor": Mutation(skipped_cursor, "is at|comes after|does not get|is gone|stalled"),
    "unlogged_delete": Mutation(
        unlogged_delete, "is offline|is back|was deleted|stays although|older than|twice|holds"
    ),
    "forgotten_ids": Mutation(forgotten_ids, "is stored at|and again at"),
    "silent_gap": Mutation(silent_gap, "in no gap"),
    "unsynced_catalogue": Mutation(unsynced_catalogue, "it can only be|answers|does not start|offline"),
    "unchecked_batches": Mutation(unchecked_batches, "nobody offered|is offline|does not start|offered"),
    "unrecorded_batch": Mutation(unrecorded_batch, "is stored again|said to be|and at|is stored at"),
    "stuck_committer": Mutation(stuck_committer, "takes no messages|stalled"),
}
