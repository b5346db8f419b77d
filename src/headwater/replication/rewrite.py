"""What becomes of copied messages on their way: which are wanted, under which subject, with which headers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headwater.model import headers as header_block
from headwater.model.columns import Buffer, Columns, Int64s, Lengths, keep
from headwater.model.subject import Filter
from headwater.model.transform import SubjectTransform
from headwater.replication.work import Work

SOURCE_HEADER = b"Nats-Stream-Source"
# What a publisher demanded of the origin says nothing about the target, which would refuse the message.
_DEMANDS = (b"Nats-Expected-", b"Nats-Batch-")


class Rewrite:
    """The rules of one piece of work, applied to runs of messages: once for each distinct subject."""

    def __init__(self, work: Work) -> None:
        self._filters = [Filter(pattern) for pattern in work.filters]
        self._transforms = [SubjectTransform(src, dest) for src, dest in work.transforms]
        stream = work.stream_transform
        self._stream_transform = SubjectTransform(*stream) if stream else None
        self._source_line = _source_line(*work.source_header) if work.source_header else b""
        destinations = [dest for _, dest in (*work.transforms, *([stream] if stream else []))]
        # A random part is drawn for each message, however many share a subject.
        self._is_random = any("random(" in dest.lower().replace(" ", "") for dest in destinations)
        self._looks_at_subjects = bool(self._filters or self._transforms or self._stream_transform)
        self._marks = [b"\r\n" + name for name in _DEMANDS]
        if self._source_line:
            self._marks.append(b"\r\n" + SOURCE_HEADER + b":")

    def apply(self, columns: Columns) -> Columns:
        """Return what is wanted of the messages, as the target takes it."""
        if not (len(columns) and (self._looks_at_subjects or self._source_line)):
            return self._with_headers(columns, [])
        codes, subjects = distinct(columns, self._is_random)
        made = [self._subject(subject) for subject in subjects]
        mask = np.fromiter((subject is not None for subject in made), np.bool_, len(made))[codes]
        columns, codes = keep(columns, mask), codes[mask]
        columns = self._with_headers(columns, [subjects[code] for code in codes.tolist()])
        if made == subjects:
            return columns
        return _replaced(columns, subjects=[made[code] or b"" for code in codes.tolist()])

    def _subject(self, subject: bytes) -> bytes | None:
        """Return the subject in the target, None if messages on it are not wanted."""
        if self._filters and not any(each.matches(subject) for each in self._filters):
            return None
        made: bytes | None = subject
        if self._transforms:
            applied = (transform.apply(subject) for transform in self._transforms)
            made = next((each for each in applied if each is not None), None)
        if made is None or self._stream_transform is None:
            return made
        return self._stream_transform.apply(made) or made

    def _with_headers(self, columns: Columns, subjects: list[bytes]) -> Columns:
        """Return the messages with the headers that they have in the target."""
        block = bytes(columns.headers)
        is_clean = not any(mark in block for mark in self._marks)
        if not self._source_line and is_clean:
            return columns
        blocks = _cut(columns.header_lengths, block) if block else iter(())
        if not is_clean:
            blocks = map(self._cleaned, blocks)
        if self._source_line:
            lines = map(self._source_line.__mod__, zip(columns.seqs.tolist(), subjects, strict=True))
            if block:
                blocks = (_opened(each) + line for each, line in zip(blocks, lines, strict=True))
            else:
                blocks = map((header_block.VERSION + b"\r\n").__add__, lines)
        return _replaced(columns, headers=list(blocks))

    def _cleaned(self, block: bytes) -> bytes:
        for name in _DEMANDS:
            block = header_block.remove_prefix(block, name)
        return header_block.remove(block, SOURCE_HEADER) if self._source_line else block


def _source_line(name: str, filters: str, destinations: str, identity: str) -> bytes:
    """Return the header that tells where a message came from, with places for sequence and subject."""
    parts = [SOURCE_HEADER.decode() + ": " + name, filters, destinations, identity]
    first, taken, made, origin = (part.replace("%", "%%") for part in parts)
    ending = f" {origin}" if origin else ""
    return f"{first} %d {taken} {made} %b{ending}\r\n\r\n".encode()


def _opened(block: bytes) -> bytes:
    """Return a header block without its end, so that a header can follow."""
    return block[:-2] if block.endswith(b"\r\n\r\n") else header_block.VERSION + b"\r\n"


def distinct(columns: Columns, each: bool = False) -> tuple[Int64s, list[bytes]]:
    """Return for each message the place of its subject among the distinct ones, or among all of them."""
    if each:
        return np.arange(len(columns)), list(_cut(columns.subject_lengths, bytes(columns.subjects)))
    ends = _ends(columns.subject_lengths)
    assert ends[-1] <= 0x7FFFFFFF
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(columns.subjects)]
    coded = pa.Array.from_buffers(pa.binary(), len(columns), buffers).dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()


def _replaced(
    columns: Columns, *, subjects: list[bytes] | None = None, headers: list[bytes] | None = None
) -> Columns:
    """Return the messages with other subjects or other headers."""
    subject = _joined(subjects) if subjects is not None else (columns.subject_lengths, columns.subjects)
    header = _joined(headers) if headers is not None else (columns.header_lengths, columns.headers)
    return Columns(columns.seqs, columns.ts, *subject, *header, columns.data_lengths, columns.datas)


def _joined(values: list[bytes]) -> tuple[Lengths, Buffer]:
    return np.fromiter(map(len, values), np.uint32, len(values)), b"".join(values)


def _cut(lengths: Lengths, joined: bytes) -> Iterator[bytes]:
    """Yield each value of joined ones."""
    ends = _ends(lengths).tolist()
    return (joined[start:stop] for start, stop in pairwise(ends))


def _ends(lengths: Lengths) -> Int64s:
    """Return where each value begins in the joined bytes, and at last where all end."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends
