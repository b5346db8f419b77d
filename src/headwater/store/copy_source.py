"""What a store consists of, as files to copy: its head, and the tables of its streams.

A name is `head/<path in the store>` or `tables/<account>/<stream>/<path in the table>`, wherever the file is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from headwater.control import declaration
from headwater.disk import RealDisk
from headwater.errors import Error
from headwater.journal.opened_head import MARK
from headwater.model.sealed import SealError, unseal
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError, Problem
from headwater.store.survey import read_catalog
from headwater.table.bucket_tables import safe
from headwater.table.object_table_storage import SNAPSHOT
from headwater.table.prefix_owner import OWNER as PREFIX_OWNER
from headwater.table.remote_table import TABLE, read_remote
from headwater.table.staging import OBJECT_STAGING, STAGING

HEAD, TABLES = "head", "tables"
FOLDER = ".headwater/head"
"""Where a copy in a bucket has the head of the store."""
MANIFEST = ".headwater/copy"
LOG = "log"
"""The folder of a stream that stores messages on the disk."""
VERSION = 1
_ROOT_FILES = re.compile(r"(catalog\.db|stan\..*\.db|stan\.db)(-wal|-open)?|epoch")


class CopyError(Error):
    """A store cannot be copied, or a copy is not what it should be."""


@dataclass(frozen=True)
class CopyItem:
    """One file of a store."""

    name: str
    size: int
    read: Callable[[], bytes]
    """Returns the whole content."""
    crc: int | None = None
    """The checksum that the content must have, if it is known."""

    @property
    def is_fixed(self) -> bool:
        """Return whether the file never changes, so that one of this name and size is the same."""
        return self.name.endswith(".parquet")


class CopiedFile(msgspec.Struct, frozen=True):
    """A file as the manifest of a copy lists it."""

    name: str
    size: int
    crc: int


class CopyManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a complete copy in a bucket consists of."""

    store: str
    files: list[CopiedFile]


@dataclass(frozen=True)
class StoreContents:
    """Everything that must be copied."""

    store_id: str
    items: list[CopyItem]
    streams: list[tuple[str, str]]
    """The folders of the streams that have tables, each with that of its account."""
    require_unchanged: Callable[[], None] = lambda: None
    """Raises if the source has changed since it was read; called before the copy becomes usable."""

    @property
    def nbytes(self) -> int:
        """Return the total size."""
        return sum(item.size for item in self.items)

    def without_tables(self) -> StoreContents:
        """Return the head alone."""
        return replace(self, items=[item for item in self.items if not item.name.startswith(f"{TABLES}/")])


def read_directory(store: Path, *, with_tables: bool = True) -> StoreContents:
    """Return the contents of a store that no engine serves; its tables may be in a bucket."""
    if (store / MARK).exists():
        raise CopyError(
            f"{store} is a cache of a journal, which has the store: copy that with --from-journal"
        )
    catalog = read_catalog(store)
    if catalog.problem:
        raise CopyError(f"{store} has no usable catalog: {catalog.problem}; run `headwater store verify`")
    items = [_file(path, f"{HEAD}/{path.name}") for path in sorted(store.iterdir()) if _is_head(path)]
    for home in sorted(declaration.homes(RealDisk(), store)):
        items += _home_items(home)
        items += _table_items(home) if with_tables else ()
    return StoreContents(catalog.store_id, items, _streams(items))


def read_head(store: Path, tables: BucketAddress) -> StoreContents:
    """Return the head of a store that no engine serves, and whose tables stay in a bucket."""
    contents = read_directory(store, with_tables=False)
    found = sorted(declaration.homes(RealDisk(), store))
    # A memory stream has only its declaration here.
    homes = [home for home in found if (home / TABLE).exists() or (home / LOG).exists()]
    for home in homes:
        remote = read_remote(RealDisk(), home)
        where = remote.address if remote is not None else str(home / TABLE)
        if not where.startswith(f"{tables.url}/"):
            raise CopyError(f"the table of {home.name} is in {where}, not below {tables.url}")
        contents.items.append(_file(home / TABLE, f"{HEAD}/{home.parent.name}/{home.name}/{TABLE}"))
    return replace(contents, streams=[(home.parent.name, home.name) for home in homes])


def read_copy(bucket: Bucket) -> StoreContents:
    """Return the contents of a complete copy in a bucket."""
    manifest = _manifest(bucket)
    items = [
        CopyItem(file.name, file.size, partial(bucket.get, key_in(bucket, file.name)), file.crc)
        for file in manifest.files
    ]
    return StoreContents(manifest.store, items, _streams(items))


