"""Whatever the disk does, a stream keeps what it acknowledged, and continues when it can."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from headwater.stream import committer
from rounds import choose_seed, some_operations
from simulation.disks import Fault
from simulation.voyage import Machine, Voyage, until_power_cut


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(committer, "RETRY_MOST_S", 0.001)


async def operations(directory: Path) -> list[str]:
    """Return what an undisturbed voyage asks of the disk."""
    machine = Machine(directory)
    voyage = Voyage(machine)
    await voyage.run()
    assert voyage.errors == 0
    machine.workshop.close()
    return machine.disk.history


async def operations_to_open(directory: Path) -> int:
    """Return how many operations it takes until a new stream is open."""
    voyage = Voyage(Machine(directory))
    await voyage.open()
    count = voyage.machine.disk.operations
    await voyage.close()
    return count


async def check_after_restart(voyage: Voyage) -> None:
    await voyage.open()
    await voyage.check()
    await voyage.check_it_goes_on()
    await voyage.stream.close()
    voyage.machine.workshop.close()


async def cut_at(directory: Path, nth: int, seed: int) -> Voyage:
    machine = Machine(directory, seed)
    machine.disk.break_at(nth, Fault.POWER_CUT)
    voyage = Voyage(machine)
    assert await until_power_cut(voyage), f"operation {nth} was not reached"
    return voyage


async def test_a_power_cut_at_any_operation_breaks_no_promise(tmp_path: Path) -> None:
    seed = choose_seed()
    history = await operations(tmp_path / "undisturbed")
    for nth in some_operations(history, "power cut"):
        directory = tmp_path / str(nth)
        voyage = await cut_at(directory, nth, seed + nth)
        voyage.machine.cut_power()
        try:
            await check_after_restart(voyage)
        except BaseException as error:
            error.add_note(f"power cut at operation {nth} ({history[nth - 1]}), TEST_SEED={seed}")
            raise
        shutil.rmtree(directory)


async def test_a_kill_at_any_operation_breaks_no_promise(tmp_path: Path) -> None:
    history = await operations(tmp_path / "undisturbed")
    for nth in some_operations(history, "kill"):
        directory = tmp_path / str(nth)
        voyage = await cut_at(directory, nth, nth)
        voyage.machine.kill()
        try:
            await check_after_restart(voyage)
        except BaseException as error:
            error.add_note(f"killed at operation {nth} ({history[nth - 1]})")
            raise
        shutil.rmtree(directory)


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.TORN, Fault.FULL, Fault.LATE])
async def test_one_broken_operation_breaks_no_promise_and_the_stream_continues(
    tmp_path: Path, fault: Fault
) -> None:
    history = await operations(tmp_path / "undisturbed")
    opening = await operations_to_open(tmp_path / "opened")
    for nth in some_operations(history, fault.name, opening):
        directory = tmp_path / str(nth)
        machine = Machine(directory, nth)
        machine.disk.break_at(nth, fault)
        voyage = Voyage(machine)
        try:
            await voyage.run(closing=False)
            machine.disk.heal()
            await voyage.check_it_goes_on()
            await voyage.close()
            machine.cut_power()
            await check_after_restart(voyage)
        except BaseException as error:
            error.add_note(f"{fault.name} at operation {nth} ({history[nth - 1]})")
            raise
        shutil.rmtree(directory)


async def test_a_full_disk_refuses_publishers_but_not_readers_until_there_is_room(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    voyage = Voyage(machine)
    await voyage.open()
    await voyage.publish(3)
    await voyage.stream.folder.fold(force_checkpoint=True)
    await voyage.publish(2)
    machine.disk.break_always(Fault.FULL)
    for _ in range(5):
        await voyage.publish(2)
        await voyage.remove(2)
        await voyage.tried(voyage.stream.folder.fold)
        await voyage.tried(voyage.stream.folder.tidy)
        await voyage.check()
    assert len(voyage.promised) == 5
    assert len(voyage.refused) == 10
    assert not voyage.removed
    machine.disk.heal()
    await voyage.check_it_goes_on()
    await voyage.close()
    machine.cut_power()
    await check_after_restart(voyage)


async def test_a_stream_continues_when_segments_below_its_checkpoint_could_not_be_removed(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    voyage = Voyage(machine)
    await voyage.open()
    await voyage.publish(3)
    machine.disk.break_at(machine.disk._counts["remove"] + 1, Fault.REFUSED, "remove")
    await voyage.tried(lambda: voyage.stream.folder.fold(force_checkpoint=True))
    assert voyage.errors == 1
    assert voyage.stream._store.log.segment_count > 1
    machine.disk.break_at(machine.disk._counts["sync"] + 1, Fault.REFUSED, "sync")
    await voyage.publish(1)
    await voyage.check_it_goes_on()
    await voyage.close()
    machine.cut_power()
    await check_after_restart(voyage)


@pytest.mark.parametrize("seed", range(12))
async def test_many_faults_and_cuts_in_any_order_break_no_promise(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    machine = Machine(tmp_path, seed)
    voyage = Voyage(machine)
    await voyage.open()
    for _ in range(40):
        if rng.random() < 0.4:
            fault = rng.choice([Fault.REFUSED, Fault.TORN, Fault.FULL, Fault.LATE])
            machine.disk.break_at(machine.disk.operations + rng.randrange(1, 12), fault)
        match rng.randrange(9):
            case 0 | 1 | 2 | 3:
                await voyage.publish(rng.randrange(1, 5))
            case 4:
                await voyage.remove(rng.choice(list(voyage.promised) or [1]))
            case 5:
                await voyage.purge(f"s.{rng.randrange(3)}")
            case 6:
                await voyage.tried(voyage.stream.folder.fold)
            case 7:
                await voyage.tried(voyage.stream.folder.tidy)
            case _:
                machine.disk.heal()
                await voyage.close()
                rng.choice([machine.cut_power, machine.kill])()
                await voyage.open()
        await voyage.check_unless_broken()
    machine.disk.heal()
    await voyage.check_it_goes_on()
    await voyage.close()
    machine.cut_power()
    await check_after_restart(voyage)
