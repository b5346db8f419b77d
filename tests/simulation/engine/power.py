"""What a power failure leaves: the files as they were synced, and a random part of the rest.

A file's bytes are durable after a sync of the file; a name is durable after a sync of its directory. Of what
was not synced, nothing may be left, all of it, a part, or zeros in place of bytes. After a failed
sync its bytes are gone for good, although they could still be read.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_RECORD = struct.Struct("<BQQIHH")
CREATE, WRITE, TRUNCATE, SYNC, SYNC_LOST, SYNC_DIR, RENAME, LINK, UNLINK, MKDIR, RMDIR = range(1, 12)


class Record(NamedTuple):
    """One operation of the trace."""

    kind: int
    ino: int
    offset: int
    data: bytes
    path: str
    target: str


def records(trace: bytes) -> Iterator[Record]:
    """Yield the operations of a trace."""
    at = 0
    while at < len(trace):
        kind, ino, offset, size, first, second = _RECORD.unpack_from(trace, at)
        at += _RECORD.size
        data = trace[at : at + size]
        at += size
        path = trace[at : at + first].decode()
        at += first
        target = trace[at : at + second].decode()
        at += second
        yield Record(kind, ino, offset, data, path, target)


@dataclass(eq=False)
class Write:
    """A write or a cut that is not durable."""

    offset: int
    data: bytes | None
    """None cuts the file to `offset`."""
    is_lost: bool = False
    """Whether a failed sync dropped it."""


@dataclass(eq=False)
class File:
    """A file's durable bytes, and what was done to it since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write] = field(default_factory=list)

    def sync(self) -> None:
        """Make everything durable but what a failed sync dropped."""
        for write in self.pending:
            _apply(self.durable, write, b"" if write.is_lost else write.data)
        self.pending.clear()

    def lose(self) -> None:
        """Have what is pending never become durable."""
        for write in self.pending:
            write.is_lost = write.data is not None

    def survivor(self, rng: random.Random) -> bytes:
        """Return what is found of it after a power cut."""
        found = bytearray(self.durable)
        keeps = rng.choice((0.0, 0.0, 1.0, 1.0, 0.5))
        for write in self.pending:
            if rng.random() >= keeps:
                continue
            data = b"" if write.is_lost else write.data
            if data and rng.random() < 0.3:
                data = _torn(rng, data)
            _apply(found, write, data)
        return bytes(found)


def _apply(content: bytearray, write: Write, data: bytes | None) -> None:
    """Do a write with these bytes, fewer than it had where some are lost."""
    if write.data is None:
        del content[write.offset :]
        content.extend(bytes(write.offset - len(content)))
        return
    end = write.offset + len(write.data)
    content.extend(bytes(max(0, end - len(content))))
    if data:
        content[write.offset : write.offset + len(data)] = data


def _torn(rng: random.Random, data: bytes) -> bytes:
    """Return what may be found where this was written and not synced."""
    kept = rng.randrange(len(data) + 1)
    match rng.choice(("part", "zeros", "garbage", "hole")):
        case "part":
            return data[:kept]
        case "zeros":
            return data[:kept] + bytes(len(data) - kept)
        case "garbage":
            return data[:kept] + rng.randbytes(len(data) - kept)
        case _:
            return bytes(kept) + data[kept:]


@dataclass(eq=False)
class Directory:
    """A directory's entries as the process sees them, and those that are durable."""

    live: dict[str, File | Directory] = field(default_factory=dict)
    durable: dict[str, File | Directory] = field(default_factory=dict)


class Change(NamedTuple):
    """A change of directory entries that is not durable: a node is removed, added or moved."""

    node: File | Directory
    left: tuple[Directory, str] | None
    came: tuple[Directory, str] | None

    @property
    def where(self) -> Directory:
        """Return the directory whose sync makes it durable."""
        place = self.came or self.left
        assert place is not None
        return place[0]

    def settle(self) -> None:
        """Make it durable."""
        if self.left is not None and self.left[0].durable.get(self.left[1]) is self.node:
            del self.left[0].durable[self.left[1]]
        if self.came is not None:
            self.came[0].durable[self.came[1]] = self.node