def _streams(items: Iterable[CopyItem]) -> list[tuple[str, str]]:
    parts = (item.name.split("/") for item in items if item.name.startswith(f"{TABLES}/"))
    return sorted({(account, stream) for _, account, stream, *_ in parts})


def require_unserved(bucket: Bucket) -> None:
    """Raise if an engine has used the tables of a copy: they have more than the head of the copy knows."""
    try:
        bucket.head(PREFIX_OWNER)
    except ObjectError as error:
        if error.problem is Problem.MISSING:
            return
        raise
    raise CopyError(
        f"an engine has used the tables in {bucket.address} since the copy was made: name the directory of "
        "its store"
    )


def _manifest(bucket: Bucket) -> CopyManifest:
    """Return what the copy must consist of; raise unless all of it is still there."""
    try:
        manifest = unseal(bucket.get(MANIFEST), CopyManifest, VERSION)
    except SealError as error:
        raise CopyError(f"{bucket.address}/{MANIFEST}: {error}") from error
    except ObjectError as error:
        if error.problem is not Problem.MISSING:
            raise
        raise CopyError(
            f"{bucket.address} holds no complete copy of a store; a store that is served from there has its "
            "head in its directory: name that one"
        ) from None
    for file in manifest.files:
        require_inside(file.name)
    there = {info.key: info.size for info in bucket.list()}
    changed = [file.name for file in manifest.files if there.get(key_in(bucket, file.name)) != file.size]
    if changed:
        raise CopyError(
            f"{bucket.address} has changed since the copy was made, first {changed[0]}: name the directory "
            "of the store that is served from there"
        )
    return manifest


def require_inside(name: str) -> None:
    """Raise unless a name is that of a file of a store: a bucket that others write must not place others."""
    kind, *rest = name.split("/")
    is_whole = all(part not in ("", ".", "..") and "\0" not in part for part in rest)
    is_head = kind == HEAD and (len(rest) > 2 or (len(rest) == 1 and _ROOT_FILES.fullmatch(rest[0])))
    if not is_whole or not (is_head or (kind == TABLES and len(rest) > 2)):
        raise CopyError(f"{name!r} is not the name of a file of a store: the copy was not made by Headwater")


def key_in(bucket: Bucket, name: str) -> str:
    """Return the key of a file in a bucket; a folder of this machine has staged files next to the table."""
    kind, *rest = name.split("/")
    if kind == HEAD:
        return "/".join([FOLDER, *map(safe, rest)])
    account, stream, *inside = rest
    if bucket.location.is_local and inside[:1] == [OBJECT_STAGING]:
        return "/".join([safe(account), safe(stream), STAGING, *inside[1:]])
    return "/".join([safe(account), safe(stream), TABLE, *inside])


def _file(path: Path, name: str) -> CopyItem:
    return CopyItem(name, path.stat().st_size, path.read_bytes)


def _is_head(path: Path) -> bool:
    """Return whether a file of the store's directory is part of it; others are of one machine, or secret."""
    return path.is_file() and _ROOT_FILES.fullmatch(path.name) is not None


def _home_items(home: Path) -> Iterator[CopyItem]:
    for path in _files(home, leave=(TABLE, SNAPSHOT, STAGING)):
        yield _file(path, f"{HEAD}/{home.parent.name}/{home.name}/{path.relative_to(home)}")


def _files(folder: Path, leave: Collection[str] = ()) -> Iterator[Path]:
    """Yield every file below a folder, also behind links; raise if anything cannot be read or copied."""
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if name in leave:
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path
        else:
            raise CopyError(f"{path} is neither a file nor a directory, and cannot be copied")


def _table_items(home: Path) -> Iterator[CopyItem]:
    prefix = f"{TABLES}/{home.parent.name}/{home.name}"
    remote = read_remote(RealDisk(), home)
    if remote is None:
        yield from _below(home / TABLE, prefix)
        yield from _below(home / STAGING, f"{prefix}/{OBJECT_STAGING}")
        return
    bucket = Bucket(remote.bucket)
    if remote.bucket.is_local:
        yield from _below(remote.bucket.local_path.parent / STAGING, f"{prefix}/{OBJECT_STAGING}")
    for info in bucket.list():
        require_inside(f"{prefix}/{info.key}")
        yield CopyItem(f"{prefix}/{info.key}", info.size, partial(bucket.get, info.key))


def _below(folder: Path, prefix: str) -> Iterator[CopyItem]:
    for path in _files(folder) if folder.exists() else ():
        yield _file(path, f"{prefix}/{path.relative_to(folder)}")
