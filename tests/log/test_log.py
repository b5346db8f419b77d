"""Every synced batch is replayed once and in order, whatever breaks; damaged bytes are never served."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.disk import RealDisk
from headwater.errors import CorruptionError, DiskError
from headwater.log import Log
from headwater.log.segment import SEGMENT_HEADER_SIZE, STAMP_SIZE, segment_path
from log.batches import numbered
from simulation.disks import BreakableDisk, Fault, PowerCut


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk(sync=False)


def contents(log: Log) -> list[bytes]:
    return [batch.encoded for _, batch in log.replay()]


def reopened(log: Log, directory: Path, disk: RealDisk) -> Log:
    log.close()
    return Log.open(directory, disk)


def test_a_new_log_is_empty(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    assert contents(log) == []
    assert log.segment == 1
    assert log.size_bytes == SEGMENT_HEADER_SIZE
    assert contents(reopened(log, directory, disk)) == []


def test_batches_are_replayed_where_append_said_they_lie(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    positions = log.append([numbered(1), numbered(2, count=3)])
    positions += log.append([numbered(5)])
    log.sync()
    log = reopened(log, directory, disk)
    assert [position for position, _ in log.replay()] == positions
    assert [batch.base_seq for _, batch in log.replay()] == [1, 2, 5]
    assert [log.read(position).base_seq for position in positions] == [1, 2, 5]
    assert log.damage == []


def test_a_batch_can_be_read_before_it_is_synced(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    [position] = log.append([numbered(1)])
    assert log.read(position).encoded == numbered(1)


def test_appends_after_a_reopen_follow_the_old_ones(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    log = reopened(log, directory, disk)
    [position] = log.append([numbered(2)])
    log.sync()
    assert log.read(position).base_seq == 2
    assert contents(log) == contents(reopened(log, directory, disk)) == [numbered(1), numbered(2)]


def test_size_counts_all_segments(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    log.rotate()
    log.append([numbered(2)])
    assert log.size_bytes == sum(path.stat().st_size for path in directory.iterdir())


def test_trim_removes_what_is_below_and_nothing_else(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    for seq in (1, 2, 3):
        log.append([numbered(seq)])
        log.sync()
        log.rotate()
    log.trim(3)
    assert contents(log) == [numbered(3)]
    assert sorted(path.name for path in directory.iterdir()) == [
        segment_path(directory, 3).name,
        segment_path(directory, 4).name,
    ]
    log.close()
    log = Log.open(directory, disk, from_segment=3)
    assert contents(log) == [numbered(3)]
    assert log.damage == []


def test_open_removes_segments_below_the_checkpoint(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    start = log.rotate()
    log.append([numbered(2)])
    log.sync()
    log.close()
    log = Log.open(directory, disk, from_segment=start)
    assert contents(log) == [numbered(2)]
    assert len(list(directory.iterdir())) == 1


def test_a_log_whose_segments_are_all_below_the_checkpoint_goes_on_there(
    directory: Path, disk: RealDisk
) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    log.close()
    log = Log.open(directory, disk, from_segment=7)
    assert log.segment == 7
    assert contents(log) == []


def test_files_that_are_no_segments_are_left_alone(directory: Path, disk: RealDisk) -> None:
    Log.open(directory, disk).close()
    for name in ("1.log", "note.txt", "0000000000000000000x.log", "00000000000000000001.log.tmp"):
        (directory / name).write_bytes(b"mine")
    log = Log.open(directory, disk)
    assert log.segment == 1
    assert len(list(directory.iterdir())) == 5


def test_appending_after_a_failure_without_rollback_is_a_bug(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    log = Log.open(tmp_path / "log", disk)
    disk.break_at(disk.operations + 1, Fault.TORN)
    with pytest.raises(DiskError):
        log.append([numbered(1)])
    with pytest.raises(AssertionError):
        log.append([numbered(1)])
    with pytest.raises(AssertionError):
        log.sync()
    log.rollback()
    log.append([numbered(2)])
    assert contents(log) == [numbered(2)]


def test_rotating_what_is_not_synced_is_a_bug(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    with pytest.raises(AssertionError):
        log.rotate()


def test_a_rollback_forgets_what_was_not_synced(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    log.append([numbered(2, data=b"old")])
    log.rollback()
    log.append([numbered(2, data=b"new")])
    log.sync()
    expected = [numbered(1), numbered(2, data=b"new")]
    assert contents(log) == expected
    log = reopened(log, directory, disk)
    assert contents(log) == expected
    assert log.damage == []


def test_a_rollback_on_a_full_disk_succeeds_once_there_is_space(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    log = Log.open(tmp_path / "log", disk)
    log.append([numbered(1)])
    log.sync()
    disk.break_always(Fault.FULL)
    with pytest.raises(DiskError) as refused:
        log.append([numbered(2)])
    assert refused.value.full
    for _ in range(3):
        with pytest.raises(DiskError):
            log.rollback()
    disk.heal()
    log.rollback()
    log.append([numbered(3)])
    log.sync()
    assert contents(log) == [numbered(1), numbered(3)]
    log.close()
    assert contents(Log.open(tmp_path / "log", disk)) == [numbered(1), numbered(3)]


def test_a_rolled_back_batch_stays_away_even_if_the_cut_never_reached_the_disk(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    log = Log.open(tmp_path / "log", disk)
    log.append([numbered(1)])
    log.sync()
    log.append([numbered(2, data=b"old")])
    disk.break_at(1, Fault.REFUSED, "truncate")
    log.rollback()
    log.append([numbered(2, data=b"new")])
    log.sync()
    log.close()
    log = Log.open(tmp_path / "log", disk)
    assert contents(log) == [numbered(1), numbered(2, data=b"new")]
    assert log.damage == []


# What a crash leaves at the end.


def two_batches(directory: Path, disk: RealDisk) -> Path:
    log = Log.open(directory, disk)
    log.append([numbered(1), numbered(2)])
    log.sync()
    log.close()
    return segment_path(directory, 1)


def test_a_last_batch_cut_anywhere_is_dropped_and_recorded(directory: Path, disk: RealDisk) -> None:
    whole = two_batches(directory, disk).read_bytes()
    start = len(whole) - len(numbered(2)) - STAMP_SIZE
    for end in range(start + 1, len(whole)):
        segment_path(directory, 1).write_bytes(whole[:end])
        log = Log.open(directory, RealDisk(sync=False))
        assert contents(log) == [numbered(1)]
        [damage] = log.damage
        assert damage.torn
        assert damage.position.offset in (start, start + STAMP_SIZE)
        log.append([numbered(2)])
        log.sync()
        log.close()
        assert segment_path(directory, 1).read_bytes() == whole


def test_a_torn_batch_whose_head_survived_is_named(directory: Path, disk: RealDisk) -> None:
    path = two_batches(directory, disk)
    path.write_bytes(path.read_bytes()[:-1])
    [damage] = Log.open(directory, disk).damage
    assert damage.torn
    assert (damage.base_seq, damage.count, damage.last_seq) == (2, 1, 2)


@pytest.mark.parametrize(
    "garbage", [b"\0" * 5000, b"\xff" * 99, b"\xf1HWB" * 50], ids=["zeros", "ones", "magic"]
)
def test_garbage_after_the_last_batch_is_dropped(directory: Path, disk: RealDisk, garbage: bytes) -> None:
    path = two_batches(directory, disk)
    whole = path.read_bytes()
    path.write_bytes(whole + garbage)
    log = Log.open(directory, disk)
    assert contents(log) == [numbered(1), numbered(2)]
    assert [damage.torn for damage in log.damage] == [True]
    assert path.read_bytes() == whole


@pytest.mark.parametrize("begun", [0, 1, SEGMENT_HEADER_SIZE - 1])
def test_a_newest_segment_that_was_hardly_begun_is_removed(
    directory: Path, disk: RealDisk, begun: int
) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    newest = segment_path(directory, log.rotate())
    log.close()
    newest.write_bytes(newest.read_bytes()[:begun])
    log = Log.open(directory, disk)
    assert not newest.exists()
    log.append([numbered(2)])
    log.sync()
    assert contents(log) == contents(reopened(log, directory, disk)) == [numbered(1), numbered(2)]


def test_a_newest_segment_that_is_missing_is_fine(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    newest = segment_path(directory, log.rotate())
    log.close()
    newest.unlink()
    assert contents(Log.open(directory, disk)) == [numbered(1)]


def test_a_batch_inside_a_payload_is_never_taken_for_a_record(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1), numbered(2, data=numbered(666)), numbered(3)])
    log.sync()
    log.close()
    path = segment_path(directory, 1)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(numbered(2, data=numbered(666)))] ^= 1
    path.write_bytes(damaged)
    assert contents(Log.open(directory, disk)) == [numbered(1), numbered(3)]


# Damage.


def three_segments(directory: Path, disk: RealDisk) -> dict[int, list[bytes]]:
    """Write two batches to each of three segments, and return which."""
    log = Log.open(directory, disk)
    written = {}
    for number in (1, 2, 3):
        written[number] = [numbered(10 * number, count=3), numbered(10 * number + 3)]
        log.append(written[number])
        log.sync()
        if number < 3:
            log.rotate()
    log.close()
    return written


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_flipped_bit_anywhere_is_reported_and_never_served(data: st.DataObject) -> None:
    with TemporaryDirectory() as root:
        directory = Path(root)
        disk = RealDisk(sync=False)
        written = three_segments(directory, disk)
        number = data.draw(st.sampled_from(sorted(written)))
        path = segment_path(directory, number)
        damaged = bytearray(path.read_bytes())
        bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        log = Log.open(directory, RealDisk(sync=False))
        served = contents(log)
        [damage] = log.damage
        everything = [batch for batches in written.values() for batch in batches]
        hit = _batch_at(written[number], bit // 8)
        assert served == [batch for batch in everything if batch != hit]
        assert damage.position.segment == number
        assert damage.position.offset <= bit // 8 < damage.position.offset + damage.position.length
        assert damage.torn == (number == 3 and hit == written[3][-1])


def _batch_at(batches: Sequence[bytes], offset: int) -> bytes | None:
    """Return the batch whose record holds the byte at this offset, None in the header."""
    end = SEGMENT_HEADER_SIZE
    for batch in batches:
        if end <= offset < (end := end + STAMP_SIZE + len(batch)):
            return batch
    return None


def test_a_damaged_body_is_named_by_its_sequences(directory: Path, disk: RealDisk) -> None:
    written = three_segments(directory, disk)
    path = segment_path(directory, 2)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"subject")] ^= 1
    path.write_bytes(damaged)
    log = Log.open(directory, disk)
    assert len(contents(log)) == sum(map(len, written.values())) - 1
    [damage] = log.damage
    assert (damage.base_seq, damage.count, damage.last_seq, damage.torn) == (20, 3, 22, False)
    with pytest.raises(CorruptionError) as refused:
        log.read(damage.position)
    assert (refused.value.path, refused.value.offset) == (path, damage.position.offset)
    assert list(log.replay())
    assert len(log.damage) == 1


def test_a_sealed_segment_that_was_cut_is_damaged(directory: Path, disk: RealDisk) -> None:
    written = three_segments(directory, disk)
    path = segment_path(directory, 2)
    path.write_bytes(path.read_bytes()[: -len(written[2][1]) - STAMP_SIZE])
    log = Log.open(directory, disk)
    assert contents(log) == [*written[1], written[2][0], *written[3]]
    [damage] = log.damage
    assert not damage.torn
    assert damage.position.segment == 2


def test_a_sealed_segment_that_is_missing_is_damaged(directory: Path, disk: RealDisk) -> None:
    written = three_segments(directory, disk)
    segment_path(directory, 2).unlink()
    log = Log.open(directory, disk)
    assert contents(log) == [*written[1], *written[3]]
    assert [damage.position.segment for damage in log.damage] == [2]


def test_a_segment_of_an_unknown_version_is_refused_and_kept(directory: Path, disk: RealDisk) -> None:
    three_segments(directory, disk)
    path = segment_path(directory, 3)
    future = bytearray(path.read_bytes())
    future[8] = 2
    future[44:48] = crc32(future[:44]).to_bytes(4, "little")
    path.write_bytes(future)
    with pytest.raises(CorruptionError, match="version 2"):
        Log.open(directory, disk)
    assert path.read_bytes() == future


def test_large_damage_is_skipped_over_many_windows(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    big = numbered(2, data=b"\xf1HWB" * 700_000)
    positions = log.append([numbered(1), big, numbered(3)])
    log.sync()
    log.close()
    path = segment_path(directory, 1)
    damaged = bytearray(path.read_bytes())
    damaged[positions[1].offset] ^= 1
    path.write_bytes(damaged)
    assert contents(Log.open(directory, disk)) == [numbered(1), numbered(3)]


# Everything breaks, at every operation.


@dataclass
class Script:
    """A log in use, and what must be found in it."""

    directory: Path
    disk: BreakableDisk
    log: Log | None = None
    synced: list[tuple[int, bytes]] = field(default_factory=list)
    unsynced: list[tuple[int, bytes]] = field(default_factory=list)
    from_segment: int = 0
    seq: int = 0
    killed: bool = False
    """Whether an error ends the process, so that the log is opened again and not rolled back."""

    def open(self) -> None:
        """Open the log; what it holds is durable afterwards."""
        self.log = None
        log = Log.open(self.directory, self.disk, from_segment=self.from_segment)
        found = [(position.segment, batch.encoded) for position, batch in log.replay()]
        assert found[: len(self.synced)] == self.synced
        rest = iter(self.unsynced)
        assert all(item in rest for item in found[len(self.synced) :]), (
            "more than what was appended, in order"
        )
        self.log, self.synced, self.unsynced = log, found, []

    def append(self) -> None:
        assert self.log is not None
        self.seq += 1
        batches = [numbered(self.seq, data=b"%d.%d" % (self.seq, n)) for n in range(self.seq % 3 + 1)]
        self.unsynced += [(self.log.segment, batch) for batch in batches]
        self.log.append(batches)

    def sync(self) -> None:
        assert self.log is not None
        self.log.sync()
        self.synced += self.unsynced
        self.unsynced = []

    def rotate(self) -> None:
        assert self.log is not None
        self.sync()
        self.log.rotate()

    def rollback(self) -> None:
        assert self.log is not None
        self.log.rollback()
        self.unsynced = []

    def recover(self) -> None:
        """Do what the owner of a log does after an error, as often as it takes."""
        if self.killed and self.log is not None:
            self.log.close()
            self.log = None
        for _ in range(10):
            try:
                return self.open() if self.log is None else self.rollback()
            except DiskError:
                continue
        pytest.fail("no run has as many faults as this")

    def trim(self) -> None:
        assert self.log is not None
        # As a checkpoint does: first it is durable where replay starts, then the segments below go.
        self.from_segment = self.log.segment
        self.synced = [item for item in self.synced if item[0] >= self.from_segment]
        self.log.trim(self.from_segment)

    def reopen(self) -> None:
        assert self.log is not None
        self.log.close()
        self.open()

    def power_cut(self, seed: int) -> None:
        if self.log is not None:
            self.log.close()
        self.disk.power_cut(random.Random(seed))
        self.open()


Step = Literal["open", "append", "sync", "rotate", "rollback", "trim", "reopen"]
STEPS: list[Step] = [
    *("open", "append", "sync", "append", "append", "sync", "rotate", "append", "sync", "append", "rollback"),
    *("append", "sync", "rotate", "trim", "append", "sync", "reopen", "append", "rotate", "append", "sync"),
]


def run(script: Script, steps: Sequence[Step]) -> None:
    """Do the steps; after one that failed, recover and go on with the next."""
    for step in steps:
        try:
            getattr(script, step)()
        except DiskError:
            script.recover()


def operations_of(steps: Sequence[Step]) -> int:
    with TemporaryDirectory() as root:
        script = Script(Path(root) / "log", BreakableDisk(Path(root)))
        run(script, steps)
        return script.disk.operations


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.TORN, Fault.FULL, Fault.LATE])
def test_after_any_failed_operation_a_rollback_leaves_exactly_the_synced_batches(fault: Fault) -> None:
    for operation in range(1, operations_of(STEPS) + 1):
        with TemporaryDirectory() as root:
            disk = BreakableDisk(Path(root), seed=operation)
            script = Script(Path(root) / "log", disk)
            disk.break_at(operation, fault)
            for step in STEPS:
                run(script, [step])
                if disk.operations >= operation:
                    break
            expected = list(script.synced)
            script.rollback()
            script.reopen()
            assert script.synced == expected
            script.power_cut(operation)
            assert script.synced == expected


@pytest.mark.parametrize("second", [Fault.REFUSED, Fault.LATE])
def test_two_failures_close_together_lose_nothing_either(second: Fault) -> None:
    for operation in range(1, operations_of(STEPS) + 1):
        for distance in range(1, 6):
            with TemporaryDirectory() as root:
                disk = BreakableDisk(Path(root), seed=operation)
                script = Script(Path(root) / "log", disk)
                disk.break_at(operation, Fault.REFUSED)
                disk.break_at(operation + distance, second)
                run(script, STEPS)
                disk.heal()
                script.power_cut(operation)


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_at_any_operation_keeps_every_synced_batch(seed: int) -> None:
    for operation in range(1, operations_of(STEPS) + 1):
        with TemporaryDirectory() as root:
            disk = BreakableDisk(Path(root), seed=seed)
            script = Script(Path(root) / "log", disk)
            disk.break_at(operation, Fault.POWER_CUT)
            try:
                run(script, STEPS)
            except PowerCut:
                script.power_cut(seed * 1000 + operation)
                run(script, ["append", "sync", "reopen"])


random_steps = st.lists(
    st.sampled_from(["append", "append", "sync", "rotate", "trim", "rollback", "reopen"]), max_size=25
)
random_faults = st.dictionaries(
    st.integers(1, 150),
    st.sampled_from([fault for fault in Fault if fault is not Fault.POWER_CUT]),
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(random_steps, random_faults, st.integers(1, 150), st.integers(0, 1 << 32), st.booleans())
def test_synced_batches_survive_any_use_with_any_faults_and_two_power_cuts(
    steps: list[Step], faults: dict[int, Fault], cut_at: int, seed: int, killed: bool
) -> None:
    with TemporaryDirectory() as root:
        disk = BreakableDisk(Path(root), seed=seed)
        script = Script(Path(root) / "log", disk, killed=killed)
        script.open()
        for operation, fault in {**faults, cut_at: Fault.POWER_CUT}.items():
            disk.break_at(disk.operations + operation, fault)
        for step in steps:
            try:
                run(script, [step])
            except PowerCut:
                disk.heal()
                script.power_cut(seed)
        disk.heal()
        script.power_cut(seed + 1)
