"""The folders of an account's streams, in a local store or in a bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.console.query_guard import BUCKETS
from headwater.control.declaration import IDENTITY, read_identity
from headwater.disk import RealDisk
from headwater.errors import DiskError
from headwater.model.sealed import SealError


def tables_of_store(store: str, account: str, listed: Sequence[str]) -> dict[str, str]:
    """Return the folders of streams by name; in a bucket, those of the listed streams."""
    if store.startswith(BUCKETS):
        root = f"{store.rstrip('/')}/{account}"
        return {name: f"{root}/{name}" for name in listed if "/" not in name and name not in ("", ".", "..")}
    return _local_tables(Path(store), account)


def table_path(name: str, tables: Mapping[str, str]) -> str:
    """Return the folder of a stream: of exactly this name, else of the only one that differs in case."""
    if name in tables:
        return tables[name]
    alike = [path for known, path in tables.items() if known.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else ""


def _local_tables(store: Path, account: str) -> dict[str, str]:
    """Return the folders by the names in their identities, not by the names of the folders."""
    found: dict[str, str] = {}
    for path in sorted(store.glob(f"*/*/{IDENTITY}")):
        try:
            identity = read_identity(RealDisk(), path.parent)
        except (SealError, DiskError):
            continue  # it is being created or removed
        if identity is not None and identity.account == account and not path.parent.name.startswith("."):
            found[identity.name] = str(path.parent)
    return found
