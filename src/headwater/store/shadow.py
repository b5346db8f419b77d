"""A stream opened as the engine would open it, on a copy of what opening changes.

Opening cuts a torn log, moves torn commits aside and may write a commit. All of that happens in a scratch
directory: the newest log segment, the checkpoint and the Delta log are copied there; what never changes is
linked to.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from headwater.clock import SystemClock
from headwater.disk import RealDisk
from headwater.fence import NO_FENCE, Fence
from headwater.log import newest
from headwater.log.checkpoint_copy import SUFFIX
from headwater.settings import Settings
from headwater.store.fetched_table import fetch
from headwater.stream.services import Services
from headwater.stream.view import RunCache
from headwater.table.bucket_tables import BucketTables
from headwater.table.remote_table import read_remote

_COPIED = ("checkpoint", f"checkpoint{SUFFIX}", newest.FILE)
_CACHE_BYTES = 16 << 20


@contextmanager
def services(fence: Fence = NO_FENCE, tables: BucketTables | None = None) -> Iterator[Services]:
    """Have what a stream needs, for the length of a block."""
    with ThreadPoolExecutor(1) as sync, ThreadPoolExecutor(2) as work:
        disk = RealDisk()
        yield Services(
            settings=Settings(),
            clock=SystemClock(),
            file_disk=disk,
            memory_disk=disk,
            cache=RunCache(_CACHE_BYTES),
            sync_executor=sync,
            work_executor=work,
            fence=fence,
            tables=tables,
        )


@contextmanager
def shadow(home: Path) -> Iterator[Path]:
    """Return a directory that opens as this one does, and may be changed."""
    with tempfile.TemporaryDirectory(prefix="headwater-verify-") as scratch:
        made = Path(scratch) / "stream"
        made.mkdir()
        for name in _COPIED:
            if (home / name).exists():
                shutil.copyfile(home / name, made / name)
        _shadow_log(home / "log", made / "log")
        _link_all(home / "staging", made / "staging")
        remote = read_remote(RealDisk(), home)
        if remote is not None:
            fetch(remote, made / "table")
        else:
            _shadow_table(home / "table", made / "table")
        yield made


def _shadow_log(log: Path, made: Path) -> None:
    if not log.is_dir():
        return
    made.mkdir()
    names = sorted(path.name for path in log.iterdir())
    for name in names:
        # Only the newest segments are ever cut, and void ones removed.
        if name in names[-2:]:
            shutil.copyfile(log / name, made / name)
        else:
            (made / name).symlink_to((log / name).resolve())


def _shadow_table(table: Path, made: Path) -> None:
    if not table.is_dir():
        return
    made.mkdir()
    for path in table.iterdir():
        if path.name in ("_delta_log", "torn"):
            shutil.copytree(path, made / path.name)
        elif path.is_file():
            shutil.copyfile(path, made / path.name)
        else:
            _link_all(path, made / path.name)


def _link_all(folder: Path, made: Path) -> None:
    """Make the same folders, with a link for each file."""
    if not folder.is_dir():
        return
    made.mkdir()
    for path in folder.iterdir():
        if path.is_dir():
            _link_all(path, made / path.name)
        else:
            (made / path.name).symlink_to(path.resolve())
