"""Describes a data file from its path and bytes alone, for when no commit names it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyroaring import BitMap64

from headwater.errors import CorruptionError
from headwater.model.copied import Copied
from headwater.objects.object_error import ObjectError
from headwater.table import parquet
from headwater.table.datafile import DataFile, FileContent
from headwater.table.output import footer_crc_of
from headwater.table.row_group import RowGroup
from headwater.table.schema import NO_VALUE, PARTITION, PARTITIONS, subject_text
from headwater.table.stored_bytes import LocalBytes, StoredBytes


class FoundFile(NamedTuple):
    """A file whose bytes were all checked, and its sequences."""

    file: DataFile
    seqs: BitMap64


def place_of(path: str) -> tuple[int, Copied | None]:
    """Return the base of a file's sequences and its origin, from the folders of its path."""
    said = dict(part.split("=", 1) for part in Path(path).parts[:-1])
    values = [None if said.get(name) in (None, NO_VALUE) else said[name] for name in PARTITIONS[1:]]
    source, source_id, source_base, micros = values
    base_seq = int(said[PARTITION])
    if source is None or source_id is None or source_base is None or micros is None:
        return base_seq, None
    return base_seq, Copied(source, source_id, int(source_base), int(micros), 0, 0, 0)


def read_found(directory: Path, path: str, opened: StoredBytes | None = None) -> FoundFile:
    """Return the content of a file, all of it read and checked; raise if it is damaged or missing."""
    whole = directory / path
    opened = opened or LocalBytes(whole)
    try:
        base_seq, copied = place_of(path)
        footer = parquet.read_footer(opened, footer_crc_of(path))
        count = len(footer.bounds)
        groups = [parquet.read_group(opened, footer, index, base_seq, None) for index in range(count)]
        _, size_bytes = opened.tail(1)
    except (ValueError, KeyError) as error:
        raise CorruptionError(whole, 0, f"its path contains no position in a stream: {error}") from error
    except OSError as error:
        raise CorruptionError(whole, 0, f"it cannot be read: {error}") from error
    except ObjectError as error:
        if error.is_outage:
            raise  # which says nothing about the file
        raise CorruptionError(whole, 0, f"it cannot be read: {error}") from error
    if not groups:
        raise CorruptionError(whole, 0, "it contains no message")
    return _described(path, base_seq, copied, size_bytes, groups)


def _described(
    path: str, base_seq: int, copied: Copied | None, size_bytes: int, groups: list[RowGroup]
) -> FoundFile:
    seqs = BitMap64()
    for group in groups:
        seqs.update(group.seqs.tolist())
    subjects = {subject_text(subject) for group in groups for subject in set(group.subjects)}
    rows = sum(len(group) for group in groups)
    content = FileContent(
        rows,
        seqs.min() - base_seq,
        seqs.max() - base_seq,
        min(int(group.ts.min()) for group in groups),
        max(int(group.ts.max()) for group in groups),
        min(subjects),
        max(subjects),
        rows - sum(int(group.with_headers.sum()) for group in groups),
        size_bytes,
    )
    file = DataFile.of(path, base_seq, content, copied)
    return FoundFile(file, seqs)
