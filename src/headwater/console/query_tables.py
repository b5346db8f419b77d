"""The folders of an account's streams, in a local store or in a bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.console.query_guard import BUCKETS
from headwater.control.declaration import IDENTITY, read_declaration, read_identity
from headwater.disk import RealDisk
from headwater.errors import DiskError
from headwater.model.sealed import SealError

GLOBAL = "$G"


def tables_of_store(store: str, account: str, listed: Sequence[str]) -> dict[str, str]:
    """Return the folders of an account's streams by name; in a bucket, those of the listed streams.

    Without an account, it is the store's only one, else the global account: a client of one account must
    not read the streams of others by default.
    """
    if store.startswith(BUCKETS):
        root = f"{store.rstrip('/')}/{account or GLOBAL}"
        return {name: f"{root}/{name}" for name in listed if "/" not in name and name not in ("", ".", "..")}
    return _local_tables(Path(store), account)


def created_ns_of(path: str) -> int | None:
    """Return when the stream of a folder was created; None in a bucket, 0 if it is not written down."""
    if path.startswith(BUCKETS):
        return None
    try:
        declared = read_declaration(RealDisk(), Path(path))
    except (SealError, DiskError):
        return 0
    return declared.created_ns if declared is not None else 0


def table_path(name: str, tables: Mapping[str, str]) -> str:
    """Return the folder of a stream: of exactly this name, else of the only one that differs in case."""
    if name in tables:
        return tables[name]
    alike = [path for known, path in tables.items() if known.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else ""


def _local_tables(store: Path, account: str) -> dict[str, str]:
    """Return the folders by the names in their identities, not by the names of the folders."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(store.glob(f"*/*/{IDENTITY}")):
        try:
            identity = read_identity(RealDisk(), path.parent)
        except (SealError, DiskError):
            continue  # it is being created or removed
        if identity is not None and not path.parent.name.startswith("."):
            found.setdefault(identity.account, {})[identity.name] = str(path.parent)
    chosen = account or (next(iter(found)) if len(found) == 1 else GLOBAL)
    return found.get(chosen, {})
