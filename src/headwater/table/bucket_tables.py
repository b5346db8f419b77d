"""The tables of a store that are kept in a bucket, which is tested and claimed before it is used.

An object `.headwater/store` below the address names the store whose tables are there, so that no second store
writes below the same address.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headwater.disk import Disk, RealDisk
from headwater.errors import Error, SettingsError
from headwater.model.sealed import SealError, seal, unseal
from headwater.objects import preflight
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.guarded import GuardedObjects, ObjectRequestCounts
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import Objects
from headwater.table.object_disk import create
from headwater.table.object_table_storage import ObjectTableStorage
from headwater.table.prefetch import Prefetch
from headwater.table.prefix_owner import PrefixOwner
from headwater.table.range_cache import RangeCache
from headwater.table.remote_table import TABLE, RemoteTable, read_remote, write_remote
from headwater.table.staging import STAGING
from headwater.table.table_storage import LocalTableStorage, TableStorage

logger = logging.getLogger(__name__)

OWNER = ".headwater/store"
LOCAL = ".tables"
"""The folder of the store for files on their way to the bucket and for the cache."""
TABLE_DEPTH = 3
"""How far a table is below the address: its account, its stream, and the folder of the table."""
CLAIMED = "claimed"
"""The file in it that names the address which this store has claimed."""
VERSION = 1
AWAY = frozenset({Problem.UNREACHABLE, Problem.THROTTLED, Problem.FAILED})
_UNSAFE = re.compile(r"[^A-Za-z0-9._$-]")


class TablePlaceError(Error):
    """A stream's table is not where this engine keeps tables."""


