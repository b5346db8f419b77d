"""The source header is the last header of each message, as if it had been added one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import headers as header_block
from headwater.model.copied import SOURCE_HEADER, SourceLine
from headwater.table.schema import subject_text
from headwater.table.source_header import ends_well, with_source

LINE = SourceLine.of("ORDERS", ">", ">", "Ab1")
SUBJECTS = [b"orders.1", b"orders.22", "grün".encode(), b"\xff\xfe", "\ufffdodd".encode()]
BLOCKS = [
    None,
    header_block.build([(b"A", b"1")]),
    header_block.build([(b"A", b"1"), (b"B", b"x" * 300)]),
    header_block.EMPTY,
    header_block.build([], code=503, description=b"No Responders"),
    b"NATS/1.0\r\nUnfinished: x\r\n",
    b"none at all",
]


def with_source_header(block: bytes | None, seq: int, subject: bytes) -> bytes:
    value = b"ORDERS %d > > %s Ab1" % (seq, subject)
    return header_block.add(block or b"", SOURCE_HEADER, value)


@given(
    st.lists(st.tuples(st.sampled_from(BLOCKS), st.sampled_from(SUBJECTS)), min_size=1, max_size=20),
    st.sampled_from([1, 9, 95, 99_990, 10**15 - 5]),
    st.integers(0, 3),
)
def test_blocks_are_those_that_are_made_one_by_one(
    rows: list[tuple[bytes | None, bytes]], first_seq: int, before: int
) -> None:
    seqs = np.arange(first_seq, first_seq + len(rows), dtype=np.int64)
    # A slice, as of a row group that was cut.
    headers = pa.array([b"before"] * before + [block for block, _ in rows], pa.binary())[before:]
    subjects = pa.array([subject_text(subject) for _, subject in rows]).dictionary_encode()
    made = with_source(headers, seqs, subjects, LINE).to_pylist()
    assert made == [
        with_source_header(block, first_seq + row, subject) for row, (block, subject) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("blocks", "well"),
    [
        ([BLOCKS[1], None, BLOCKS[4]], True),
        ([BLOCKS[3]], True),
        ([BLOCKS[1], BLOCKS[5]], False),
        ([BLOCKS[6], None], False),
        ([b"", BLOCKS[1]], False),
    ],
)
def test_blocks_end_well_if_all_do_that_are_there(blocks: list[bytes | None], well: bool) -> None:
    assert ends_well(pa.array(blocks, pa.binary())) is well
