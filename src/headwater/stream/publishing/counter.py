"""The totals of a counter stream, and what each origin of a sourced one has counted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import NamedTuple

import msgspec

from headwater.errors import Error, api_error
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.store import Store

INCREMENT = b"Nats-Incr"
SOURCES = b"Nats-Counter-Sources"

_REMEMBERED = 100_000
_LARGEST = 10**4000
"""Python refuses to parse a number with more digits."""


class _Total(msgspec.Struct):
    val: str


class CounterTotal(NamedTuple):
    """The state of a counter: its total, and in JSON the part from each origin and subject."""

    total: int = 0
    sources: bytes = b""

    def plus(self, increment: int) -> CounterTotal:
        """Return the state after an increment."""
        return self._replace(total=sum_of(self.total, increment))

    def noted(self, headers: bytes) -> bytes:
        """Return the headers of the next message, with the parts from origins."""
        return header_block.set(headers, SOURCES, self.sources) if self.sources else headers


class CounterTotals:
    """The newest total on each subject, read back from the stream when it is not remembered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._totals: dict[bytes, tuple[int, CounterTotal]] = {}
        """A cache: the sequence and the total of the newest message on a subject."""

    def remembers(self, subject: bytes) -> bool:
        """Return whether the total of a subject is known without reading a message."""
        seq, remembered = self._store.ledger.subjects.last.get(subject, 0), self._totals.get(subject)
        return not seq or (remembered is not None and remembered[0] == seq)

    def must_read(self, subjects: Iterable[bytes]) -> bool:
        """Return whether the total of any of these subjects must be read from a file."""
        view = self._store.view
        return any(view.resident_run_at(seq) is None for seq in self._unknown(subjects).values())

    def _unknown(self, subjects: Iterable[bytes]) -> dict[bytes, int]:
        """Return the subjects whose counter total is in a stored message, each with its newest sequence."""
        index = self._store.ledger.subjects
        return {
            subject: index.last[subject]
            for subject in subjects
            if not self.remembers(subject) and subject not in index.stale
        }

    async def learn(self, subjects: Iterable[bytes]) -> None:
        """Read these totals on a thread; what cannot be read is an error of the publish that needs it."""
        if wanted := self._unknown(subjects):
            for subject, known in (await self._store.on_thread(self._read, wanted)).items():
                self._remember(subject, *known)

    def _read(self, wanted: Mapping[bytes, int]) -> dict[bytes, tuple[int, CounterTotal]]:
        """Return what these messages hold, each with its sequence; blocking."""
        found: dict[bytes, tuple[int, CounterTotal]] = {}
        run: Run | None = None
        for subject, seq in sorted(wanted.items(), key=itemgetter(1)):
            try:
                if run is None or seq > run.seqs[-1]:
                    run = self._store.view.read_run_at(seq)
                row = int(run.seqs.searchsorted(seq)) if run is not None else 0
                if run is not None and row < len(run.seqs) and run.seqs[row] == seq:
                    found[subject] = seq, _total_in(run.message(row))
            except Error:
                continue
        return found

    def remember(self, subject: bytes, total: CounterTotal) -> None:
        """Remember what the next message of the stream holds, which is on this subject."""
        self._remember(subject, self._store.ledger.last_seq + 1, total)

    def _remember(self, subject: bytes, seq: int, total: CounterTotal) -> None:
        self._totals.pop(subject, None)
        if len(self._totals) >= _REMEMBERED:
            # The oldest is in the stream by now, where it can be read back.
            del self._totals[next(iter(self._totals))]
        self._totals[subject] = (seq, total)

    def total_of(self, subject: bytes) -> CounterTotal:
        """Return what the newest message of a subject holds, nothing counted if there is none."""
        index = self._store.ledger.subjects
        seq = index.last.get(subject, 0)
        if seq and subject in index.stale:
            seq = self._store.find_last_now(subject, seq)
            index.settle(subject, seq)
        if not seq:
            return CounterTotal()
        remembered = self._totals.get(subject)
        if remembered is not None and remembered[0] == seq:
            return remembered[1]
        return _total_in(self._store.read_message_now(seq))


def counted(counters: CounterTotals, run: OfferedRun) -> OfferedRun:
    """Return copied messages as this stream counts them: an origin's total replaces the one before."""
    totals: dict[bytes, CounterTotal] = {}
    headers, datas = list(run.headers), list(run.datas)
    for row, (subject, block) in enumerate(zip(run.subjects, run.headers, strict=True)):
        said = (header_block.get(block, b"Nats-Stream-Source") or b"").split(b" ") if block else []
        if len(said) < 2 or header_block.get(block, INCREMENT) is None:
            continue
        before = totals.get(subject) or counters.total_of(subject)
        of_subject = (said[4] if len(said) > 4 else subject).decode()
        total = _total(datas[row])
        sources = _sources(before.sources)
        known = sources.setdefault(said[0].decode(), {})
        increment = total - int(known.get(of_subject) or 0)
        known[of_subject] = str(total)
        noted = json.dumps(sources, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        after = totals[subject] = before.plus(increment)._replace(sources=noted)
        headers[row] = after.noted(header_block.replace(block, INCREMENT, b"%d" % increment))
        datas[row] = body_of(after.total)
    return OfferedRun(run.seq_list, run.timestamps, run.subjects, headers, datas)


def _total_in(message: Message) -> CounterTotal:
    """Return what a message of a counter holds."""
    return CounterTotal(_total(message.data), header_block.get(message.headers, SOURCES) or b"")


def _total(data: bytes) -> int:
    try:
        return int(msgspec.json.decode(data, type=_Total).val)
    except (ValueError, msgspec.DecodeError):
        raise api_error("message_counter_broken") from None


def _sources(value: bytes) -> dict[str, dict[str, str]]:
    try:
        return msgspec.json.decode(value, type=dict[str, dict[str, str]]) if value else {}
    except msgspec.DecodeError:
        raise api_error("message_counter_broken") from None


def sum_of(total: int, increment: int) -> int:
    """Return a total after an increment; raise if it has become too large to be read back."""
    total += increment
    if abs(total) >= _LARGEST:
        raise api_error("message_counter_broken")
    return total


def body_of(total: int) -> bytes:
    """Return a total as the data of a message."""
    return b'{"val":"%d"}' % total
