"""Where a stream's table is if it is not on the disk: a sealed file `table` in place of the folder `table`.

A release that knows no tables in buckets cannot make its folder there, and keeps the stream offline.
"""

from __future__ import annotations

from errno import EISDIR, ENOENT, ENOTDIR
from pathlib import Path

import msgspec

from headwater.disk import Disk
from headwater.errors import CorruptionError, DiskError
from headwater.model.sealed import SealError, seal, unseal
from headwater.objects.address import BucketAddress

TABLE = "table"
VERSION = 1


class RemoteTable(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a table in a bucket; credentials are never stored."""

    address: str
    endpoint: str | None = None
    region: str | None = None

    @property
    def bucket(self) -> BucketAddress:
        """Return the address of the table."""
        return BucketAddress(self.address, self.endpoint, self.region)


def read_remote(disk: Disk, home: Path) -> RemoteTable | None:
    """Return where the table of a stream's folder is, None if it is in that folder or nowhere yet."""
    path = home / TABLE
    try:
        return unseal(disk.read_all(path), RemoteTable, VERSION)
    except SealError as error:
        raise CorruptionError(path, 0, str(error)) from error
    except DiskError as error:
        if error.errno in (EISDIR, ENOENT, ENOTDIR):
            return None
        raise


def write_remote(disk: Disk, home: Path, remote: RemoteTable) -> None:
    """Return once the folder durably names the place of its table."""
    disk.write_atomic(home / TABLE, seal(remote, VERSION))
