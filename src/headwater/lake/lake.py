"""`headwater.Lake`: the accounts and streams of a store, as its folders show them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.control.declaration import IDENTITY, read_identity
from headwater.disk import RealDisk
from headwater.errors import DiskError, SettingsError
from headwater.lake.scanning import scan
from headwater.model.sealed import SealError
from headwater.spark.columns import COLUMNS
from headwater.spark.table_files import files_of, place_of_table


@dataclass(frozen=True, slots=True)
class StoredStream:
    """One stream of a store, as far as its table holds it: a second or so behind."""

    account: str
    name: str
    path: Path
    first_seq: int
    """0 while the table is empty."""
    last_seq: int
    rows: int
    """Messages in the table, with those that were removed and not yet rewritten."""
    files: int
    size_bytes: int

    @property
    def schema(self) -> pa.Schema:
        """Return the columns that `scan` gives."""
        return COLUMNS

    def scan(self, **options: Any) -> Any:
        """Return the stream's messages; see `headwater.scan`."""
        return scan(self.path, **options)


class Lake:
    """A store's streams, read from its directory; no engine has to run."""

    def __init__(self, store: str | Path) -> None:
        self.store = Path(store)
        if not self.store.is_dir():
            raise SettingsError(f"there is no store in {self.store}")

    def __repr__(self) -> str:
        return f"Lake({str(self.store)!r})"

    def accounts(self) -> list[str]:
        """Return the accounts that have streams, in order."""
        return sorted({stream.account for stream in self.streams()})

    def streams(self, account: str | None = None) -> list[StoredStream]:
        """Return the streams of one account or of all, in order."""
        found = [_stored(path.parent) for path in sorted(self.store.glob(f"*/*/{IDENTITY}"))]
        return [stream for stream in found if stream and account in (None, stream.account)]

    def stream(self, name: str, account: str | None = None) -> StoredStream:
        """Return one stream; raise if there is none of that name, or one in several accounts."""
        found = [stream for stream in self.streams(account) if stream.name == name]
        if not found:
            raise SettingsError(f"there is no stream {name!r} in {self.store}")
        if len(found) > 1:
            accounts = ", ".join(stream.account for stream in found)
            raise SettingsError(f"stream {name!r} is in several accounts: {accounts}; name one")
        return found[0]


def _stored(path: Path) -> StoredStream | None:
    """Return the stream of a folder, None if it is being made or removed."""
    if path.name.startswith("."):
        return None
    try:
        identity = read_identity(RealDisk(), path)
    except (SealError, DiskError):
        return None
    if identity is None:
        return None
    account, name = identity.account, identity.name
    try:
        files = files_of(place_of_table(str(path)))
    except SettingsError:
        return StoredStream(account, name, path, 0, 0, 0, 0, 0)
    return StoredStream(
        account=account,
        name=name,
        path=path,
        first_seq=min((file.first_seq for file in files), default=0),
        last_seq=max((file.last_seq for file in files), default=0),
        rows=sum(file.rows for file in files),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
    )
