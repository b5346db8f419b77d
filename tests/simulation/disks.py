"""A disk that fails on demand: refused, torn and late operations, a full disk, and a power failure.

It keeps real files in a directory, and also what a power failure would leave: the content of each
file and the entries of each directory as they were last synced. Files that others write into the directory
without it (Parquet files, Delta commits) are taken in when they or their directory are synced.

    disk = BreakableDisk(tmp_path)
    disk.break_at(7, Fault.TORN)             # the 7th operation from the start
    disk.break_at(2, Fault.REFUSED, "sync")  # the 2nd sync
    disk.break_always(Fault.FULL)            # until disk.heal()
    disk.break_at(9, Fault.POWER_CUT)        # raises PowerCut there and at every operation after it, until
    disk.power_cut(rng)                      # the files are what survived, and the disk works again
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from errno import EIO, ENOSPC
from pathlib import Path
from typing import NamedTuple, TypeVar

from headwater.disk import AppendFile, RealDisk
from headwater.errors import DiskError

T = TypeVar("T")

GROWING = frozenset({"open", "write", "make"})
"""Operations that need space."""


class Fault(Enum):
    """How an operation breaks."""

    REFUSED = auto()
    """Nothing is done; after a refused sync the bytes it was for never become durable."""
    TORN = auto()
    """Only the first part of a write is done; any other operation is refused."""
    FULL = auto()
    """No space is left: a write is torn, and what needs no space goes well."""
    LATE = auto()
    """It is done, and reported as failed."""
    POWER_CUT = auto()
    """The machine stops; of a write, a first part was done."""


class PowerCut(BaseException):
    """The machine has stopped; not an Exception, so that no handler under test continues after it."""


@dataclass(eq=False)
class _File:
    """What is known of one file beyond its present content."""

    durable: bytearray = field(default_factory=bytearray)
    """Content that survives a power cut."""
    rewritten: bool = False
    """Whether durable bytes were cut since the last sync."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """Ranges that a failed sync dropped: readable until the power cut, never durable."""
    unlinked: bytes | None = None
    """Present content, once no entry leads to the file."""


class _Change(NamedTuple):
    """A change of entries that is not durable yet: target becomes file (None: removed), source is removed."""

    target: Path
    file: _File | None
    source: Path | None = None


class BreakableDisk:
    """A `Disk` over a real directory that fails where a test says."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.root = root
        self.history: list[str] = []
        self._real = RealDisk(sync=False)
        self._rng = random.Random(seed)
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._faults: dict[tuple[str, int], Fault] = {}
        self._lasting: Fault | None = None
        self._stopped = False
        self._live: dict[Path, _File] = {}
        self._durable: dict[Path, _File] = {}
        self._pending: list[_Change] = []
        self._durable_dirs: set[Path] = set()
        self._begin()

    @property
    def operations(self) -> int:
        """Return how many operations there were."""
        return len(self.history)

    def break_at(self, nth: int, fault: Fault, kind: str = "") -> None:
        """Break the nth operation from the start; with a kind, the nth of that kind."""
        self._faults[kind, nth] = fault

    def break_always(self, fault: Fault) -> None:
        """Break every operation from here on, until `heal`."""
        self._lasting = fault

    def heal(self) -> None:
        """Break no more."""
        self._lasting = None
        self._faults.clear()

    # The Disk protocol.

    def open_append(self, path: Path) -> AppendFile:
        def act() -> AppendFile:
            file = self._real.open_append(path)
            if path not in self._live:
                self._link(path)
            return BreakableFile(self, path, file)

        return self.operate("open", path, act)

    def create_append(self, path: Path) -> AppendFile:
        def act() -> AppendFile:
            file = self._real.create_append(path)
            self._link(path)
            return BreakableFile(self, path, file)

        return self.operate("open", path, act)

    def read(self, path: Path, offset: int, length: int) -> bytes:
        return self.operate("read", path, lambda: self._real.read(path, offset, length))

    def read_all(self, path: Path) -> bytes:
        return self.operate("read", path, lambda: self._real.read_all(path))

    def file_size(self, path: Path) -> int:
        return self.operate("size", path, lambda: self._real.file_size(path))

    def list(self, path: Path) -> list[str]:
        return self.operate("list", path, lambda: self._real.list(path))

    def write_atomic(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        file = self.open_append(temporary)
        try:
            file.truncate(0)
            file.write([data])
            file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_dir(path.parent)

    def sync_file(self, path: Path) -> None:
        self.operate("sync", path, lambda: self.settle(path), broken=lambda: self.lose(path))

    def uncache(self, path: Path) -> None:
        self.operate("uncache", path, lambda: self._show_losses(path))

    def sync_dir(self, path: Path) -> None:
        self.operate("sync_dir", path, lambda: self._settle_dir(path))

    def rename(self, source: Path, target: Path) -> None:
        def act() -> None:
            self._take_in(source)
            self._unlink(target)
            self._real.rename(source, target)
            file = self._live.pop(source)
            self._live[target] = file
            self._pending.append(_Change(target, file, source))

        self.operate("rename", source, act)

    def remove(self, path: Path) -> None:
        def act() -> None:
            if path.exists():
                self._take_in(path)
                self._unlink(path)
                self._pending.append(_Change(path, None))
            self._real.remove(path)

        self.operate("remove", path, act)

    def remove_tree(self, path: Path) -> None:
        for below in sorted(path.rglob("*"), reverse=True):
            if not below.is_dir():
                self.remove(below)
        self.operate("remove_tree", path, lambda: self._real.remove_tree(path))

    def mkdir(self, path: Path) -> None:
        if path != self.root and not path.parent.exists():
            self.mkdir(path.parent)
        self.operate("make", path, lambda: path.mkdir(exist_ok=True))
        if path != self.root:
            self.sync_dir(path.parent)

    # How it breaks.

    def operate(
        self,
        kind: str,
        path: Path,
        act: Callable[[], T],
        *,
        torn: Callable[[], None] = lambda: None,
        broken: Callable[[], None] = lambda: None,
    ) -> T:
        """Count the operation and do it, or break it: `torn` does a part, `broken` what a refusal does."""
        with self._lock:
            if self._stopped:
                raise PowerCut
            fault = self._next_fault(kind, path)
            if fault is None or (fault is Fault.FULL and kind not in GROWING):
                return act()
            if fault is Fault.LATE:
                act()
            elif fault is not Fault.REFUSED:
                torn()
            if fault is Fault.POWER_CUT:
                self._stopped = True
                raise PowerCut
            if fault is not Fault.LATE:
                broken()
            raise DiskError(path, kind, ENOSPC if fault is Fault.FULL else EIO)

    def _next_fault(self, kind: str, path: Path) -> Fault | None:
        self.history.append(f"{kind} {path.name}")
        self._counts[kind] += 1
        fault = self._faults.pop(("", self.operations), None)
        return self._faults.pop((kind, self._counts[kind]), None) or fault or self._lasting

    def part_of(self, buffers: Sequence[bytes]) -> bytes:
        """Return the first part of what a torn write was given."""
        whole = b"".join(buffers)
        return whole[: self._rng.randrange(len(whole) + 1)]

    # What is durable.

    def _begin(self) -> None:
        """Treat everything in the directory as durable."""
        self._stopped = False
        self._live = {}
        self._pending = []
        self._durable_dirs = {self.root}
        for path in self.root.rglob("*"):
            if path.is_dir():
                self._durable_dirs.add(path)
            else:
                self._live[path] = _File(bytearray(path.read_bytes()))
        self._durable = dict(self._live)

    def settle(self, path: Path) -> None:
        """Make the content of the file durable, but for what a failed sync dropped."""
        self._take_in(path)
        file = self._live[path]
        start = 0 if file.rewritten else len(file.durable)
        del file.durable[start:]
        with path.open("rb") as content:
            content.seek(start)
            file.durable += content.read()
        file.rewritten = False
        for begin, end in file.lost:
            end = min(end, len(file.durable))
            file.durable[begin:end] = bytes(max(0, end - begin))

    def lose(self, path: Path) -> None:
        """Let the bytes that a refused sync was for never become durable, readable though they are."""
        self._take_in(path)
        file = self._live[path]
        start = 0 if file.rewritten else len(file.durable)
        file.lost.append((start, self._real.file_size(path)))

    def _show_losses(self, path: Path) -> None:
        """Let readers see what a failed sync dropped."""
        file = self._live[path]
        content = bytearray(path.read_bytes())
        for begin, end in file.lost:
            content[begin:end] = bytes(len(content[begin:end]))
        path.write_bytes(content)
        file.lost.clear()

    def cut(self, path: Path, length: int) -> None:
        """Note that the file was truncated."""
        file = self._live[path]
        file.rewritten |= length < len(file.durable)
        file.lost = [(begin, min(end, length)) for begin, end in file.lost if begin < length]

    def _link(self, path: Path) -> None:
        self._live[path] = _File()
        self._pending.append(_Change(path, self._live[path]))

    def _unlink(self, path: Path) -> None:
        file = self._live.pop(path, None)
        if file is not None:
            file.unlinked = path.read_bytes()

    def _take_in(self, path: Path) -> None:
        if path not in self._live and path.exists():
            self._link(path)

    def _settle_dir(self, directory: Path) -> None:
        """Make the entries of the directory durable."""
        self._take_in_changes_by_others(directory)
        rest = []
        for change in self._pending:
            if change.target.parent == directory:
                self._apply(change)
            else:
                rest.append(change)
        self._pending = rest

    def _take_in_changes_by_others(self, directory: Path) -> None:
        for path in [p for p in self._live if p.parent == directory and not p.exists()]:
            del self._live[path]
            self._pending.append(_Change(path, None))
        for path in directory.iterdir():
            if path.is_dir():
                self._durable_dirs.add(path)
            else:
                self._take_in(path)

    def _apply(self, change: _Change) -> None:
        """Make one change of entries durable."""
        if change.source is not None and self._durable.get(change.source) is change.file:
            del self._durable[change.source]
        if change.file is None:
            self._durable.pop(change.target, None)
        else:
            self._durable[change.target] = change.file

    # The power cut.

    def power_cut(self, rng: random.Random) -> None:
        """Keep what a power failure keeps: everything synced, and a random part of the rest."""
        with self._lock:
            self._take_in_all(rng)
            for change in self._pending:
                if rng.random() < 0.5:
                    self._apply(change)
            present = {file: path.read_bytes() for path, file in self._live.items()}
            survivors = {
                path: _survivor(rng, file, present.get(file, file.unlinked or b""))
                for path, file in self._durable.items()
                if path.parent in self._durable_dirs
            }
            self._replace_all(survivors)
            self._begin()

    def _take_in_all(self, rng: random.Random) -> None:
        """Take in what others wrote, and decide which of the unsynced directories stay."""
        durable_dirs = set(self._durable_dirs)
        for directory in [self.root, *sorted(p for p in self.root.rglob("*") if p.is_dir())]:
            self._take_in_changes_by_others(directory)
            if directory not in durable_dirs and directory.parent in durable_dirs and rng.random() < 0.5:
                durable_dirs.add(directory)
        self._durable_dirs = durable_dirs

    def _replace_all(self, survivors: dict[Path, bytes]) -> None:
        """Make the files of the directory exactly these."""
        for name in os.listdir(self.root):
            path = self.root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for directory in sorted(self._durable_dirs):
            directory.mkdir(exist_ok=True, parents=True)
        for path, content in survivors.items():
            path.write_bytes(content)
        self._real = RealDisk(sync=False)


class BreakableFile:
    """An append file of a breakable disk."""

    def __init__(self, disk: BreakableDisk, path: Path, file: AppendFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def write(self, buffers: Sequence[bytes]) -> None:
        self._disk.operate(
            "write",
            self._path,
            lambda: self._file.write(buffers),
            torn=lambda: self._file.write([self._disk.part_of(buffers)]),
        )

    def sync(self) -> None:
        self._disk.operate(
            "sync",
            self._path,
            lambda: self._disk.settle(self._path),
            broken=lambda: self._disk.lose(self._path),
        )

    def truncate(self, length: int) -> None:
        def act() -> None:
            self._file.truncate(length)
            self._disk.cut(self._path, length)

        self._disk.operate("truncate", self._path, act)

    def close(self) -> None:
        self._file.close()


def _survivor(rng: random.Random, file: _File, present: bytes) -> bytes:
    """Return what of a file is found after the power cut."""
    durable = bytes(file.durable)
    if file.rewritten or len(present) < len(durable):
        return rng.choice([durable, present])
    tail = bytearray(present[len(durable) :])
    for begin, end in file.lost:
        begin, end = max(0, begin - len(durable)), max(0, end - len(durable))
        tail[begin:end] = bytes(len(tail[begin:end]))
    return durable + _torn(rng, bytes(tail))


def _torn(rng: random.Random, tail: bytes) -> bytes:
    """Return what may be found where this was written and not synced."""
    kept = rng.randrange(len(tail) + 1)
    rest = len(tail) - kept
    match rng.choice(["nothing", "part", "all", "zeros", "garbage", "hole"]):
        case "nothing":
            return b""
        case "part":
            return tail[:kept]
        case "zeros":
            return tail[:kept] + bytes(rest)
        case "garbage":
            return tail[:kept] + rng.randbytes(rng.randrange(rest + 1))
        case "hole":
            return bytes(kept) + tail[kept:]
        case _:
            return tail
