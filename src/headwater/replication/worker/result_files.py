"""The files of a transfer's result: in the target's staging folder, or in its bucket."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from headwater.disk import RealDisk
from headwater.errors import DiskError
from headwater.objects.object_error import ObjectError
from headwater.replication.worker.task_bucket import TaskBucket


class ResultFiles(Protocol):
    """Files that a task finishes under names of its own; a refusal is a `DiskError`."""

    @property
    def is_direct(self) -> bool:
        """Return whether files are written where they stay, so that the page cache has no use for them."""
        ...

    def begin(self, name: str) -> Path:
        """Return a path of this machine to write a file to."""
        ...

    def finish(self, written: Path, name: str) -> None:
        """Make a file that was written durable under its name, at the latest by `settle`."""
        ...

    def copy(self, source: str, name: str) -> None:
        """Make a file of the origin one of these too, at the latest by `settle`; its bytes are not read."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Return once a file with this content is durable."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; if that fails, the engine sweeps it later."""
        ...

    def abandon(self, written: Path) -> None:
        """Remove a file that was begun and will not be finished."""
        ...

    def settle(self) -> None:
        """Return once all finished files are durable under their names, and all copies are made."""
        ...

    def close(self) -> None:
        """Leave nothing of what was begun on this machine."""
        ...


class FolderFiles:
    """The staging folder of a target on this machine, or on a file system that it shares."""

    is_direct = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._disk = RealDisk()

    def begin(self, name: str) -> Path:
        self._disk.mkdir(self._directory)
        return self._directory / name

    def finish(self, written: Path, name: str) -> None:
        self._disk.sync_file(written)
        self._disk.rename(written, self._directory / name)

    def copy(self, source: str, name: str) -> None:
        self._disk.mkdir(self._directory)
        self._disk.link(Path(source), self._directory / name)

    def write(self, name: str, content: bytes) -> None:
        self._disk.write_atomic(self._directory / name, content)

    def remove(self, name: str) -> None:
        self.abandon(self._directory / name)

    def abandon(self, written: Path) -> None:
        try:
            self._disk.remove(written)
        except DiskError:
            pass

    def settle(self) -> None:
        self._disk.sync_dir(self._directory)

    def close(self) -> None:
        return None


COPIES_AT_ONCE = 8
"""How many uploads and server-side copies a task has in progress; more were slower on SeaweedFS."""


class BucketFiles:
    """The staged objects of a target; a file is written to this machine first and then put as a whole.

    Nothing refers to an object before the engine has checked it. So a put that failed, or one that was done
    and reported as failed, leaves at most an object that the engine sweeps.
    """

    is_direct = False

    def __init__(self, bucket: TaskBucket, staging: str) -> None:
        self._bucket = bucket
        self._prefix = bucket.key(staging)
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        """Local files before they are uploaded; made when the first one begins."""
        self._threads: ThreadPoolExecutor | None = None
        """Wait for uploads and copies; started with the first one."""
        self._under_way: list[Future[None]] = []
        """Uploads and copies that were begun; the next file is written meanwhile."""

    def begin(self, name: str) -> Path:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(
                prefix="headwater-transfer-", ignore_cleanup_errors=True
            )
        return Path(self._scratch.name) / name

    def finish(self, written: Path, name: str) -> None:
        self._begin(lambda: self._upload(written, name))

    def _upload(self, written: Path, name: str) -> None:
        self._bucket.objects.put_file(self._key(name), written)
        self.abandon(written)

    def copy(self, source: str, name: str) -> None:
        self._begin(lambda: self._bucket.objects.copy(self._bucket.key(source), self._key(name)))

    def _begin(self, request: Callable[[], None]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(COPIES_AT_ONCE)
        self._under_way.append(self._threads.submit(request))

    def write(self, name: str, content: bytes) -> None:
        self._bucket.objects.put(self._key(name), content)

    def remove(self, name: str) -> None:
        self._end_requests()
        try:
            self._bucket.objects.delete(self._key(name))
        except ObjectError:
            pass

    def abandon(self, written: Path) -> None:
        written.unlink(missing_ok=True)

    def settle(self) -> None:
        for request in self._under_way:
            request.result()
        self._under_way = []

    def close(self) -> None:
        self._end_requests()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def _end_requests(self) -> None:
        """Return once no request is in progress: one that ends later would re-create a removed object."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None
            self._under_way = []

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"


def result_files(bucket: TaskBucket | None, staging: str) -> ResultFiles:
    """Return where a target's results go."""
    if bucket is not None and bucket.has(staging):
        return BucketFiles(bucket, staging)
    return FolderFiles(Path(staging))