class Medium:
    """The content of the medium below a root, computed from the trace of operations."""

    def __init__(self, root: Path) -> None:
        """Treat everything that exists there as durable."""
        self._root = root
        self._files: dict[int, File] = {}
        self._pending: list[Change] = []
        self._top = self._load(root)

    def _load(self, path: Path) -> Directory:
        directory = Directory()
        for entry in os.scandir(path):
            if entry.is_dir():
                directory.live[entry.name] = self._load(path / entry.name)
                continue
            file = self._files.get(entry.inode())
            if file is None:
                file = self._files[entry.inode()] = File(bytearray(Path(entry.path).read_bytes()))
            directory.live[entry.name] = file
        directory.durable = dict(directory.live)
        return directory

    def replay(self, trace: bytes) -> None:
        """Take in what was done."""
        for record in records(trace):
            self._take(record)

    def _take(self, record: Record) -> None:
        kind, ino = record.kind, record.ino
        if kind == CREATE:
            file = self._files[ino] = File()
            self._enter(record.path, file)
        elif kind in (WRITE, TRUNCATE):
            data = record.data if kind == WRITE else None
            self._files[ino].pending.append(Write(record.offset, data))
        elif kind == SYNC:
            self._files[ino].sync()
        elif kind == SYNC_LOST:
            self._files[ino].lose()
        elif kind == SYNC_DIR:
            self._settle(self._at(record.path))
        elif kind == MKDIR:
            self._enter(record.path, Directory())
        elif kind in (UNLINK, RMDIR):
            directory, name = self._place(record.path)
            self._pending.append(Change(directory.live.pop(name), (directory, name), None))
        elif kind == LINK:
            directory, name = self._place(record.path)
            self._enter(record.target, directory.live[name])
        else:
            self._rename(record)

    def _rename(self, record: Record) -> None:
        left, came = self._place(record.path), self._place(record.target)
        node = left[0].live.pop(left[1])
        came[0].live[came[1]] = node
        self._pending.append(Change(node, left, came))

    def _enter(self, path: str, node: File | Directory) -> None:
        place = self._place(path)
        place[0].live[place[1]] = node
        self._pending.append(Change(node, None, place))

    def _place(self, path: str) -> tuple[Directory, str]:
        parent, name = os.path.split(path)
        found = self._at(parent)
        return found, name

    def _at(self, path: str) -> Directory:
        found: File | Directory = self._top
        for name in Path(path).relative_to(self._root).parts:
            assert isinstance(found, Directory)
            found = found.live[name]
        assert isinstance(found, Directory), path
        return found

    def _settle(self, directory: Directory) -> None:
        rest = []
        for change in self._pending:
            if change.where is directory:
                change.settle()
            else:
                rest.append(change)
        self._pending = rest

    def rebind(self, root: Path) -> None:
        """Go on with a copy of what the process saw, with nothing made durable by it."""
        self._root = root
        self._files = {}
        self._bind(self._top, root)

    def _bind(self, directory: Directory, path: Path) -> None:
        for name, node in directory.live.items():
            if isinstance(node, Directory):
                self._bind(node, path / name)
            else:
                self._files[(path / name).stat().st_ino] = node

    def cut(self, rng: random.Random, into: Path) -> None:
        """Write what a power cut leaves into another directory."""
        keeps = rng.choice((0.0, 1.0, 0.5))
        for change in self._pending:
            if rng.random() < keeps:
                change.settle()
        self._write(rng, self._top, into, {})

    def _write(self, rng: random.Random, directory: Directory, into: Path, written: dict[File, Path]) -> None:
        into.mkdir()
        for name, node in directory.durable.items():
            path = into / name
            if isinstance(node, Directory):
                self._write(rng, node, path, written)
            elif node in written:
                os.link(written[node], path)
            else:
                path.write_bytes(node.survivor(rng))
                written[node] = path
