"""Adds the `Nats-Stream-Source` header to many header blocks at once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.columns import Int64s
from headwater.model.copied import START, SourceLine
from headwater.table.schema import subject_bytes


def with_source(
    headers: pa.BinaryArray, seqs: Int64s, subjects: pa.DictionaryArray, line: SourceLine
) -> pa.BinaryArray:
    """Return header blocks with the origin; sequences and subjects are those of the origin."""
    endings = [line.between + subject_bytes(text) + line.after for text in subjects.dictionary.to_pylist()]
    ends = pa.array(endings, pa.binary()).take(subjects.indices)
    numbers = pa.array(seqs).cast(pa.string()).cast(pa.binary())
    nothing = pa.scalar(b"", pa.binary())
    if headers.null_count == len(headers):
        first: pa.Scalar | pa.Array = pa.scalar(START + line.before, pa.binary())
        return pc.binary_join_element_wise(first, numbers, ends, nothing)
    name = pa.scalar(line.before, pa.binary())
    return pc.binary_join_element_wise(_opened(headers), name, numbers, ends, nothing)


def _opened(headers: pa.BinaryArray) -> pa.BinaryArray:
    """Return header blocks without their ends, so that a header can follow; a start where there is none."""
    if not ends_well(headers):
        whole = [each if each and each.endswith(b"\r\n\r\n") else None for each in headers.to_pylist()]
        headers = pa.array(whole, pa.binary())
    return pc.binary_slice(headers, 0, -2).fill_null(START)


def ends_well(headers: pa.BinaryArray) -> bool:
    """Return whether every block that is there ends with an empty line."""
    well: bool = pc.all(pc.ends_with(headers, pattern="\r\n\r\n")).as_py()
    return well
