"""How copied messages change: which are wanted, with which subject and which headers."""

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
"""For how many subjects the result is cached."""


class Rewrite:
    """The rules of one range, applied to runs of messages: once for each distinct subject."""

    def __init__(self, work: Work) -> None:
        self._filters = [Filter(pattern) for pattern in work.filters]
        self._transforms = [SubjectTransform(src, dest) for src, dest in work.transforms]
        stream = work.stream_transform
        self._stream_transform = SubjectTransform(*stream) if stream else None
        self._source_line = SourceLine.of(*work.source_header) if work.source_header else None
        """The header that names the origin; None where none is added."""
        destinations = [dest for _, dest in (*work.transforms, *([stream] if stream else []))]
        # A random partition is chosen for each message, even if messages share a subject.
        self._is_random = any("random(" in dest.lower().replace(" ", "") for dest in destinations)
        self._looks_at_subjects = bool(self._filters or self._transforms or self._stream_transform)
        self._marks = [b"\r\n" + name for name in DEMANDS]
        if self._source_line:
            self._marks.append(b"\r\n" + SOURCE_HEADER + b":")
        self._made: dict[str, str | None] = {}
        """The target's subject of each subject seen; None if it is not wanted."""

    @property
    def keeps_subjects(self) -> bool:
        """Return whether all messages are wanted with the subjects they have."""
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
        """Return the wanted messages as the target stores them."""
        return self.made(rows.filter(self.wanted(rows)) if len(rows) else rows)

    def made(self, rows: Rows) -> Rows:
        """Return messages, all of which are wanted, as the target stores them."""
        if not len(rows):
            return rows
        headers = self.headers(rows)
        subjects = self.subjects(rows) if self._looks_at_subjects else rows.subjects
        return Rows(rows.seqs, rows.ts, subjects, headers, rows.datas)

    def _wanted(self, text: str) -> str | None:
        """Return the subject in the target, or None if it is not wanted; both as stored text."""
        if text in self._made:
            return self._made[text]
        made = self._subject(subject_bytes(text))
        if len(self._made) >= REMEMBERED:
            self._made.clear()
        self._made[text] = None if made is None else subject_text(made)
        return self._made[text]

    def _subject(self, subject: bytes) -> bytes | None:
        """Return the subject in the target, or None if it is not wanted."""
        if self._filters and not any(each.matches(subject) for each in self._filters):
            return None
        made: bytes | None = subject
        if self._transforms:
            applied = (transform.apply(subject) for transform in self._transforms)
            # A transform with an empty result leaves the subject unchanged: each message has a subject.
            made = next((each or subject for each in applied if each is not None), None)
        if made is None or self._stream_transform is None:
            return made
        return self._stream_transform.apply(made) or made

    def subjects(self, rows: Rows) -> pa.DictionaryArray:
        """Return the target's subjects of wanted messages."""
        texts, codes = rows.texts, rows.codes
        if self._is_random:
            subjects = [subject_bytes(text) for text in texts]
            drawn = (self._subject(subjects[code]) or b"" for code in codes.tolist())
            return pa.array([subject_text(each) for each in drawn], pa.string()).dictionary_encode()
        made = [self._wanted(text) or "" for text in texts]
        if made == texts:
            return rows.subjects
        # Several subjects may have become one, and a dictionary contains each once.
        distinct = pa.array(made, pa.string()).dictionary_encode()
        recoded = distinct.indices.to_numpy()[codes].astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(recoded), distinct.dictionary)

    def headers(self, rows: Rows) -> pa.BinaryArray:
        """Return the target's headers of messages."""
        headers = rows.headers
        if headers.null_count < len(headers):
            block = bytes(bytes_of(headers))
            if any(mark in block for mark in self._marks):
                headers = self._all_cleaned(headers, block)
        if self._source_line is None:
            return headers
        return with_source(headers, rows.seqs, rows.subjects, self._source_line)

    def _all_cleaned(self, headers: pa.BinaryArray, joined: bytes) -> pa.BinaryArray:
        """Return header blocks without the headers that a copy omits; null if none is left."""
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