class BucketTables:
    """The tables below one address."""

    def __init__(
        self, address: BucketAddress, store: Path, cache_bytes: int, objects: Objects | None = None
    ) -> None:
        """Open the address; nothing is requested yet."""
        if _UNSAFE.search(address.url.partition("://")[2].replace("/", "")) and not address.is_local:
            raise SettingsError(
                f"the prefix of {address.url} may hold letters, digits and . _ $ - only: other readers of "
                "Delta tables accept nothing else"
            )
        self.address = address
        self._objects = GuardedObjects(objects or Bucket(address))
        self.store = store
        self._local = store / LOCAL
        self._scratch = self._local / "scratch"
        self._prefetch = Prefetch()
        self._cache = RangeCache(self._local / "cache", cache_bytes)
        self._prefix_owner: PrefixOwner | None = None
        """Whether another engine uses the address by now; not known to tools that change nothing."""
        RealDisk().remove_tree(self._scratch)

    @property
    def outage(self) -> str:
        """Return why the bucket is unreachable; empty if it is reachable."""
        error = self._objects.outage.error
        return str(error) if error is not None else ""

    @property
    def counts(self) -> ObjectRequestCounts:
        """Return how many requests the bucket got."""
        return self._objects.counts

    @property
    def cached_bytes(self) -> int:
        """Return the size of the cache on the disk of the store."""
        return self._cache.nbytes

    def claim(self, store_id: str, epoch: int = 0, lose: Callable[[str], Error] = TablePlaceError) -> None:
        """Return once the bucket has passed its test and is this store's; raise with one sentence if not.

        A bucket that is unreachable is accepted if this store has claimed the same address before. If another
        engine claims it later, commits and removals here raise what `lose` returns.
        """
        self._prefix_owner = PrefixOwner(self._objects, store_id, epoch, lose)
        try:
            self._claim(store_id)
            self._prefix_owner.take()
        except ObjectError as error:
            if error.problem not in AWAY or not self._has_claimed(store_id):
                raise
            logger.warning("%s; opening streams with the last known state of their tables", error)
        else:
            claim = seal([self.address.url, store_id], VERSION)
            RealDisk().write_atomic(self._local / CLAIMED, claim)

    def require_owner(self, within_s: float = 0.0) -> None:
        """Raise if another engine has claimed the address since; a check within these seconds counts."""
        if self._prefix_owner is not None:
            self._prefix_owner.require(within_s=within_s)

    def _claim(self, store_id: str) -> None:
        # Before anything is written: the address may be another store's.
        owner = self._owner()
        if owner not in (None, store_id):
            raise TablePlaceError(f"{self.address.url} holds the tables of another store, with id {owner}")
        if owner is None:
            require_outermost(self.address)
        preflight.check(self._objects)
        if owner is None:
            create(self._objects, OWNER, seal(store_id, VERSION))

    def _has_claimed(self, store_id: str) -> bool:
        """Return whether an earlier run has found the address to be this store's."""
        try:
            claim = unseal((self._local / CLAIMED).read_bytes(), list[str], VERSION)
        except (OSError, SealError):
            return False
        return claim == [self.address.url, store_id]

    def storage(self, disk: Disk, home: Path, *, is_new: bool) -> TableStorage | None:
        """Return the place of a stream's table, None if it is on the disk; a new one's is chosen here."""
        remote = read_remote(disk, home)
        if remote is None:
            if not is_new:
                return None
            remote = self._choose(home)
            write_remote(disk, home, remote)
        objects = self._below(remote)
        if remote.bucket.is_local:
            # A folder can be torn by a power cut, and is repaired as that of a store is.
            return LocalTableStorage(remote.bucket.local_path, disk, self.address.url)
        address = replace(remote.bucket, credentials=self.address.credentials)
        return ObjectTableStorage(
            objects, address, home / TABLE, self._scratch, self._cache, self._prefetch, self.require_owner
        )

    def remove(self, remote: RemoteTable) -> None:
        """Return once no object of a table is left."""
        self.require_owner()
        objects = self._below(remote)
        if remote.bucket.is_local:
            RealDisk().remove_tree(remote.bucket.local_path.parent / STAGING)
            RealDisk().remove_tree(remote.bucket.local_path)
            return
        for info in list(objects.list()):
            objects.delete(info.key)

    def _owner(self) -> str | None:
        try:
            return unseal(self._objects.get(OWNER), str, VERSION)
        except SealError as error:
            raise TablePlaceError(f"{self.address.url}/{OWNER}: {error}") from error
        except ObjectError as error:
            if error.problem is Problem.MISSING:
                return None
            raise

    def _choose(self, home: Path) -> RemoteTable:
        """Return an address that no other table has, not even one that is still being removed."""
        account, name = safe(home.parent.name), safe(home.name)
        number = 1
        while True:
            folder = f"{account}/{name}" if number == 1 else f"{account}/{name}.{number}"
            if not any(True for _ in self._objects.list(f"{folder}/{TABLE}")):
                break
            number += 1
        address = self.address.below(f"{folder}/{TABLE}")
        return RemoteTable(address=address.url, endpoint=address.endpoint, region=address.region)

    def _below(self, remote: RemoteTable) -> GuardedObjects:
        prefix = f"{self.address.url.rstrip('/')}/"
        if not remote.address.startswith(prefix):
            raise TablePlaceError(
                f"its table is in {remote.address}, which is not below --tables {self.address.url}"
            )
        return self._objects.below(remote.address.removeprefix(prefix))


def require_outermost(address: BucketAddress) -> None:
    """Raise if an address is below that of a store, whose streams may have the same names."""
    for above in address.parents:
        try:
            Bucket(above).get(OWNER)
        except ObjectError:
            continue  # none, or nothing that we may see
        raise TablePlaceError(f"{address.url} is below {above.url}, which holds the tables of a store")


def require_local(disk: Disk, home: Path) -> None:
    """Raise if a stream's table is in a bucket: the engine was started without one."""
    remote = read_remote(disk, home)
    if remote is not None:
        raise TablePlaceError(f"its table is in {remote.address}: start the engine with --tables")


def safe(name: str) -> str:
    """Return a name that every reader of Delta tables takes; different names stay different."""
    return _UNSAFE.sub(lambda found: "~" + found[0].encode().hex(), name)
