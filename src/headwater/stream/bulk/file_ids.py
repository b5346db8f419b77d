"""The message ids of staged files: which of them are repeated, and the files without repeated messages.

Every function here reads or writes files and runs on a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from headwater.model.columns import Columns
from headwater.stream.bulk.header_blocks import HeaderBlocks
from headwater.stream.bulk.staged_part import StagedFile, StagedPart, binary_values
from headwater.stream.publishing.dedupe import FileIds
from headwater.stream.publishing.offered import OfferedRun
from headwater.table.staged import read_staged
from headwater.table.staging import Staging
from headwater.wire.bulk_rows import BulkRows


@dataclass(frozen=True)
class IdentifiedFile:
    """A staged file and its ids."""

    file: StagedFile
    ids: FileIds


def identified(
    staging: Staging,
    files: Sequence[StagedFile],
    is_known: Callable[[bytes], bool],
    new_part: Callable[[], StagedPart],
) -> list[IdentifiedFile]:
    """Return the files with their ids, without the messages whose id is known or was in one before.

    A file that loses messages is written again. A file that loses all of them is left out.
    """
    seen: set[bytes] = set()
    found = []
    for file in files:
        ids = _ids_of(staging, file)
        repeated = {row for row, each in enumerate(ids) if each and _is_repeated(each, seen, is_known)}
        if repeated:
            ids = [each for row, each in enumerate(ids) if row not in repeated]
        if ids:
            kept = _without(staging, file, repeated, new_part) if repeated else file
            found.append(IdentifiedFile(kept, FileIds.of(ids)))
    return found


def _is_repeated(message_id: bytes, seen: set[bytes], is_known: Callable[[bytes], bool]) -> bool:
    if message_id in seen or is_known(message_id):
        return True
    seen.add(message_id)
    return False


def _ids_of(staging: Staging, file: StagedFile) -> list[bytes]:
    if not file.has_ids:
        return [b""] * file.adopted.rows
    ids: list[bytes] = []
    for columns in read_staged(staging.open(file.adopted.name)):
        blocks = binary_values(columns.header_lengths, columns.headers, nullable=True)
        ids += HeaderBlocks(blocks).ids()
    return ids


def _without(
    staging: Staging, file: StagedFile, repeated: Set[int], new_part: Callable[[], StagedPart]
) -> StagedFile:
    """Return a new file without some rows of another."""
    part, start = new_part(), 0
    try:
        for columns in read_staged(staging.open(file.adopted.name)):
            kept = [row for row in range(len(columns)) if start + row not in repeated]
            start += len(columns)
            part.append(_bulk_rows(columns, kept))
        return part.finish()
    except BaseException:
        part.abandon()
        raise


def _bulk_rows(columns: Columns, rows: Sequence[int]) -> BulkRows:
    run = OfferedRun.chosen(OfferedRun.of(columns), rows)
    codes: dict[bytes, int] = {}
    used = [codes.setdefault(subject, len(codes)) for subject in run.subjects]
    kept = run.columns()
    return BulkRows(
        list(codes),
        np.array(used, np.uint32),
        kept.header_lengths,
        bytes(kept.headers),
        kept.data_lengths,
        bytes(kept.datas),
    )
