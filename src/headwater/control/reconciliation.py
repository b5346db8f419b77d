"""Makes the catalog and the declarations next to a stream's data agree when the stream is opened.

The higher revision is valid, wherever it is stored: a catalog or directory restored from a backup leaves one
of them outdated. The one exception is a change that the file announces and that never got its row.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headwater.control import declaration
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import ConsumerRow, StreamRow
from headwater.control.declaration import CONSUMERS, DECLARED, ConsumerFile, Declaration, Identity
from headwater.disk import Disk
from headwater.errors import DiskError
from headwater.model.names import directory_name
from headwater.model.sealed import NewerSealError, SealError

logger = logging.getLogger(__name__)
DAMAGED = ".damaged"


class Steps(NamedTuple):
    """The steps that make both records of a stream's consumers agree."""

    take: list[ConsumerFile]
    """Files that are newer than the catalog, or not in it."""
    write: list[ConsumerRow]
    """Rows that are newer than their file, or without one."""
    remove: list[ConsumerFile]
    """Outdated files."""


def takes_file(row: StreamRow, stored: Declaration) -> bool:
    """Return whether the declaration next to the data is valid, and not the row."""
    if _never_made(row, stored):
        return False
    if stored.revision != row.revision:
        return stored.revision > row.revision
    return stored.config != row.config


def _never_made(row: StreamRow, stored: Declaration) -> bool:
    """Return whether the declaration is of a change that was refused or cut short before it had its row."""
    return stored.replaces != 0 and stored.replaces == row.revision


def consumer_steps(rows: list[ConsumerRow], files: list[ConsumerFile]) -> Steps:
    """Return the steps for the consumers of a stream."""
    by_stem: Mapping[str, ConsumerRow] = {directory_name(row.name): row for row in rows}
    newest = declaration.newest(files)
    steps = Steps([], [], [file for file in files if newest[file.stem] != file])
    for stem, file in newest.items():
        row = by_stem.get(stem)
        if row is None or file > row.file:
            steps.take.append(file)
        elif file < row.file:
            steps.remove.append(file)
    steps.write.extend(row for stem, row in by_stem.items() if stem not in newest or newest[stem] < row.file)
    return steps


class Reconciliation:
    """Both records of the declarations; every method blocks on the disk."""

    def __init__(self, catalog: Catalog, disk: Disk) -> None:
        self._catalog = catalog
        self._disk = disk

    def settle(self, row: StreamRow, home: Path) -> StreamRow:
        """Return the stream's row once the catalog and the files in its directory agree."""
        if not declaration.is_sealed(self._disk, home):
            identity = Identity(row.identity, row.account, row.name)
            declaration.write_identity(self._disk, home, identity)
        row = self._settle_stream(row, home)
        self._settle_consumers(row, home)
        return row

    def _settle_stream(self, row: StreamRow, home: Path) -> StreamRow:
        stored = self._read_stored(row, home)
        if stored is not None and takes_file(row, stored):
            logger.warning(
                "stream %r: using the config next to its data, newer than the catalog (revision %d, %d)",
                row.name,
                stored.revision,
                row.revision,
            )
            row = StreamRow.of(stored, row.directory)
            self._catalog.replace(row)
        elif stored is None or stored != row.declaration(self._catalog.store_id):
            self._write_again(row, home, stored)
        return row

    def _write_again(self, row: StreamRow, home: Path, stored: Declaration | None) -> None:
        try:
            declaration.write_declaration(self._disk, home, row.declaration(self._catalog.store_id))
        except DiskError as error:
            if stored is None or not _never_made(row, stored):
                raise
            # The row counts at the next start, too.
            logger.warning("stream %r: cannot remove a refused config yet: %s", row.name, error)

    def _read_stored(self, row: StreamRow, home: Path) -> Declaration | None:
        """Return the declaration next to the data; a damaged file is kept with another name."""
        try:
            stored = declaration.read_declaration(self._disk, home)
        except NewerSealError as error:
            raise error.of(f"the config {home / DECLARED}") from error
        except SealError as error:
            logger.error("stream %r: %s: %s; using the catalog's config", row.name, home / DECLARED, error)
            self._disk.rename(home / DECLARED, home / (DECLARED + DAMAGED))
            return None
        if stored is not None and stored.identity != row.identity:
            logger.error("stream %r: %s is that of another stream", row.name, home / DECLARED)
            self._disk.rename(home / DECLARED, home / (DECLARED + DAMAGED))
            return None
        return stored

    def _settle_consumers(self, row: StreamRow, home: Path) -> None:
        rows = self._catalog.consumers(row.account, row.name)
        files = declaration.consumer_files(self._disk, home)
        steps = consumer_steps(rows, files)
        for file in steps.take:
            self._take(row, home, file)
        for consumer in steps.write:
            declaration.write_consumer(self._disk, home, consumer.declaration(row.identity), None)
        if steps.remove:
            declaration.remove_consumers(self._disk, home, steps.remove)

    def _take(self, row: StreamRow, home: Path, file: ConsumerFile) -> None:
        try:
            found = declaration.read_consumer(self._disk, home, file)
        except NewerSealError as error:
            raise error.of(f"the consumer {home / CONSUMERS / str(file)}") from error
        except (SealError, DiskError) as error:
            logger.error("stream %r: cannot open the consumer in %s: %s", row.name, file, error)
            return
        if found.identity != row.identity:
            logger.error("stream %r: the consumer in %s belongs to another stream", row.name, file)
            return
        logger.warning("consumer %r of %r: using its file, newer than the catalog", found.name, row.name)
        self._catalog.put_consumer(
            ConsumerRow(row.account, row.name, found.name, found.config, found.created_ns, found.revision),
            of=row.identity,
        )
