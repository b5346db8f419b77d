"""Brings the catalog and what lies beside a stream's data into step when the stream is opened.

The higher revision counts, wherever it lies: a crash between two writes leaves one of them behind, and so
does a catalog or a directory that was restored from a backup.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headwater.control import declaration
from headwater.control.catalog import Catalog, ConsumerRow, StreamRow
from headwater.control.declaration import CONSUMERS, DECLARED, ConsumerFile, Declaration, Identity
from headwater.disk import Disk
from headwater.errors import DiskError
from headwater.model.names import directory_name
from headwater.model.sealed import NewerSealError, SealError

logger = logging.getLogger(__name__)
DAMAGED = ".damaged"


class Steps(NamedTuple):
    """What must be done so that both records of a stream's consumers agree."""

    take: list[ConsumerFile]
    """Newer than the catalog, or not in it."""
    write: list[ConsumerRow]
    """Newer than the file, or without one."""
    remove: list[ConsumerFile]
    """Older than what counts."""


def takes_file(row: StreamRow, beside: Declaration) -> bool:
    """Return whether the declaration beside the data counts, and not the row."""
    if beside.revision != row.revision:
        return beside.revision > row.revision
    return beside.config != row.config


def consumer_steps(rows: list[ConsumerRow], files: list[ConsumerFile]) -> Steps:
    """Return what must be done for the consumers of a stream."""
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
    """Both records of what is declared; every method blocks on the disk."""

    def __init__(self, catalog: Catalog, disk: Disk) -> None:
        self._catalog = catalog
        self._disk = disk

    def settle(self, row: StreamRow, home: Path) -> StreamRow:
        """Return the stream's row once the catalog and what lies in its home agree."""
        if not declaration.is_sealed(self._disk, home):
            identity = Identity(row.identity, row.account, row.name)
            declaration.write_identity(self._disk, home, identity)
        row = self._settle_stream(row, home)
        self._settle_consumers(row, home)
        return row

    def _settle_stream(self, row: StreamRow, home: Path) -> StreamRow:
        beside = self._beside(row, home)
        if beside is not None and takes_file(row, beside):
            logger.warning(
                "stream %r: the config beside its data is newer than the catalog (revision %d, %d) and used",
                row.name,
                beside.revision,
                row.revision,
            )
            row = StreamRow.of(beside, row.directory)
            self._catalog.replace(row)
        elif beside is None or beside.revision < row.revision or beside.store != self._catalog.store_id:
            declaration.write_declaration(self._disk, home, row.declaration(self._catalog.store_id))
        return row

    def _beside(self, row: StreamRow, home: Path) -> Declaration | None:
        """Return what lies beside the data; a damaged file is kept under another name."""
        try:
            beside = declaration.read_declaration(self._disk, home)
        except NewerSealError as error:
            raise error.of(f"the config {home / DECLARED}") from error
        except SealError as error:
            logger.error("stream %r: %s: %s; the catalog's config is used", row.name, home / DECLARED, error)
            self._disk.rename(home / DECLARED, home / (DECLARED + DAMAGED))
            return None
        if beside is not None and beside.identity != row.identity:
            logger.error("stream %r: %s is that of another stream", row.name, home / DECLARED)
            self._disk.rename(home / DECLARED, home / (DECLARED + DAMAGED))
            return None
        return beside

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
            logger.error("stream %r: the consumer in %s is left out: %s", row.name, file, error)
            return
        if found.identity != row.identity:
            logger.error("stream %r: the consumer in %s belongs to another stream", row.name, file)
            return
        logger.warning("consumer %r of %r is newer than the catalog, and is used", found.name, row.name)
        self._catalog.put_consumer(
            ConsumerRow(row.account, row.name, found.name, found.config, found.created_ns, found.revision),
            of=row.identity,
        )
