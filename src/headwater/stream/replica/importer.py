"""Stores messages copied from an origin together with the cursor of the copy.

The cursor of an upstream is in the same batch as the messages that it covers. A crash leaves both or neither,
so the next copy begins exactly where the stream ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from headwater.errors import ApiError, Error, api_error
from headwater.model import headers as header_block
from headwater.model.adopted import Adopted
from headwater.model.stream import Discard
from headwater.stream.publishing.counter import CounterTotals, counted
from headwater.stream.publishing.dedupe import FileIds
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.sequencer import Sequencer
from headwater.stream.store import Store

BATCH_BYTES = 256 << 10
CursorAt = Callable[[int], bytes]
"""Returns the cursor that says: copied up to this sequence of the origin."""


class CursorMovedError(Error):
    """Another commit moved the cursor: what was copied does not begin where the stream ends now."""

    retryable = True


class Importer:
    """Stores what replication has copied; runs on the event loop, so each call is atomic."""

    def __init__(
        self, store: Store, sequencer: Sequencer, counters: Callable[[], CounterTotals | None] = lambda: None
    ) -> None:
        """`counters` returns the totals of the stream that were read before."""
        self._store = store
        self._sequencer = sequencer
        self._counters = counters
        self._is_account_full = False
        """Whether the last messages that did not enter were refused for the limit of the account."""

    def cursor(self, upstream: str) -> bytes:
        """Return how far an upstream has been copied, nothing if it never was."""
        return self._store.ledger.upstreams.get(upstream, b"")

    def take_mirrored(
        self, upstream: str, expected: bytes, copied: OfferedRun, cursor_at: CursorAt, through: int
    ) -> int:
        """Store messages with the origin's sequences and times, up to `through` or as far as there is room.

        Return how many.
        """
        self._check(upstream, expected)
        last_seq = self._store.ledger.last_seq
        fresh = [row for row, seq in enumerate(copied.seq_list) if seq > last_seq]
        taken = 0
        for piece, rollup in self._pieces(copied if len(fresh) == len(copied) else _rows(copied, fresh)):
            room = self._room(piece)
            fitting = piece if room == len(piece) else _rows(piece, range(room))
            if len(fitting):
                cursor = cursor_at(fitting.seq_list[-1])
                self._sequencer.take_in(fitting, upstream, cursor, rollup if room == len(piece) else b"")
            taken += len(fitting)
            if room < len(piece):
                return taken
        self._sequencer.note_cursor(upstream, cursor_at(through), through)
        return taken

    def take_sourced(
        self, upstream: str, expected: bytes, copied: OfferedRun, cursor_at: CursorAt, through: int
    ) -> int:
        """Store messages as new ones, up to `through` or as far as there is room; return how many."""
        self._check(upstream, expected)
        taken = 0
        for piece, rollup in self._pieces(copied):
            room = self._room(piece)
            if room < len(piece):
                room = _first_of(piece, room)
                through = piece.seq_list[room - 1] if room else 0
                piece, rollup = _rows(piece, range(room)), b""
            if len(piece):
                self._take_piece(upstream, piece, cursor_at, rollup)
            taken += len(piece)
            if not through or (len(piece) and through == piece.seq_list[-1]):
                break
        if through:
            self._sequencer.note_cursor(upstream, cursor_at(through))
        return taken

    def adopt(
        self,
        upstream: str,
        expected: bytes,
        adopted: Sequence[Adopted],
        known: Mapping[str, bytes],
        *,
        mirrored: bool,
        ids: Sequence[FileIds] = (),
    ) -> list[Adopted]:
        """Add files of copied messages at the end, in one change; return them with their sequences.

        `known` is what is known of upstreams from then on, with the cursor of this one. `ids` are those that
        the duplicate window must remember.
        """
        self._check(upstream, expected)
        last_seq, last_ts = self._store.ledger.last_seq, self._sequencer.floor_ts
        placed: list[Adopted] = []
        for file, ts in zip(adopted, _latest(adopted, self._sequencer.now()), strict=True):
            if mirrored and file.first_seq <= last_seq:
                raise CursorMovedError(f"{file.name} begins before the end of the stream")
            placed.append(file if mirrored else file.behind(last_seq, last_ts, ts))
            last_seq, last_ts = placed[-1].last_seq, placed[-1].last_ts
        self._store.adoptions.announce(placed)
        self._sequencer.adopt(placed, known, ids)
        return placed

    def pass_over(
        self, upstream: str, expected: bytes, cursor: bytes, noted: Mapping[str, bytes], last_seq: int
    ) -> None:
        """Move a cursor past what its origin has no longer, with a note of that in the same change."""
        self._check(upstream, expected)
        self._sequencer.note_upstreams({upstream: cursor, **noted}, last_seq)

    def _take_piece(self, upstream: str, piece: OfferedRun, cursor_at: CursorAt, rollup: bytes) -> None:
        """Give the messages of a piece their sequences here, except those whose id is known."""
        cursor = cursor_at(piece.seq_list[-1])
        now = self._sequencer.now()
        fresh = self._unknown(piece, now)
        if not fresh:
            self._sequencer.note_cursor(upstream, cursor)
            return
        base = self._store.ledger.last_seq + 1
        chosen = piece if len(fresh) == len(piece) else _rows(piece, fresh)
        if self._store.config.allow_msg_counter:
            chosen = counted(self._counters() or CounterTotals(self._store), chosen)
        run = OfferedRun(
            range(base, base + len(chosen)),
            range(now, now + len(chosen)),
            chosen.subjects,
            chosen.headers,
            chosen.datas,
        )
        # A rollup whose id is known was applied when it was first stored.
        self._sequencer.take_in(run, upstream, cursor, rollup if fresh[-1] == len(piece) - 1 else b"")

    def _pieces(self, run: OfferedRun) -> Iterator[tuple[OfferedRun, bytes]]:
        """Yield the run in pieces of about the size that a batch should have, each with its rollup.

        Where messages may roll up others, one that does ends its piece; one of everything stands alone.
        """
        config = self._store.config
        if not (config.allow_rollup_hdrs and not config.deny_purge and any(run.headers)):
            yield from ((piece, b"") for piece in _pieces(run))
            return
        start = 0
        for row, block in enumerate(run.headers):
            rollup = (header_block.get(block, b"Nats-Rollup") or b"").lower() if block else b""
            if rollup not in (b"sub", b"all"):
                continue
            first = row if rollup == b"all" else start
            yield from ((piece, b"") for piece in _pieces(_rows(run, range(start, first))))
            *before, last = _pieces(_rows(run, range(first, row + 1)))
            yield from ((piece, b"") for piece in before)
            yield last, rollup
            start = row + 1
        yield from ((piece, b"") for piece in _pieces(_rows(run, range(start, len(run)))))

    def _check(self, upstream: str, expected: bytes) -> None:
        if self.cursor(upstream) != expected:
            raise CursorMovedError(f"the cursor of {upstream!r} has moved on")

    def _unknown(self, piece: OfferedRun, now: int) -> list[int]:
        """Return the rows whose message id was not stored within the duplicate window."""
        dedupe = self._store.ledger.dedupe
        if not dedupe.window_ns or not any(piece.headers):
            return list(range(len(piece)))
        rows, seen = [], set()
        for row, block in enumerate(piece.headers):
            message_id = header_block.get(block, b"Nats-Msg-Id") if block else None
            if message_id and (message_id in seen or dedupe.find(message_id, now) is not None):
                continue
            if message_id:
                seen.add(message_id)
            rows.append(row)
        return rows

    def require_room(self, adopted: Sequence[Adopted]) -> None:
        """Refuse files for which the account has no room."""
        free = self._free_bytes()
        overhead = self._store.ledger.overhead
        size = sum(
            file.payload_bytes + file.rows * overhead.per_message + file.with_headers * overhead.per_headers
            for file in adopted
        )
        if free is not None and size > free:
            raise api_error("account_resources_exceeded")

    def _free_bytes(self) -> int | None:
        """Return what the account may still store; None without a limit."""
        return self._store.services.free_bytes(self._store.config.storage)

    def _room(self, piece: OfferedRun) -> int:
        """Return how many messages of a piece may enter, and note why no more."""
        room, free = self._room_in_stream(piece), self._free_bytes()
        if free is None:
            return room
        total = np.cumsum(self._store.ledger.overhead.sizes(piece)[:room])
        fitting = int(np.searchsorted(total, free, side="right"))
        self._is_account_full = fitting < room
        return fitting

    def refusal(self) -> ApiError:
        """Return why the last messages that did not enter were refused."""
        if self._is_account_full:
            return api_error("account_resources_exceeded")
        return api_error("stream_store_failed", err="the stream is full and discards new messages")

    def _room_in_stream(self, piece: OfferedRun) -> int:
        """Return how many messages of a piece may enter where new ones are refused when it is full."""
        config, ledger = self._store.config, self._store.ledger
        if config.discard is not Discard.NEW:
            return len(piece)
        room = len(piece)
        if config.max_msgs > 0:
            room = min(room, max(config.max_msgs - ledger.messages, 0))
        if config.max_bytes > 0:
            left = config.max_bytes - ledger.size
            for row, size in enumerate(ledger.overhead.sizes(piece).tolist()):
                left -= size
                if left < 0:
                    room = min(room, row)
                    break
        return self._room_on_subjects(piece, room) if config.discard_new_per_subject else room

    def _room_on_subjects(self, piece: OfferedRun, room: int) -> int:
        """Return how many messages of a piece may enter where a full subject refuses new ones."""
        limit = self._store.config.max_msgs_per_subject
        count: Counter[bytes] = Counter()
        for row, subject in enumerate(piece.subjects[:room] if limit > 0 else ()):
            count[subject] += 1
            if count[subject] + self._store.ledger.subjects.count.get(subject, 0) > limit:
                return row
        return room


def _pieces(run: OfferedRun) -> list[OfferedRun]:
    """Return the run in pieces of about the size that a batch should have."""
    count = len(run)
    step = max(1, count * BATCH_BYTES // max(run.payload_bytes, BATCH_BYTES))
    if count <= step:
        return [run] if count else []
    # A cursor is for whole messages of the origin: those that one of them became stay together.
    cuts = sorted({_first_of(run, start) for start in range(0, count, step)} | {count})
    return [_rows(run, range(start, stop)) for start, stop in pairwise(cuts)]


def _first_of(run: OfferedRun, row: int) -> int:
    """Return the first row that came from the same message of the origin as this one."""
    while 0 < row < len(run) and run.seq_list[row] == run.seq_list[row - 1]:
        row -= 1
    return row


def _rows(run: OfferedRun, rows: Sequence[int]) -> OfferedRun:
    """Return these rows of a run."""
    return OfferedRun(
        [run.seq_list[row] for row in rows],
        [run.timestamps[row] for row in rows],
        [run.subjects[row] for row in rows],
        [run.headers[row] for row in rows],
        [run.datas[row] for row in rows],
    )


def _latest(adopted: Sequence[Adopted], now: int) -> list[int]:
    """Return for each file the latest time that its messages can have: those behind it may bring theirs."""
    latest: list[int] = []
    for file in reversed(adopted):
        now = min(now, file.first_ts) if file.copied is None else now
        latest.append(now)
    return latest[::-1]
