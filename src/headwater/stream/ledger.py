"""The ledger of a stream: which sequences live, and the sums over them.

It is the logical state, a pure value driven by batches of the log: the same calls run when a change is
made and when the log is replayed, so both give the same ledger. It never holds a payload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from headwater.model import headers as header_block
from headwater.model.adopted import Adopted
from headwater.model.columns import Int64s
from headwater.model.message_ids import MessageIds
from headwater.model.run import Run
from headwater.stream import sliced_msgpack
from headwater.stream.publishing.dedupe import DedupeWindow, IdBlock, row_blocks, with_blocks
from headwater.stream.retention.removal import Overhead, Removal
from headwater.stream.subjects import SubjectIndex
from headwater.stream.timing.expiry import ExpiryIndex
from headwater.stream.timing.schedules import ScheduleIndex
from headwater.stream.timing.time_to_live import NEVER

Sizes = int | Sequence[int]


class Ledger:
    """Sequences, counts, sizes, subjects, remembered ids and times to live of one stream."""

    def __init__(self, overhead: Overhead, *, dedupe_window_ns: int = 0, history: bool = False) -> None:
        self.overhead = overhead
        self.first_seq = 0
        """The first message's; without one, that of the next message, 0 in a new stream."""
        self.last_seq = 0
        """The highest sequence that was ever assigned."""
        self.first_ts: int | None = None
        """Time of the first message; None when it must be looked up."""
        self.last_ts = 0
        """The time of the message that was stored last."""
        self.messages = 0
        """How many messages are alive."""
        self.size = 0
        """Their bytes as nats-server counts them, with its overhead for each."""
        self.removed_bytes = 0
        """How many bytes were removed since this ledger was built."""
        self.deleted = BitMap64()
        """Sequences between first and last that hold no message."""
        self.lost = BitMap64()
        """Deleted sequences whose messages were lost to damage, not removed."""
        self.last_message_id = b""
        """The `Nats-Msg-Id` of the message that was stored last."""
        self.subjects = SubjectIndex(history=history)
        self.dedupe = DedupeWindow(dedupe_window_ns)
        self.expiry = ExpiryIndex()
        self.schedules = ScheduleIndex()
        self.consumers: dict[str, list[bytes]] = {}
        """What replay found of each consumer: its state at the checkpoint, then its changes."""
        self.upstreams: dict[str, bytes] = {}
        """How far each upstream has been copied, and the last batch of each query; opaque here."""

    def is_live(self, seq: int) -> bool:
        """Return whether there is a message at this sequence."""
        return self.messages > 0 and self.first_seq <= seq <= self.last_seq and seq not in self.deleted

    def live_rows(self, run: Run, start_seq: int = 0, at_most: int | None = None) -> npt.NDArray[np.intp]:
        """Return the live rows of a run from `start_seq` on, among the next `at_most` rows."""
        first = int(run.seqs.searchsorted(start_seq))
        seqs = run.seqs[first : None if at_most is None else first + at_most]
        return np.flatnonzero(self.live_mask(seqs, start_seq)) + first

    def live_mask(self, seqs: Int64s, start_seq: int = 0) -> npt.NDArray[np.bool_]:
        """Return for each ascending sequence whether it is alive and not below `start_seq`."""
        floor = max(self.first_seq, start_seq)
        mask = (seqs >= floor) & (seqs <= self.last_seq)
        if not len(seqs) or not self.messages:
            return mask & bool(self.messages)
        low, high = int(seqs[0]), int(seqs[-1]) + 1
        if self.deleted.range_cardinality(low, high):
            mask &= ~np.isin(seqs, members(self.deleted, low, high - 1), assume_unique=True)
        return mask

    def live_between(self, start_seq: int, stop_seq: int) -> int:
        """Return how many messages live from `start_seq` to `stop_seq`, both included."""
        low, high = max(start_seq, self.first_seq), min(stop_seq, self.last_seq)
        if not self.messages or high < low:
            return 0
        return high - low + 1 - int(self.deleted.range_cardinality(low, high + 1))

    def append(self, seqs: Sequence[int], ts: Sequence[int], subjects: Sequence[bytes], sizes: Sizes) -> None:
        """Add new messages; sequences skipped before or among them count as deleted.

        `sizes` are the stored sizes, each for itself or only their sum where no subject history is kept.
        """
        if not seqs:
            return
        self._reserve(seqs)
        if not self.messages:
            self.first_ts = ts[0]
        self.messages += len(seqs)
        self.last_ts = ts[-1]
        self.last_message_id = b""
        if isinstance(sizes, int):
            assert self.subjects.history is None
            self.size += sizes
            self.subjects.add_run(subjects, seqs)
        else:
            self.size += sum(sizes)
            self.subjects.add_run(subjects, seqs, sizes)

    def _reserve(self, seqs: Sequence[int]) -> None:
        """Move `last_seq` to the end of these sequences and mark the ones left out."""
        first, last = seqs[0], seqs[-1]
        assert first > self.last_seq
        if not self.messages:
            # An empty stream has no gaps: sequences before its first message are not deleted, just not there.
            self.first_seq = first
            self.deleted.clear()
        elif first > self.last_seq + 1:
            self.deleted.add_range(self.last_seq + 1, first)
        if last - first + 1 != len(seqs):
            self.deleted |= BitMap64(range(first, last + 1)) - BitMap64(seqs)
        self.last_seq = last

    def adopt(self, adopted: Adopted) -> None:
        """Add the messages of a file by their sums."""
        first, last = adopted.first_seq, adopted.last_seq
        assert first > self.last_seq
        if not self.messages:
            self.first_seq = first
            self.deleted.clear()
            self.first_ts = adopted.first_ts
        elif first > self.last_seq + 1:
            self.deleted.add_range(self.last_seq + 1, first)
        if adopted.gaps:
            self.deleted |= BitMap64.deserialize(adopted.gaps).shift(adopted.base_seq)
        self.last_seq = last
        self.messages += adopted.rows
        self.size += (
            adopted.payload_bytes
            + adopted.rows * self.overhead.per_message
            + adopted.with_headers * self.overhead.per_headers
        )
        self.last_ts = adopted.last_ts
        self.last_message_id = b""
        base = adopted.base_seq
        self.subjects.add_counts({s: (n, base + at) for s, (n, at) in adopted.subjects.items()})

    def note_ids(
        self, adopted: Adopted, ids: MessageIds, rows: Sequence[Mapping[bytes, int]] | None = None
    ) -> None:
        """Remember the ids of the file that was adopted last; `rows` are their rows if these are known."""
        for table in row_blocks(ids.values()) if rows is None else rows:
            self.dedupe.add_block(IdBlock(ids.ts, adopted.first_seq, table))
        self.last_message_id = ids.last

    def note_headers(self, seq: int, ts: int, headers: bytes, ttl_ns: int | None = None) -> None:
        """Remember the message id and the time to live that a stored message carries."""
        message_id = header_block.get(headers, b"Nats-Msg-Id")
        if message_id:
            self.dedupe.add(message_id, seq, ts)
        if seq == self.last_seq:
            self.last_message_id = message_id or b""
        if ttl_ns == NEVER:
            self.expiry.never.add(seq)
        elif ttl_ns:
            self.expiry.add(seq, ts + ttl_ns)
            self.expiry.prune(self.is_live)

    def skip_to(self, last_seq: int) -> None:
        """Consume sequences up to this one without storing anything."""
        if last_seq <= self.last_seq:
            return
        if self.messages:
            self.deleted.add_range(self.last_seq + 1, last_seq + 1)
        else:
            self.first_seq = last_seq + 1
        self.last_seq = last_seq

    def remove(self, removal: Removal) -> None:
        """Remove single messages; `first_seq` moves up when the oldest ones are among them."""
        gone = removal.seqs
        self.messages -= len(gone)
        self.size -= removal.size
        self.removed_bytes += removal.size
        self._remove_subjects(removal)
        if not self.messages:
            self.remove_everything()
            return
        if not gone:
            return
        self.deleted |= gone
        if self.schedules:
            self.schedules.remove(gone)
        if self.expiry.never:
            self.expiry.never -= gone
        if self.first_seq in gone:
            self.move_first(self.next_live(self.first_seq))

    def remove_everything(self) -> None:
        """Remove every message; the next one still follows the last sequence."""
        self.messages = 0
        self.removed_bytes += max(self.size, 0)
        self.size = 0
        self.subjects.clear()
        self.expiry.clear()
        self.schedules.clear()
        self.deleted.clear()
        self.first_seq = self.last_seq + 1
        self.first_ts = None

    def remove_below(self, seq: int) -> None:
        """Remove every message below this sequence; the caller counts the sums again afterwards."""
        if not self.messages or seq <= self.first_seq:
            return
        self.messages -= self.live_between(0, seq - 1)
        if self.messages:
            self.move_first(self.next_live(seq))
        else:
            self.remove_everything()

    def still_there(self, removal: Removal) -> Removal:
        """Return the removal without what is not there, and without sums."""
        low, high = self.first_seq, self.last_seq
        return Removal((removal.seqs & BitMap64(range(low, high + 1))) - self.deleted)

    def restate(self, live: BitMap64, size: int, subjects: SubjectIndex) -> None:
        """Have exactly these messages, and these sums over them."""
        self.subjects = subjects
        if not live:
            if self.messages:
                self.remove_everything()
            return
        self.messages = len(live)
        self.size = size
        self.first_seq = live.min()
        self.first_ts = None
        self.deleted = BitMap64(range(self.first_seq, self.last_seq + 1)) - live
        self.expiry.never &= live
        self.schedules.retain(live)

    def _remove_subjects(self, removal: Removal) -> None:
        subjects = self.subjects
        for subject, gone in removal.subjects.items():
            left = subjects.count[subject] - gone
            if left <= 0:
                subjects.forget(subject)
            else:
                subjects.subtract(subject, left, removal.seqs)

    def move_first(self, first_seq: int) -> None:
        """Set the first sequence; everything below it is removed."""
        if first_seq == self.first_seq:
            return
        self.deleted.remove_range(0, first_seq)
        if self.expiry.never:
            self.expiry.never.remove_range(0, first_seq)
        self.first_seq = first_seq
        self.last_seq = max(self.last_seq, first_seq - 1)
        self.first_ts = None

    def next_live(self, seq: int) -> int:
        """Return the first live sequence from this one on; `last_seq + 1` if there is none."""
        if not self.messages:
            return self.last_seq + 1
        seq = max(seq, self.first_seq)
        deleted = self.deleted
        if seq not in deleted:
            return min(seq, self.last_seq + 1)
        step = 1
        while deleted.contains_range(seq, seq + step):
            seq += step
            step *= 2
        while step > 1:
            step //= 2
            if deleted.contains_range(seq, seq + step):
                seq += step
        return min(seq, self.last_seq + 1)

    def note_consumer(self, name: str, change: bytes) -> None:
        """Keep a replayed change of a consumer for delivery; an empty one means that it was deleted."""
        if change:
            self.consumers.setdefault(name, []).append(change)
        else:
            self.consumers.pop(name, None)

    def note_upstreams(self, known: Mapping[str, bytes]) -> None:
        """Record what is known of upstreams, or of the queries of bulk writes."""
        merge_known(self.upstreams, known)

    def record_loss(self, first_seq: int, last_seq: int) -> None:
        """Mark sequences whose stored bytes were found damaged."""
        self.lost.add_range(first_seq, last_seq + 1)

    def dump(self, consumers: dict[str, list[bytes]] | None = None) -> dict[str, Any]:
        """Return copies of everything, cheap enough for the event loop; `encode` runs on a thread.

        `consumers` are the consumers' states now; None dumps the ones that replay found.
        """
        return {
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "first_ts": self.first_ts,
            "last_ts": self.last_ts,
            "messages": self.messages,
            "size": self.size,
            "last_message_id": self.last_message_id,
            "deleted": self.deleted.serialize(),
            "lost": self.lost.serialize(),
            "subjects": self.subjects.dump(),
            "ids": self.dedupe.dump(),
            "id_blocks": self.dedupe.dump_blocks(),
            "expiry": self.expiry.dump(),
            "schedules": self.schedules.dump(),
            "consumers": self.consumers if consumers is None else consumers,
            "upstreams": dict(self.upstreams),
        }

    def restore(self, dumped: dict[str, Any]) -> None:
        """Take back what `dump` returned."""
        self.first_seq = dumped["first_seq"]
        self.last_seq = dumped["last_seq"]
        self.first_ts = dumped["first_ts"]
        self.last_ts = dumped["last_ts"]
        self.messages = dumped["messages"]
        self.size = dumped["size"]
        self.last_message_id = dumped["last_message_id"]
        self.deleted = BitMap64.deserialize(dumped["deleted"])
        self.lost = BitMap64.deserialize(dumped["lost"])
        self.subjects = SubjectIndex.restore(dumped["subjects"])
        self.dedupe.restore(with_blocks(dumped["ids"], dumped.get("id_blocks", [])))
        self.expiry.restore(dumped["expiry"])
        self.schedules.restore(dumped.get("schedules", []))
        self.consumers = dumped["consumers"]
        self.upstreams = dumped["upstreams"]


def merge_known(known: dict[str, bytes], changes: Mapping[str, bytes]) -> None:
    """Change what is known of upstreams; an empty value is forgotten."""
    for name, value in changes.items():
        if value:
            known[name] = value
        else:
            known.pop(name, None)


def members(bitmap: BitMap64, first_seq: int, last_seq: int) -> Int64s:
    """Return the sequences of a bitmap from first to last, both included."""
    return np.array((bitmap & BitMap64(range(first_seq, last_seq + 1))).to_array(), dtype=np.int64)


def encode(dumped: dict[str, Any]) -> bytes:
    """Return a dumped ledger as bytes for a checkpoint; runs on a thread and yields to others."""
    kept = {name: value for name, value in dumped.items() if name != "id_blocks"}
    kept["ids"] = with_blocks(dumped["ids"], dumped.get("id_blocks", []))
    return sliced_msgpack.encode(kept)


def decode(payload: bytes) -> dict[str, Any]:
    """Return the dumped ledger that a checkpoint holds."""
    dumped: dict[str, Any] = msgspec.msgpack.decode(payload)
    return dumped
