"""What becomes of copied messages on their way: which are wanted, under which subject, with which headers."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model import headers as header_block
from headwater.model.copied import SOURCE_HEADER, SourceLine
from headwater.model.headers import DEMANDS
from headwater.model.subject import Filter
from headwater.model.transform import SubjectTransform
from headwater.replication.work import Work
from headwater.table.rows import Rows, bytes_of, empty_as_null
from headwater.table.schema import subject_bytes, subject_text
from headwater.table.source_header import with_source

REMEMBERED = 100_000
"""So many subjects are asked for once; beyond that they are asked for again."""


class Rewrite:
    """The rules of one piece of work, applied to runs of messages: once for each distinct subject."""

    def __init__(self, work: Work) -> None:
        self._filters = [Filter(pattern) for pattern in work.filters]
        self._transforms = [SubjectTransform(src, dest) for src, dest in work.transforms]
        stream = work.stream_transform
        self._stream_transform = SubjectTransform(*stream) if stream else None
        self._source_line = SourceLine.of(*work.source_header) if work.source_header else None
        destinations = [dest for _, dest in (*work.transforms, *([stream] if stream else []))]
        # A random part is drawn for each message, however many share a subject.
        self._is_random = any("random(" in dest.lower().replace(" ", "") for dest in destinations)
        self._looks_at_subjects = bool(self._filters or self._transforms or self._stream_transform)
        self._marks = [b"\r\n" + name for name in DEMANDS]
        if self._source_line:
            self._marks.append(b"\r\n" + SOURCE_HEADER + b":")
        self._made: dict[str, str | None] = {}

    @property
    def keeps_subjects(self) -> bool:
        """Return whether all messages are wanted, under the subjects that they have."""
        return not self._looks_at_subjects

    def wants_any(self, texts: Collection[str]) -> bool:
        """Return whether messages on any of these subjects are wanted."""
        return not self._looks_at_subjects or any(self._wanted(text) is not None for text in texts)

    def wanted(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return which of the messages are wanted."""
        if not self._looks_at_subjects:
            return np.ones(len(rows), np.bool_)
        made, texts = self._made, rows.texts
        marks = [(made[text] if text in made else self._wanted(text)) is not None for text in texts]
        return np.array(marks, np.bool_)[rows.codes]

    def apply(self, rows: Rows) -> Rows:
        """Return what is wanted of the messages, as the target takes it."""
        return self.made(rows.filter(self.wanted(rows)) if len(rows) else rows)

    def made(self, rows: Rows) -> Rows:
        """Return messages that are all wanted as the target takes them."""
        if not len(rows):
            return rows
        headers = self._headers(rows)
        subjects = self._subjects(rows) if self._looks_at_subjects else rows.subjects
        return Rows(rows.seqs, rows.ts, subjects, headers, rows.datas)

    def _wanted(self, text: str) -> str | None:
        """Return the subject in the target, None if messages on it are not wanted; both as stored texts."""
        if text in self._made:
            return self._made[text]
        made = self._subject(subject_bytes(text))
        if len(self._made) >= REMEMBERED:
            self._made.clear()
        self._made[text] = None if made is None else subject_text(made)
        return self._made[text]

    def _subject(self, subject: bytes) -> bytes | None:
        """Return the subject in the target, None if messages on it are not wanted."""
        if self._filters and not any(each.matches(subject) for each in self._filters):
            return None
        made: bytes | None = subject
        if self._transforms:
            applied = (transform.apply(subject) for transform in self._transforms)
            # A transform that leaves nothing of a subject leaves it as it was: no message is without one.
            made = next((each or subject for each in applied if each is not None), None)
        if made is None or self._stream_transform is None:
            return made
        return self._stream_transform.apply(made) or made

    def _subjects(self, rows: Rows) -> pa.DictionaryArray:
        """Return the subjects that wanted messages have in the target."""
        texts, codes = rows.texts, rows.codes
        if self._is_random:
            subjects = [subject_bytes(text) for text in texts]
            drawn = (self._subject(subjects[code]) or b"" for code in codes.tolist())
            return pa.array([subject_text(each) for each in drawn], pa.string()).dictionary_encode()
        made = [self._wanted(text) or "" for text in texts]
        if made == texts:
            return rows.subjects
        # Several subjects may have become one, and a dictionary holds each once.
        distinct = pa.array(made, pa.string()).dictionary_encode()
        recoded = distinct.indices.to_numpy()[codes].astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(recoded), distinct.dictionary)

    def _headers(self, rows: Rows) -> pa.BinaryArray:
        """Return the headers that messages have in the target."""
        headers = rows.headers
        if headers.null_count < len(headers):
            block = bytes(bytes_of(headers))
            if any(mark in block for mark in self._marks):
                headers = self._all_cleaned(headers, block)
        if self._source_line is None:
            return headers
        return with_source(headers, rows.seqs, rows.subjects, self._source_line)

    def _all_cleaned(self, headers: pa.BinaryArray, joined: bytes) -> pa.BinaryArray:
        """Return header blocks without what a copy leaves out; null where nothing is left."""
        has_whole_lines = joined.count(b"\r") == joined.count(b"\r\n")
        if not (has_whole_lines and pc.all(pc.ends_with(headers, pattern="\r\n\r\n")).as_py()):
            return pa.array(
                [self._cleaned(each) if each else None for each in headers.to_pylist()], pa.binary()
            )
        lines = b"|".join(re.escape(mark) for mark in self._marks).decode()
        cleaned = pc.replace_substring_regex(headers, pattern=f"(?:{lines})[^\r]*", replacement="")
        nothing = pc.equal(cleaned, pa.scalar(header_block.EMPTY, pa.binary())).fill_null(True)
        return empty_as_null(pc.if_else(nothing, pa.scalar(b"", pa.binary()), cleaned))

    def _cleaned(self, block: bytes) -> bytes | None:
        for name in DEMANDS:
            block = header_block.remove_prefix(block, name)
        return (header_block.remove(block, SOURCE_HEADER) if self._source_line else block) or None
