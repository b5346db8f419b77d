"""The files of a stream's table as a reader finds them: in a folder of a store, or in a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from headwater.disk import RealDisk
from headwater.errors import SettingsError
from headwater.objects.address import SCHEMES, BucketAddress
from headwater.objects.bucket import Bucket
from headwater.spark.read_range import ordered
from headwater.table import schema
from headwater.table.datafile import DataFile
from headwater.table.remote_table import TABLE, read_remote

Place = Path | BucketAddress
"""Where a table is."""


def place_of_table(path: str) -> Place:
    """Return where the table is; the stream's own folder may be given as well."""
    scheme = path.partition("://")[0]
    if "://" in path and scheme in SCHEMES and scheme != "file":
        return _in_bucket(BucketAddress(path.rstrip("/")))
    folder = Path(path.removeprefix("file://" if path.startswith("file://") else "file:")).absolute()
    home = folder.parent if folder.name == TABLE else folder
    remote = read_remote(RealDisk(), home)
    return home / TABLE if remote is None else remote.bucket


def stream_of(place: Place) -> str:
    """Return the name that a stream has if nothing else is said."""
    if isinstance(place, Path):
        return place.parent.name
    parts = [part for part in place.url.split("/") if part and part != TABLE]
    return parts[-1]


def files_of(place: Place) -> tuple[DataFile, ...]:
    """Return the files of the table's newest version; in a bucket, their paths are keys below the table."""
    if isinstance(place, BucketAddress):
        if not _has_log(place):
            raise SettingsError(f"there is no stream in {place.url}")
        return _newest(place.delta_url, place.delta_options())
    if not place.parent.is_dir():
        raise SettingsError(f"there is no stream in {place.parent}")
    if not place.is_dir() and any(place.parent.glob(f"*/{TABLE}")):
        raise SettingsError(f"{place.parent} contains several streams: pass the folder of one of them")
    return ordered([file.at(file.base_seq, str(place / file.path)) for file in _newest(str(place))])


def _newest(table: str, options: Mapping[str, str] | None = None) -> tuple[DataFile, ...]:
    try:
        delta = DeltaTable(table, storage_options=dict(options) if options else None)
        adds = pa.table(delta.get_add_actions(flatten=True))
    except (TableNotFoundError, FileNotFoundError):
        return ()
    return ordered(schema.data_files(adds)) if adds.num_rows else ()


def _in_bucket(address: BucketAddress) -> BucketAddress:
    """Return the address of the table: the given one, or the folder `table` in it."""
    below = address.below(TABLE)
    return address if address.url.endswith(f"/{TABLE}") or not _has_log(below) else below


def _has_log(address: BucketAddress) -> bool:
    return any(True for _ in Bucket(address).list("_delta_log"))
