"""Messages as Arrow arrays, as in a row group: filtered and joined without a step per message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.model.columns import Columns, Int64s, Lengths
from headwater.table.pages import plain_values
from headwater.table.pages.data_chunk import DataChunk
from headwater.table.pages.plain_values import PlainValues
from headwater.table.schema import subject_bytes, subject_text

Datas: TypeAlias = "pa.BinaryArray | PlainValues | DataChunk"


@dataclass(frozen=True, slots=True)
class Rows:
    """Messages in ascending sequence; subjects are codes into their texts, a null header is none."""

    seqs: Int64s
    ts: Int64s
    subjects: pa.DictionaryArray
    headers: pa.BinaryArray
    datas: Datas
    """A chunk is the data of exactly these messages; rows can be neither removed nor added then."""

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def codes(self) -> Int64s:
        """Return for each message the place of its subject in the dictionary."""
        codes: Int64s = self.subjects.indices.to_numpy()
        return codes

    @property
    def texts(self) -> list[str]:
        """Return the distinct subjects as the texts that a table stores."""
        texts: list[str] = self.subjects.dictionary.to_pylist()
        return texts

    @property
    def payload_bytes(self) -> int:
        """Return the total size of headers and data."""
        return nbytes(self.headers) + data_nbytes(self.datas)

    @property
    def sizes(self) -> Int64s:
        """Return the size of each message: subject, headers and data."""
        headers = np.diff(ends_of(self.headers)) if self.headers.null_count < len(self) else 0
        return self.subject_lengths + headers + _lengths(_at_hand(self.datas))

    @property
    def subject_lengths(self) -> Int64s:
        """Return the length of each subject."""
        lengths = np.fromiter((len(subject_bytes(text)) for text in self.texts), np.int64)
        return lengths[self.codes]

    def filter(self, mask: npt.NDArray[np.bool_]) -> Rows:
        """Return only the rows where the mask is true."""
        rows = np.flatnonzero(mask)
        if len(rows) == len(self):
            return self
        has_headers = self.headers.null_count < len(self)
        return Rows(
            self.seqs[rows],
            self.ts[rows],
            _recoded(self.subjects.dictionary, self.codes[rows]),
            self.headers.take(rows) if has_headers else self.headers[: len(rows)],
            _at_hand(self.datas).take(rows),
        )

    def slice(self, start: int, stop: int) -> Rows:
        """Return the rows from start to stop, payload not copied."""
        return Rows(
            self.seqs[start:stop],
            self.ts[start:stop],
            _recoded(self.subjects.dictionary, self.codes[start:stop]),
            self.headers[start:stop],
            _at_hand(self.datas).slice(start, stop - start),
        )

    def none(self) -> Rows:
        """Return none of the rows."""
        nothing = pa.array([], pa.binary())
        return Rows(self.seqs[:0], self.ts[:0], self.subjects[:0], nothing, nothing)

    def cuts(self, most_rows: int, most_bytes: int) -> Iterator[Rows]:
        """Yield equal parts of at most about this many rows and bytes, with at least one row each."""
        count = max(-(-len(self) // most_rows), -(-self.payload_bytes // most_bytes), 1)
        if count == 1 or isinstance(self.datas, DataChunk):
            yield self
            return
        bounds = [len(self) * number // count for number in range(count + 1)]
        for start, stop in pairwise(bounds):
            if stop > start:
                yield self.slice(start, stop)

    def data_array(self) -> pa.BinaryArray:
        """Return the data of the messages as an array, copied only if it is not one already."""
        datas = _at_hand(self.datas)
        return datas.array() if isinstance(datas, PlainValues) else datas

    def columns(self) -> Columns:
        """Return the messages as lengths and joined bytes."""
        subjects = [subject_bytes(text) for text in self.texts]
        codes = self.codes
        lengths = np.fromiter(map(len, subjects), np.uint32, len(subjects))[codes]
        return Columns(
            self.seqs,
            self.ts,
            lengths,
            b"".join([subjects[code] for code in codes.tolist()]),
            *_joined(self.headers),
            *_joined(self.data_array()),
        )


def concat(parts: Sequence[Rows]) -> Rows:
    """Return the parts as one run."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([part.seqs for part in parts]),
        np.concatenate([part.ts for part in parts]),
        pa.concat_arrays([part.subjects for part in parts]),
        pa.concat_arrays([part.headers for part in parts]),
        _concat([_at_hand(part.datas) for part in parts]),
    )


def subject_codes(subjects: pa.BinaryArray) -> pa.DictionaryArray:
    """Return subjects as codes into their distinct texts."""
    coded = subjects.dictionary_encode()
    if bytes(bytes_of(coded.dictionary)).isascii():
        texts = coded.dictionary.view(pa.string())
    else:
        texts = pa.array([subject_text(subject) for subject in coded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(coded.indices, texts)


def ends_of(values: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return where each value begins in the joined buffer, and the end of the last one."""
    offsets = values.buffers()[1]
    if offsets is None:
        return np.zeros(1, np.int32)
    return np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]


def bytes_of(values: pa.BinaryArray) -> memoryview:
    """Return the joined bytes of all values, not copied."""
    ends, joined = ends_of(values), values.buffers()[2]
    return memoryview(joined)[int(ends[0]) : int(ends[-1])] if joined is not None else memoryview(b"")


def nbytes(values: pa.BinaryArray) -> int:
    """Return the total size of all values."""
    ends = ends_of(values)
    return int(ends[-1]) - int(ends[0])


def empty_as_null(values: pa.BinaryArray) -> pa.BinaryArray:
    """Return values with null instead of each that is empty, not copied."""
    present = np.diff(ends_of(values)) > 0
    _, offsets, joined = values.buffers()
    assert not values.offset
    buffers = [pa.py_buffer(np.packbits(present, bitorder="little")), offsets, joined]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def data_nbytes(values: Datas) -> int:
    """Return the total size of all values."""
    return values.nbytes if isinstance(values, PlainValues | DataChunk) else nbytes(values)


def _at_hand(datas: Datas) -> pa.BinaryArray | PlainValues:
    assert not isinstance(datas, DataChunk), "pages are taken whole"
    return datas


def _lengths(datas: pa.BinaryArray | PlainValues) -> Int64s:
    if isinstance(datas, PlainValues):
        return datas.widths - plain_values.LENGTH_BYTES
    return np.diff(ends_of(datas)).astype(np.int64)


def _concat(parts: Sequence[pa.BinaryArray | PlainValues]) -> pa.BinaryArray | PlainValues:
    if not any(isinstance(part, PlainValues) for part in parts):
        return pa.concat_arrays(parts)
    plain = (part if isinstance(part, PlainValues) else plain_values.of(part) for part in parts)
    return plain_values.concat(list(plain))


def _joined(values: pa.BinaryArray) -> tuple[Lengths, memoryview]:
    return np.diff(ends_of(values)).astype(np.uint32), bytes_of(values)


def _recoded(texts: pa.StringArray, codes: Int64s) -> pa.DictionaryArray:
    """Return codes into only the texts that they use, so that a file lists no subject that it lacks."""
    used = np.zeros(len(texts), np.bool_)
    used[codes] = True
    if np.count_nonzero(used) < len(used):
        codes = (np.cumsum(used, dtype=np.int32) - np.int32(1))[codes]
        texts = texts.filter(used)
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32, copy=False)), texts)
