"""The contents of a store: the directories of streams with their identities, and the catalog's rows."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headwater.control import declaration
from headwater.control.catalog import Catalog
from headwater.control.catalog_file import CatalogError
from headwater.control.catalog_rows import ConsumerRow, StreamRow
from headwater.control.declaration import DECLARED, IDENTITY, UNFINISHED, Declaration, Identity
from headwater.disk import Disk
from headwater.errors import DiskError
from headwater.model.sealed import SealError
from headwater.store.database_copy import CopyDatabase, copy_at_rest
from headwater.store.finding import Finding, Kind, note, of_stream, problem

CATALOG = "catalog.db"


@dataclass(frozen=True)
class StreamDirectory:
    """A stream's directory with its identity and declaration; None if missing or damaged."""

    path: Path
    identity: Identity | None
    declared: Declaration | None
    damage: tuple[Finding, ...] = ()
    is_unfinished: bool = False

    @property
    def id(self) -> str:
        """Return the identity in either of the directory's files."""
        if self.identity is not None:
            return self.identity.identity
        return self.declared.identity if self.declared is not None else ""

    @property
    def is_in_place(self) -> bool:
        """Return whether the directory has the name in its declaration."""
        return self.declared is not None and self.declared.directory == self.path.name

    @property
    def place(self) -> Path:
        """Return the directory that its declaration names, or else this one."""
        return self.path if self.declared is None else self.path.with_name(self.declared.directory)

    @property
    def name(self) -> str:
        """Return the stream's name, or the directory's if there is no declaration."""
        found = self.identity or self.declared
        return found.name if found is not None else self.path.name

    @property
    def account(self) -> str:
        """Return the account, or the parent directory's name if there is no declaration."""
        found = self.identity or self.declared
        return found.account if found is not None else self.path.parent.name


@dataclass
class CatalogView:
    """The rows of a catalog as they can be read without changing it."""

    store_id: str = ""
    rows: list[StreamRow] = field(default_factory=list)
    consumers: dict[tuple[str, str], list[ConsumerRow]] = field(default_factory=dict)
    deletions: set[str] = field(default_factory=set)
    problem: str = ""
    """Why there are no rows, or not all."""


def read_homes(disk: Disk, store: Path) -> list[StreamDirectory]:
    """Return every stream's directory of a store."""
    return [_home(disk, path) for path in declaration.homes(disk, store)]


def _home(disk: Disk, path: Path) -> StreamDirectory:
    damage: list[Finding] = []
    identity: Identity | None = None
    declared: Declaration | None = None
    try:
        identity = declaration.read_identity(disk, path)
        if identity is None:
            damage.append(problem(Kind.IDENTITY, path / IDENTITY, "it is missing", _NO_IDENTITY))
    except (SealError, DiskError) as error:
        damage.append(problem(Kind.IDENTITY, path / IDENTITY, error, _NO_IDENTITY))
    try:
        declared = declaration.read_declaration(disk, path)
    except (SealError, DiskError) as error:
        damage.append(problem(Kind.DECLARATION, path / DECLARED, error, _NO_DECLARATION))
    if identity is not None and declared is not None and identity.identity != declared.identity:
        damage.append(
            problem(Kind.DECLARATION, path / DECLARED, "it is that of another stream", _NO_DECLARATION)
        )
        declared = None
    return StreamDirectory(path, identity, declared, tuple(damage), (path / UNFINISHED).exists())


_NO_IDENTITY = "The stream is offline, since its directory cannot be recognised"
_NO_DECLARATION = "The stream is served, but a lost catalog could not be rebuilt from this file"


def read_catalog(store: Path, copy: CopyDatabase = copy_at_rest) -> CatalogView:
    """Return what the catalog of a store says; the file is copied first, so that nothing is changed."""
    path = store / CATALOG
    if not path.exists() or not path.stat().st_size:
        return CatalogView(problem="it is missing or empty")
    with tempfile.TemporaryDirectory(prefix="headwater-verify-") as scratch:
        try:
            copy(path, Path(scratch) / CATALOG)
            catalog = Catalog(Path(scratch) / CATALOG)
        except sqlite3.OperationalError:
            raise  # it is locked, or cannot be opened: that says nothing about what it holds
        except (CatalogError, sqlite3.Error) as error:
            return CatalogView(problem=str(error).replace(scratch, str(store)))
        try:
            return _view(catalog)
        except (CatalogError, sqlite3.Error) as error:
            return CatalogView(problem=str(error).replace(scratch, str(store)))
        finally:
            catalog.close()


def _view(catalog: Catalog) -> CatalogView:
    rows = [row for account in catalog.accounts() for row in catalog.streams(account)]
    consumers = {(row.account, row.name): catalog.consumers(row.account, row.name) for row in rows}
    return CatalogView(catalog.store_id, rows, consumers, catalog.deletions())


def compare(store: Path, homes: Iterable[StreamDirectory], catalog: CatalogView) -> list[Finding]:
    """Return where the catalog and the directories do not agree."""
    homes = list(homes)
    if catalog.problem:
        return [problem(Kind.CATALOG, store / CATALOG, catalog.problem, "No stream can be served")]
    expected_paths = places(catalog.rows, store)
    found = [
        of_stream(note(home.path, f"it is a copy of {place}, and not used"), home.account, home.name)
        for home, place in copies(homes, expected_paths)
    ]
    homes = [home for home in homes if not any(home is each for each, _ in copies(homes, expected_paths))]
    by_id = {home.id: home for home in homes if home.id}
    known = {row.identity for row in catalog.rows}
    for row in catalog.rows:
        home = by_id.get(row.identity)
        expected = row.home(store)
        if home is None and not any(each.path == expected for each in homes):
            what = problem(Kind.NO_HOME, expected, "the directory is missing", _OFFLINE, _RESTORE)
            found.append(of_stream(what, row.account, row.name))
        elif home is not None and home.path != expected:
            what = problem(Kind.MOVED, home.path, f"the catalog says {expected}", _OFFLINE)
            found.append(of_stream(what, row.account, row.name))
    for home in homes:
        unknown = home.id not in known if home.id else home.path not in expected_paths
        if unknown and not home.is_unfinished and home.id not in catalog.deletions:
            what = problem(Kind.ORPHAN, home.path, "the catalog does not know this stream", _OFFLINE)
            found.append(of_stream(what, home.account, home.name))
    return found


def places(rows: Iterable[StreamRow], store: Path) -> dict[Path, str]:
    """Return where the catalog says that streams are, with their identities."""
    return {row.home(store): row.identity for row in rows}


def copies(
    homes: Iterable[StreamDirectory], expected: Mapping[Path, str]
) -> list[tuple[StreamDirectory, Path]]:
    """Return directories that have the identity of another one, which is at the path in the catalog.

    The other one may have lost its identity. It is still the stream, and a copy of it may be older.
    """
    homes = list(homes)
    in_place = [home for home in homes if home.path in expected and home.id in ("", expected[home.path])]
    placed = {expected[home.path]: home.path for home in in_place}
    return [(home, placed[home.id]) for home in homes if placed.get(home.id, home.path) != home.path]


_OFFLINE = "The stream is offline, nothing of it is touched"
_RESTORE = "Put the directory back, or delete the stream, or repair with --forget-missing"
