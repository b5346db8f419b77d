"""A table in a bucket copied to the disk, so that it is checked as every other table is."""

from __future__ import annotations

from pathlib import Path

from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError, Problem
from headwater.store.bucket_quarantine import PREFIX
from headwater.table.remote_table import RemoteTable
from headwater.table.staging import OBJECT_STAGING, STAGING

_LOG = "_delta_log"


def fetch(remote: RemoteTable, made: Path) -> None:
    """Return once a folder holds what the table holds; what is removed meanwhile is left out.

    Files that are staged for the table go to the folder next to it, as for a table on the disk.
    """
    bucket = Bucket(remote.bucket)
    keys = [info.key for info in bucket.list() if not info.key.startswith(f"{PREFIX}/")]
    # The log first: files that it names are not swept for a while.
    for key in sorted(keys, key=lambda key: (not key.startswith(_LOG), key)):
        target = made / key
        if key.startswith(f"{OBJECT_STAGING}/"):
            target = made.parent / STAGING / key.removeprefix(f"{OBJECT_STAGING}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.write_bytes(bucket.get(key))
        except ObjectError as error:
            if error.problem is not Problem.MISSING:
                raise
