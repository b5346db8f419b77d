"""The bucket with an engine's tables as a task sees it: files by their addresses, read by ranges."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import BusError, SettingsError
from headwater.objects.address import BucketAddress, StaticCredentials
from headwater.objects.bucket import Bucket
from headwater.objects.objects import Objects
from headwater.replication import handover
from headwater.replication.work import TablesPlace
from headwater.table.stored_bytes import ObjectBytes, StoredBytes


class TaskBucket:
    """The objects below the address of an engine's tables."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._prefix = f"{objects.address.rstrip('/')}/"

    def has(self, address: str) -> bool:
        """Return whether an address is one of this bucket, not a path of the disk."""
        return address.startswith(self._prefix)

    def key(self, address: str) -> str:
        """Return the key of an address of this bucket."""
        assert self.has(address)
        return address.removeprefix(self._prefix)


_opened: dict[tuple[BucketAddress, StaticCredentials | None], TaskBucket] = {}
"""The bucket that was opened last; a client with open connections saves a task many round trips."""


def open_bucket(place: TablesPlace | None) -> TaskBucket | None:
    """Return the bucket of a work, opened with the credentials of the host's settings file.

    The file is read each time: an engine writes new credentials to it.
    """
    if place is None:
        return None
    address = BucketAddress(place.url, place.endpoint or None, place.region or None)
    try:
        address = handover.bucket_address(place.config, address)
    except SettingsError as error:
        raise BusError(f"{error}; transfers need its credentials") from None
    key = address, address.credentials
    if key not in _opened:
        _opened.clear()
        _opened[key] = TaskBucket(Bucket(address))
    return _opened[key]


def open_file(bucket: TaskBucket | None, path: str) -> Path | StoredBytes:
    """Return a file of an origin by its path or its address."""
    if bucket is not None and bucket.has(path):
        return ObjectBytes(bucket.objects, bucket.key(path))
    return Path(path)
