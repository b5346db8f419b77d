"""The processes that run the sites of a directory: ids, and start times to detect reused ids."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import msgspec

from headwater import private_file
from headwater.errors import Error
from headwater.site.outages import Outages

RECORD_NAME = "running.json"
LOCK_NAME = "site.lock"


class Running(msgspec.Struct, frozen=True):
    """One process: its name, its id, and its start."""

    name: str
    pid: int
    born: str
    restarts: int = 0


class EngineState(msgspec.Struct, frozen=True):
    """What one engine of a site does, as the supervising process saw it last."""

    engine: str
    """The site that the engine is named after."""
    number: int
    process: Running | None
    state: str
    """`serving`, `standby`, `starting` or `down`."""
    since: float
    """Seconds since the epoch."""
    epoch: int = 0
    """The epoch of the store that it serves; zero if it does not."""


class RunRecord(msgspec.Struct, frozen=True):
    """The supervising process and its children."""

    keeper: Running
    files: tuple[str, ...]
    is_ready: bool = False
    children: tuple[Running, ...] = ()
    engines: tuple[EngineState, ...] = ()
    restarts: dict[str, int] = {}
    """How often each process was restarted, by name, whether it runs or not."""
    outages: Outages = Outages()
    """What was stopped and cut at the last look."""
    problem: str = ""
    """Why the last request for an outage, or for its end, could not be met."""
    nodes: str = ""
    """The number of nodes of every site, if it is not that of the file."""


def born(pid: int) -> str:
    """Return a text that identifies a process even if its id is reused, or "" if there is none."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""
        # The fields follow the command's name, which may contain spaces and brackets. Z is a zombie.
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] == "Z" else f"{boot} {fields[19]}"
    said = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return said.stdout.strip()


def lives(process: Running) -> bool:
    """Return whether the recorded process still runs."""
    return bool(process.born) and born(process.pid) == process.born


def running(name: str, pid: int, restarts: int = 0) -> Running:
    """Return the record of a running process."""
    return Running(name, pid, born(pid), restarts)


def write_record(directory: Path, record: RunRecord) -> None:
    """Replace the record of a directory."""
    data = msgspec.json.format(msgspec.json.encode(record), indent=2)
    private_file.replace(directory / RECORD_NAME, data)


def read_record(directory: Path) -> RunRecord | None:
    """Return the record of a directory, or None if there is no valid one."""
    try:
        return msgspec.json.decode((directory / RECORD_NAME).read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError):
        return None


def remove_record(directory: Path) -> None:
    """Remove the record."""
    (directory / RECORD_NAME).unlink(missing_ok=True)


def take_folder(directory: Path) -> TextIO:
    """Take the lock of a directory, held until the file is closed."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / LOCK_NAME).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        held = read_record(directory)
        who = f" by process {held.keeper.pid}" if held else ""
        raise Error(f"these sites are running already{who}: stop them with `headwater site down`") from None
    os.set_inheritable(lock.fileno(), False)
    return lock
