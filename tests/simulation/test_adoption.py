"""Whatever the disk does while files are adopted, cursor and messages are there together or not at all."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.model import headers as header_block
from headwater.model.adopted import Adopted
from headwater.stream import committer
from headwater.stream.replica import adopter
from headwater.stream.stream import Stream
from rounds import some_operations
from simulation.disks import Fault, PowerCut
from simulation.voyage import Machine
from stream.streams import config_of, everything
from table.links import staged_link
from table.samples import message

CONFIG = config_of(duplicate_window=0)
FILES, ROWS = 3, 20


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, first, most in (
        (committer, "RETRY_FIRST_S", "RETRY_MOST_S"),
        (adopter, "FIRST_PAUSE_S", "LONGEST_PAUSE_S"),
    ):
        monkeypatch.setattr(module, first, 0.001)
        monkeypatch.setattr(module, most, 0.001)


def staged(machine: Machine, stream: Stream, *, linked: bool) -> list[Adopted]:
    """Leave files as a transfer task does, durably, in the stream's staging directory."""
    staging = stream.directory / "staging"
    machine.disk.mkdir(staging)
    messages = [message(seq) for seq in range(ROWS)]
    made = [staged_link(staging, messages, f"file{number}", linked=linked) for number in range(FILES)]
    for file in made:
        machine.disk.sync_file(staging / file.name)
    machine.disk.sync_dir(staging)
    return made


class Copy:
    """A stream that publishes, adopts three files at once, publishes, folds; and what it said of that."""

    def __init__(self, machine: Machine, *, linked: bool) -> None:
        self.machine = machine
        self.linked = linked
        self.streams: list[Stream] = []
        self.is_taken = False

    async def run(self) -> None:
        """Do all of it."""
        stream = await self.machine.workshop.open(CONFIG)
        self.streams.append(stream)
        await self._publish(stream, 2)
        files = staged(self.machine, stream, linked=self.linked)
        assert await stream.replica.adopt("up", b"", files, b"done", mirrored=False) == FILES * ROWS
        self.is_taken = True
        await self._publish(stream, 2)
        await stream.folder.fold(force_checkpoint=True)
        await stream.close()

    async def _publish(self, stream: Stream, count: int) -> None:
        stream.publishing.offer([(b"s.1", b"", b"", b"local")] * count)
        await stream.publishing.settled()

    async def until_it_ends(self) -> None:
        """Run until all is done or the power is gone."""
        try:
            await self.run()
        except PowerCut:
            pass
        except Error:
            if not self.machine.disk._stopped:
                raise
        finally:
            for stream in self.streams:
                stream._committer.task.cancel()
                await asyncio.wait([stream._committer.task])
                if not stream._committer.task.cancelled():
                    stream._committer.task.exception()

    async def check(self) -> None:
        """Hold the stream to what it said, after a restart."""
        stream = await self.machine.workshop.open(CONFIG)
        found = await everything(stream)
        copied = [message for message in found if message.data != b"local"]
        is_there = stream.replica.cursor("up") == b"done"
        assert len(copied) == (FILES * ROWS if is_there else 0)
        assert is_there or not self.is_taken
        assert [m.data for m in copied] == [b"payload %d" % n for n in range(ROWS)] * (FILES * is_there)
        with_source = [header_block.get(m.headers, b"Nats-Stream-Source") is not None for m in copied]
        assert with_source == [self.linked] * len(copied)
        assert [m.seq for m in found] == sorted({m.seq for m in found})
        assert (await stream.reading.state()).messages == len(found)
        await self._publish(stream, 1)
        await stream.folder.fold(force_checkpoint=True)
        assert len(await everything(stream)) == len(found) + 1
        await stream.close()
        self.machine.workshop.close()


async def undisturbed(directory: Path, *, linked: bool) -> list[str]:
    """Return what it asks of the disk when nothing breaks."""
    copy = Copy(Machine(directory), linked=linked)
    await copy.run()
    copy.machine.workshop.close()
    return copy.machine.disk.history


@pytest.mark.parametrize("linked", [False, True], ids=["written", "linked"])
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "power cut"])
async def test_an_end_at_any_operation_leaves_all_files_and_the_cursor_or_none(
    tmp_path: Path, is_killed: bool, linked: bool
) -> None:
    history = await undisturbed(tmp_path / "undisturbed", linked=linked)
    for nth in some_operations(history, f"killed: {is_killed}, linked: {linked}", one_in=3):
        machine = Machine(tmp_path / str(nth), nth)
        machine.disk.break_at(nth, Fault.POWER_CUT)
        copy = Copy(machine, linked=linked)
        await copy.until_it_ends()
        assert machine.disk._stopped, f"operation {nth} was not reached"
        machine.kill() if is_killed else machine.cut_power()
        try:
            await copy.check()
        except BaseException as error:
            error.add_note(f"ended at operation {nth} ({history[nth - 1]})")
            raise
        shutil.rmtree(machine.directory)
