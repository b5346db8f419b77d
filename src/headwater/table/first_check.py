"""Checks the bucket of a store that does not exist yet, so that a mistake leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

from headwater.model.sealed import unseal
from headwater.objects import preflight
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import Objects
from headwater.table.bucket_tables import (
    AWAY,
    CLAIMED,
    LOCAL,
    OWNER,
    VERSION,
    TablePlaceError,
    require_outermost,
)


def require_usable(address: BucketAddress, store: Path, *, has_journal: bool, may_be_away: bool) -> None:
    """Raise with one sentence if a new store cannot keep its tables at this address.

    With a journal, tables that are there may be this store's. A store that has claimed the address is checked
    when it is opened.
    """
    if (store / LOCAL / CLAIMED).exists():
        return
    objects = Bucket(address)
    try:
        owner = _owner(objects)
        if owner is not None and not has_journal:
            raise TablePlaceError(f"{objects.address} holds the tables of another store, with id {owner}")
        if owner is None:
            require_outermost(address)
        preflight.check(objects)
    except ObjectError as error:
        if error.problem not in AWAY or not may_be_away:
            raise


def _owner(objects: Objects) -> str | None:
    """Return the id of the store whose tables are there, if there are any."""
    try:
        return unseal(objects.get(OWNER), str, VERSION)
    except ObjectError as error:
        if error.problem is not Problem.MISSING:
            raise
        return None
