"""Who runs the sites of a folder: process ids, and what tells each from a later one of the same number."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import msgspec

from headwater.errors import Error
from headwater.site.private_file import write_private

RECORD_NAME = "running.json"
LOCK_NAME = "site.lock"


class Running(msgspec.Struct, frozen=True):
    """One process: its name here, its number, and its birth."""

    name: str
    pid: int
    born: str


class RunRecord(msgspec.Struct, frozen=True):
    """What runs: the process that keeps the others, and those it keeps."""

    keeper: Running
    files: tuple[str, ...]
    is_ready: bool = False
    children: tuple[Running, ...] = ()


def born(pid: int) -> str:
    """Return what no later process of this number can have, or nothing when there is no such process."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""
        # Behind the command's name, which may itself hold spaces and brackets; Z is one that ended.
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] == "Z" else f"{boot} {fields[19]}"
    said = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return said.stdout.strip()


def lives(process: Running) -> bool:
    """Return whether the very process that was recorded still runs."""
    return bool(process.born) and born(process.pid) == process.born


def running(name: str, pid: int) -> Running:
    """Return a process of this moment as it is recorded."""
    return Running(name, pid, born(pid))


def write_record(directory: Path, record: RunRecord) -> None:
    """Replace the record of a folder."""
    write_private(
        directory / RECORD_NAME, msgspec.json.format(msgspec.json.encode(record), indent=2).decode()
    )


def read_record(directory: Path) -> RunRecord | None:
    """Return the record of a folder, if there is one that can be read."""
    try:
        return msgspec.json.decode((directory / RECORD_NAME).read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError):
        return None


def remove_record(directory: Path) -> None:
    """Say that nothing runs any more."""
    (directory / RECORD_NAME).unlink(missing_ok=True)


def take_folder(directory: Path) -> TextIO:
    """Return the lock of a folder, held until it is closed; one keeper may have it."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / LOCK_NAME).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        held = read_record(directory)
        who = f" by process {held.keeper.pid}" if held else ""
        raise Error(f"these sites are up already{who}: `headwater site down` ends them") from None
    os.set_inheritable(lock.fileno(), False)
    return lock
