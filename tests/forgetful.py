"""A file system that forgets at a power cut what was not synced: its process is killed, its image remains.

Files are in the memory of the process. A sync writes the file to the image, a folder of the real disk, after
every earlier change of names, as a journaling file system does. A write through O_SYNC is synced at once. Of
what is not synced, a part may get into the image as well, as a kernel writes pages when it likes: the seed
decides.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

READY_S = 60
LUCKY = 0.05
"""How likely it is that the beginning of an unsynced write is kept."""


def missing() -> str | None:
    """Return why such a file system can not be mounted here, if it can not."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is not there, or not for this user"
    if shutil.which("fusermount3") is None:
        return "fusermount3 is not on PATH (Debian: fuse3)"
    try:
        import mfusepy  # type: ignore[import-untyped]  # noqa: F401 - it loads libfuse
    except (ImportError, OSError) as error:
        return f"mfusepy cannot be used: {error}"
    return None


class Node:
    """A file or a folder, as processes see it."""

    def __init__(self, mode: int, data: bytes = b"") -> None:
        self.mode = mode
        self.data = bytearray(data)
        self.path = ""
        """Where it is, or was before it was removed."""
        self.dirty: list[tuple[int, int]] = []
        """Ranges of bytes that were written since the last sync."""
        self.is_shorter = False
        """Whether it was truncated since."""
        self.mtime = time.time()

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class Image:
    """What survives: a folder of the real disk, changed by syncs only."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._directory = directory
        self._chance = random.Random(seed)
        self._pending: list[Callable[[], None]] = []
        """Changes of names that no sync has made durable, in their order."""

    def _at(self, path: str) -> Path:
        return self._directory / path.lstrip("/")

    def load(self) -> dict[str, Node]:
        """Return the files that survived."""
        found: dict[str, Node] = {}
        for path in [self._directory, *self._directory.rglob("*")]:
            name = "/" + str(path.relative_to(self._directory)).removeprefix(".")
            mode = path.stat().st_mode
            found[name] = Node(mode, b"" if path.is_dir() else path.read_bytes())
            found[name].path = name
        return found

    def later(self, change: Callable[[], None]) -> None:
        """Remember a change of names until the next sync."""
        self._pending.append(change)

    def create(self, path: str) -> None:
        self.later(lambda: self._at(path).touch())

    def mkdir(self, path: str) -> None:
        self.later(lambda: self._at(path).mkdir(exist_ok=True))

    def remove(self, path: str) -> None:
        self.later(lambda: self._at(path).unlink(missing_ok=True))

    def rmdir(self, path: str) -> None:
        self.later(lambda: self._at(path).rmdir())

    def rename(self, old: str, new: str) -> None:
        self.later(lambda: os.replace(self._at(old), self._at(new)))

    def sync_names(self) -> None:
        """Make all changes of names durable."""
        pending, self._pending = self._pending, []
        for change in pending:
            change()

    def sync(self, node: Node, *, is_there: bool) -> None:
        """Make a file durable, after all changes of names."""
        self.sync_names()
        if is_there and not node.is_folder:
            self._write(node, node.dirty)
        node.dirty, node.is_shorter = [], False

    def written(self, node: Node, start: int, stop: int, *, is_there: bool) -> None:
        """Note an unsynced write; with some luck its beginning is kept."""
        node.dirty.append((start, stop))
        if is_there and self._chance.random() < LUCKY and not node.is_shorter:
            self.sync_names()
            self._write(node, [(start, self._chance.randint(start, stop))])

    def _write(self, node: Node, ranges: list[tuple[int, int]]) -> None:
        with self._at(node.path).open("r+b") as file:
            for start, stop in ranges:
                file.seek(start)
                file.write(node.data[start:stop])
            if node.is_shorter:
                file.truncate(len(node.data))


def operations(image: Image) -> Any:
    """Return the file system on this image."""
    from mfusepy import FuseOSError, Operations

    class Forgetful(Operations):  # type: ignore[misc]
        """Files by path, and by handle while they are open."""

        use_ns = False

        def __init__(self) -> None:
            self._nodes = image.load()
            self._open: dict[int, tuple[Node, bool]] = {}
            """By handle the file, and whether each write is synced."""
            self._last_handle = 0

        def _find(self, path: str, fh: int | None = None) -> Node:
            if fh is not None and fh in self._open:
                return self._open[fh][0]
            if path not in self._nodes:
                raise FuseOSError(errno.ENOENT)
            return self._nodes[path]

        def _is_there(self, node: Node) -> bool:
            return self._nodes.get(node.path) is node

        def _opened(self, node: Node, flags: int) -> int:
            self._last_handle += 1
            self._open[self._last_handle] = node, bool(flags & (os.O_SYNC | os.O_DSYNC))
            return self._last_handle

        def _add(self, path: str, node: Node) -> Node:
            node.path = path
            self._nodes[path] = node
            return node

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            node = self._find(path, fh)
            links = 2 if node.is_folder else 1
            times = dict.fromkeys(("st_mtime", "st_ctime", "st_atime"), node.mtime)
            size = len(node.data)
            return {
                "st_mode": node.mode,
                "st_nlink": links,
                "st_size": size,
                "st_uid": 0,
                "st_gid": 0,
                **times,
            }

        def readdir(self, path: str, fh: int) -> list[str]:
            prefix = path.rstrip("/") + "/"
            inside = (name.removeprefix(prefix) for name in self._nodes if name.startswith(prefix))
            return [".", "..", *(name for name in inside if name and "/" not in name)]

        def create(self, path: str, mode: int, fi: Any = None) -> int:
            node = self._add(path, Node(stat.S_IFREG | (mode & 0o7777)))
            image.create(path)
            return self._opened(node, getattr(fi, "flags", 0) if fi is not None else 0)

        def open(self, path: str, flags: int) -> int:
            return self._opened(self._find(path), flags)

        def release(self, path: str, fh: int) -> int:
            del self._open[fh]
            return 0

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            return bytes(self._find(path, fh).data[offset : offset + size])

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            node, is_synced = self._open[fh]
            if offset > len(node.data):
                node.data += bytes(offset - len(node.data))
            node.data[offset : offset + len(data)] = data
            node.mtime = time.time()
            image.written(node, offset, offset + len(data), is_there=self._is_there(node))
            if is_synced:
                image.sync(node, is_there=self._is_there(node))
            return len(data)

        def truncate(self, path: str, length: int, fh: int | None = None) -> int:
            node = self._find(path, fh)
            node.is_shorter = True
            node.dirty = [(start, min(stop, length)) for start, stop in node.dirty if start < length]
            if length > len(node.data):
                node.dirty.append((len(node.data), length))
            node.data[length:] = bytes(max(0, length - len(node.data)))
            return 0

        def fsync(self, path: str, datasync: int, fh: int) -> int:
            node = self._find(path, fh)
            image.sync(node, is_there=self._is_there(node))
            return 0

        def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
            image.sync_names()
            return 0

        def mkdir(self, path: str, mode: int) -> int:
            self._add(path, Node(stat.S_IFDIR | (mode & 0o7777)))
            image.mkdir(path)
            return 0

        def rmdir(self, path: str) -> int:
            if len(self.readdir(path, 0)) > 2:
                raise FuseOSError(errno.ENOTEMPTY)
            del self._nodes[path]
            image.rmdir(path)
            return 0

        def unlink(self, path: str) -> int:
            del self._nodes[path]
            image.remove(path)
            return 0

        def rename(self, old: str, new: str, flags: int = 0) -> int:
            self._find(old)
            moved = [name for name in self._nodes if name == old or name.startswith(old + "/")]
            for name in moved:
                self._add(new + name.removeprefix(old), self._nodes.pop(name))
            image.rename(old, new)
            return 0

        def chmod(self, path: str, mode: int) -> int:
            node = self._find(path)
            node.mode = stat.S_IFMT(node.mode) | (mode & 0o7777)
            return 0

        def chown(self, path: str, uid: int, gid: int) -> int:
            return 0

        def utimens(self, path: str, times: tuple[float, float] | None = None) -> int:
            self._find(path).mtime = times[1] if times else time.time()
            return 0

        def statfs(self, path: str) -> dict[str, int]:
            return {
                "f_bsize": 4096,
                "f_frsize": 4096,
                "f_blocks": 1 << 22,
                "f_bfree": 1 << 21,
                "f_bavail": 1 << 21,
            }

    return Forgetful()


class ForgetfulDisk:
    """A mounted file system of this kind, whose power a test may cut."""

    def __init__(self, mount: Path, image: Path) -> None:
        self._mount = mount
        self._image = image
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, seed: int) -> None:
        """Return once it is mounted, with what survived."""
        self._mount.mkdir(parents=True, exist_ok=True)
        self._image.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, str(self._mount), str(self._image), str(seed)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + READY_S
        while not os.path.ismount(self._mount):
            assert self._process.poll() is None, "the file system ended"
            assert time.monotonic() < deadline, "the file system was not mounted"
            time.sleep(0.02)

    def cut(self) -> None:
        """End it at once. Nothing may have a file of it open."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            subprocess.run(["fusermount3", "-u", "-z", str(self._mount)], check=True)


@contextmanager
def forgetful(directory: Path, seed: int) -> Iterator[ForgetfulDisk]:
    """Mount a file system below a folder: `disk` is what processes use, `image` what survives."""
    disk = ForgetfulDisk(directory / "disk", directory / "image")
    disk.start(seed)
    try:
        yield disk
    finally:
        disk.cut()


def main() -> None:
    """Serve a file system until this process is killed."""
    from mfusepy import FUSE

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mount")
    parser.add_argument("image", type=Path)
    parser.add_argument("seed", type=int)
    given = parser.parse_args()
    FUSE(
        operations(Image(given.image, given.seed)),
        given.mount,
        foreground=True,
        nothreads=True,
        fsname="forgetful",
    )


if __name__ == "__main__":
    main()
