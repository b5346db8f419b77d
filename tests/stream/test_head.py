"""The head finds every message that is not in the table yet, and keeps only the newest in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.disk import RealDisk
from headwater.errors import CorruptionError
from headwater.log.batch import Batch, encode
from headwater.log.log import Log
from headwater.log.segment import segment_path
from headwater.model.message import Message
from headwater.stream import head as module
from headwater.stream.head import Head, HeadEntry
from stream.runs import message, run_of
from table.samples import messages_of


class Kept:
    """A head on a real log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = Log.open(directory, RealDisk(sync=False))
        self.head = Head(self.log)

    def append(self, messages: list[Message], *, resident: bool = True, written: bool = True) -> HeadEntry:
        run = run_of(messages)
        base = messages[0].seq
        batch = Batch(
            base_seq=base,
            timestamps=run.timestamps,
            subjects=run.subjects,
            headers=run.headers,
            datas=run.datas,
            first_seq=1,
            last_seq=messages[-1].seq,
            offsets=[m.seq - base for m in messages],
        )
        position = self.log.append([encode(batch)])[0] if written else None
        self.log.sync()
        entry = HeadEntry.of(run, position)
        self.head.append(entry, resident=resident)
        return entry


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path / "log")
    yield kept
    kept.log.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    gaps=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), max_size=8),
    released=st.lists(st.integers(0, 60), max_size=3),
)
def test_a_sequence_or_a_time_leads_to_the_first_batch_that_reaches_it(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[list[int]], released: list[int]
) -> None:
    kept = Kept(tmp_path_factory.mktemp("head") / "log")
    head, batches, seq = kept.head, [], 0
    for steps in gaps:
        seqs = [seq := seq + step for step in steps]
        kept.append([message(n) for n in seqs], resident=len(seqs) % 2 == 0)
        batches.append(seqs)
    for through in [0, *released]:
        head.release_through(through)
        batches = [seqs for seqs in batches if seqs[-1] > through]
        assert len(head) == len(batches)
        assert head.first_seq == (batches[0][0] if batches else None)
        assert head.first_ts == (batches[0][0] * 10 if batches else None)
        assert head.messages == sum(seqs[-1] - seqs[0] + 1 for seqs in batches)
        for wanted in range(seq + 2):
            found, since = head.entry_at(wanted), head.entry_since(wanted * 10)
            reaching = [seqs for seqs in batches if seqs[-1] >= wanted]
            if not reaching:
                assert found is since is None
                continue
            assert found is not None
            assert found is since
            assert [m.seq for m in messages_of(head.load(found))] == reaching[0]
    kept.log.close()


def test_only_the_newest_batches_stay_in_memory(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    one = run_of([message(1, data=b"x" * 100)]).nbytes
    monkeypatch.setattr(module, "RESIDENT_BYTES", 3 * one)
    entries = [kept.append([message(seq, data=b"x" * 100)]) for seq in range(1, 8)]
    assert [entry.run is not None for entry in entries] == [False] * 4 + [True] * 3
    assert kept.head.nbytes == 7 * one
    for seq, entry in enumerate(entries, 1):
        assert messages_of(kept.head.load(entry)) == [message(seq, data=b"x" * 100)]


def test_what_is_not_written_yet_stays_in_memory_however_much_it_is(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESIDENT_BYTES", 1)
    entries = [kept.append([message(seq)], written=False) for seq in (1, 2, 3)]
    assert all(entry.run is not None for entry in entries)
    for entry in entries:
        entry.position = kept.log.append([b""])[0]
    kept.append([message(4)])
    assert all(entry.run is None for entry in entries), "now the log has them"


def test_replayed_batches_are_read_back_from_the_log(kept: Kept) -> None:
    entry = kept.append([message(1), message(2)], resident=False)
    assert entry.run is None
    assert messages_of(kept.head.load(entry)) == [message(1), message(2)]


def test_memory_is_given_back_when_the_table_has_the_messages(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = run_of([message(1)]).nbytes
    monkeypatch.setattr(module, "RESIDENT_BYTES", 2 * one)
    entries = [kept.append([message(seq)]) for seq in range(1, 5)]
    kept.head.release_through(3)
    assert (len(kept.head), kept.head.nbytes, kept.head.messages) == (1, one, 1)
    later = kept.append([message(5)])
    assert entries[3].run is not None
    assert later.run is not None
    kept.append([message(6)])
    assert entries[3].run is None


def test_what_was_released_before_is_not_counted_twice(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    one = run_of([message(1)]).nbytes
    monkeypatch.setattr(module, "RESIDENT_BYTES", 2 * one)
    entries = [kept.append([message(seq)]) for seq in range(1, 6)]
    kept.head.release_through(1)
    entries += [kept.append([message(seq)]) for seq in (6, 7)]
    assert [entry.run is not None for entry in entries] == [False] * 5 + [True] * 2


def test_a_batch_reached_only_in_part_is_not_released(kept: Kept) -> None:
    kept.append([message(1), message(2), message(3)])
    kept.head.release_through(2)
    assert len(kept.head) == 1


def test_a_fold_takes_the_batches_of_sealed_segments_only(kept: Kept) -> None:
    first, second = kept.append([message(1)]), kept.append([message(2)])
    segment = kept.log.rotate()
    kept.append([message(3)])
    kept.append([message(4)], written=False)
    assert kept.head.below(segment) == [first, second]
    assert kept.head.below(first.position.segment if first.position else 0) == []


def test_a_damaged_batch_is_never_served(kept: Kept) -> None:
    entry = kept.append([message(1, data=b"payload")], resident=False)
    assert entry.position is not None
    path = segment_path(kept.directory, entry.position.segment)
    stored = bytearray(path.read_bytes())
    stored[stored.index(b"payload")] ^= 1
    path.write_bytes(stored)
    with pytest.raises(CorruptionError, match="checksum of a batch"):
        kept.head.load(entry)
