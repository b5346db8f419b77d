"""Every synced batch is replayed once and in order, whatever operation of the disk breaks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import DiskError
from headwater.log import Log, newest
from log.batches import numbered
from simulation.disks import BreakableDisk, Fault, PowerCut


@dataclass
class Script:
    """A log in use, and what must be found in it."""

    directory: Path
    disk: BreakableDisk
    log: Log | None = None
    synced: list[tuple[int, bytes]] = field(default_factory=list)
    unsynced: list[bytes] = field(default_factory=list)
    unsynced_segments: list[int] = field(default_factory=list)
    from_segment: int = 0
    seq: int = 0
    killed: bool = False
    """Whether an error ends the process, so that the log is opened again and not rolled back."""

    def open(self) -> None:
        """Open the log; what it holds is durable afterwards."""
        self.log = None
        record = self.directory.parent / newest.FILE
        log = Log.open(self.directory, self.disk, from_segment=self.from_segment, record=record)
        assert log.missing == "", "whatever breaks, no segment is missing that was there"
        found = [(position.segment, batch.encoded) for position, batch in log.replay()]
        assert found[: len(self.synced)] == self.synced
        rest = iter(self.unsynced)
        assert all(batch in rest for _, batch in found[len(self.synced) :]), (
            "more than what was appended, in order"
        )
        self.log, self.synced = log, found
        self._forget()

    def append(self) -> None:
        assert self.log is not None
        self.seq += 1
        batches = [numbered(self.seq, data=b"%d.%d" % (self.seq, n)) for n in range(self.seq % 3 + 1)]
        self.unsynced += batches
        self.unsynced_segments += [position.segment for position in self.log.append(batches)]

    def _forget(self) -> None:
        self.unsynced, self.unsynced_segments = [], []

    def sync(self) -> None:
        assert self.log is not None
        self.log.sync()
        self.synced += zip(self.unsynced_segments, self.unsynced, strict=True)
        self._forget()

    def rotate(self) -> None:
        assert self.log is not None
        self.sync()
        self.log.rotate()

    def rollback(self) -> None:
        assert self.log is not None
        self.log.rollback()
        self._forget()

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
    """Do the steps; after one that failed, recover and continue with the next."""
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


@pytest.mark.parametrize("seed", range(8))
def test_what_is_seen_after_a_kill_survives_a_power_cut_though_its_sync_had_failed(
    tmp_path: Path, seed: int
) -> None:
    script = Script(tmp_path / "log", BreakableDisk(tmp_path, seed), killed=True)
    run(script, ["open", "append", "sync", "append"])
    script.disk.break_at(script.disk.operations + 1, Fault.REFUSED)
    run(script, ["sync"])
    seen = list(script.synced)
    script.power_cut(seed)
    assert script.synced == seen


@pytest.mark.parametrize("seed", range(8))
def test_a_segment_that_a_kill_left_without_a_durable_name_gets_one_at_open(
    tmp_path: Path, seed: int
) -> None:
    disk = BreakableDisk(tmp_path, seed)
    script = Script(tmp_path / "log", disk, killed=True)
    run(script, ["open", "append", "sync"])
    for operation in (4, 5):  # after opening, writing and syncing the file: its directory, and taking it back
        disk.break_at(disk.operations + operation, Fault.REFUSED)
    run(script, ["rotate", "append", "sync"])
    assert script.log is not None
    assert script.log.segment == 3
    script.power_cut(seed)


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
