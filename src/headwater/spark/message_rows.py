"""Rows of a DataFrame as messages: the columns that a sink takes, and chunks of them for a bulk write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import SettingsError
from headwater.model import headers as header_block
from headwater.model.copied import SOURCE_HEADER
from headwater.table.rows import bytes_of, ends_of
from headwater.wire.bulk_rows import BulkRows

SUBJECT, DATA, HEADERS, MESSAGE_ID = "subject", "data", "headers", "msg_id"
IGNORED = ("seq", "time", "nanos")
"""Columns that the reader returns and a stream assigns itself."""
ROW_BYTES = 12
"""What a chunk takes for each message besides its bytes: a code and two lengths."""


class MessageRows:
    """The messages of one record batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.subjects = _text(batch, SUBJECT)
        self.datas = _binary(batch)
        self.headers = _header_blocks(batch)
        """The header block of each message, empty = none; an array of bytes without nulls."""

    def __len__(self) -> int:
        return len(self.subjects)

    def chunks(self, most_bytes: int) -> Iterator[BulkRows]:
        """Yield the messages as chunks that take at most this many bytes, at least one message each."""
        coded = self.subjects.dictionary_encode()
        texts = [text.encode() for text in coded.dictionary.to_pylist()]
        codes = coded.indices.to_numpy().astype(np.uint32)
        lengths = np.diff(ends_of(self.datas)).astype(np.uint32)
        blocks = np.diff(ends_of(self.headers)).astype(np.uint32)
        names = np.fromiter(map(len, texts), np.int64, len(texts))
        ends = np.cumsum(ROW_BYTES + names[codes] + lengths + blocks)
        start = 0
        while start < len(codes):
            before = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, before + most_bytes, side="right")), start + 1)
            used, recoded = np.unique(codes[start:stop], return_inverse=True)
            yield BulkRows(
                [texts[code] for code in used.tolist()],
                recoded.astype(np.uint32),
                blocks[start:stop],
                bytes(bytes_of(self.headers[start:stop])),
                lengths[start:stop],
                bytes_of(self.datas[start:stop]),
            )
            start = stop


def check_columns(names: Sequence[str], types: Sequence[str]) -> None:
    """Refuse a DataFrame that has not the columns of messages; types are Spark's simple names."""
    allowed = {
        SUBJECT: ("string",),
        DATA: ("binary", "string"),
        HEADERS: ("map<string,array<string>>", "map<string,string>"),
        MESSAGE_ID: ("string",),
    }
    for name, kind in zip(names, types, strict=True):
        if name in IGNORED:
            continue
        if name not in allowed:
            raise SettingsError(f"a message has no column {name!r}; it has {', '.join(allowed)}")
        if kind not in allowed[name]:
            raise SettingsError(f"column {name!r} must be {' or '.join(allowed[name])}, not {kind}")
    for name in (SUBJECT, DATA):
        if name not in names:
            raise SettingsError(f"the DataFrame has no column {name!r}")


def _text(batch: pa.RecordBatch, name: str) -> pa.StringArray:
    column = batch.column(name).cast(pa.string())
    if column.null_count:
        raise SettingsError(f"column {name!r} has a null")
    return column


def _binary(batch: pa.RecordBatch) -> pa.BinaryArray:
    """Return the data of each message; null is empty."""
    return pc.fill_null(batch.column(DATA).cast(pa.binary()), b"")


def _header_blocks(batch: pa.RecordBatch) -> pa.BinaryArray:
    present = [name for name in (HEADERS, MESSAGE_ID) if name in batch.schema.names]
    values = {name: batch.column(name) for name in present}
    values = {name: column for name, column in values.items() if column.null_count < len(column)}
    if not values:
        return pa.array([b""] * batch.num_rows, pa.binary())
    if HEADERS not in values:
        return _id_blocks(values[MESSAGE_ID])
    maps = values[HEADERS].to_pylist()
    ids = values[MESSAGE_ID].to_pylist() if MESSAGE_ID in values else [None] * batch.num_rows
    blocks = [header_block.build(_pairs(pairs, id_)) for pairs, id_ in zip(maps, ids, strict=True)]
    return pa.array(blocks, pa.binary())


def _id_blocks(ids: pa.Array) -> pa.BinaryArray:
    """Return header blocks with an id each, made without a step per message."""
    lines = ids.cast(pa.string())
    for end in ("\r", "\n"):
        lines = pc.replace_substring(lines, pattern=end, replacement=" ")
    before, after = header_block.build([(header_block.MESSAGE_ID, b"|")]).decode().split("|")
    blocks = pc.binary_join_element_wise(pa.scalar(before), lines, pa.scalar(after), "")
    return pc.fill_null(blocks.cast(pa.binary()), b"")


def _pairs(pairs: Any, message_id: str | None) -> list[tuple[bytes, bytes]]:
    """Return the headers of one message; those that only a source may set are left out."""
    found: list[tuple[bytes, bytes]] = []
    for name, value in pairs or ():
        raw = name.encode()
        if not raw or not name.isprintable() or ":" in name or " " in name:
            raise SettingsError(f"{name!r} is not the name of a header")
        if raw == SOURCE_HEADER or (raw == header_block.MESSAGE_ID and message_id is not None):
            continue
        values = [value] if isinstance(value, str) else value or ()
        found += ((raw, text.encode()) for text in values if text is not None)
    if message_id is not None:
        found.append((header_block.MESSAGE_ID, message_id.encode()))
    return found
