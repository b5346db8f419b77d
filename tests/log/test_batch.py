"""A batch is the same after encoding, and is refused when a single bit of it differs."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.log.batch import HEAD_SIZE, Batch, StoredBatch, encode, is_intact, read_head
from headwater.model.columns import Buffer, Lengths
from headwater.model.message import Message
from log.batches import batches, numbered


def sequences(batch: Batch) -> list[int]:
    offsets = range(len(batch.datas)) if batch.offsets is None else batch.offsets
    return [batch.base_seq + offset for offset in offsets]


def cut(joined: Buffer, lengths: Lengths) -> list[bytes]:
    ends = list(accumulate(lengths.tolist()))
    return [bytes(joined[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]


@given(batches())
def test_a_stored_batch_shows_what_was_encoded(batch: Batch) -> None:
    stored = StoredBatch(encode(batch))
    assert len(stored) == stored.count == len(batch.datas)
    assert (stored.base_seq, stored.first_seq, stored.last_seq) == (
        batch.base_seq,
        batch.first_seq,
        batch.last_seq,
    )
    assert stored.notes == batch.notes
    assert stored.removed == (BitMap64.deserialize(batch.removed) if batch.removed else None)
    assert stored.seqs.tolist() == sequences(batch)
    assert stored.ts.tolist() == list(batch.timestamps)
    assert (stored.subjects, stored.headers, stored.datas) == (batch.subjects, batch.headers, batch.datas)
    columns = zip(batch.subjects, batch.headers, batch.datas, strict=True)
    assert stored.sizes.tolist() == [len(s) + len(h) + len(d) for s, h, d in columns]


@given(batches())
def test_each_message_can_be_had_alone(batch: Batch) -> None:
    stored = StoredBatch(encode(batch))
    rows = zip(sequences(batch), batch.timestamps, batch.subjects, batch.headers, batch.datas, strict=True)
    for index, row in enumerate(rows):
        assert stored.message(index) == Message(*row)
        assert stored.with_headers[index] == bool(batch.headers[index])
        assert stored.message(index - len(stored)) == Message(*row)


@given(batches())
def test_columns_are_the_same_messages(batch: Batch) -> None:
    columns = StoredBatch(encode(batch)).columns()
    assert len(columns) == len(batch.datas)
    assert columns.seqs.tolist() == sequences(batch)
    assert columns.ts.tolist() == list(batch.timestamps)
    assert cut(columns.subjects, columns.subject_lengths) == batch.subjects
    assert cut(columns.headers, columns.header_lengths) == batch.headers
    assert cut(columns.datas, columns.data_lengths) == batch.datas


@given(batches())
def test_a_sequence_is_found_where_it_lies_and_nowhere_else(batch: Batch) -> None:
    stored = StoredBatch(encode(batch))
    present = sequences(batch)
    for index, seq in enumerate(present):
        assert stored.index_of(seq) == index
    for seq in {0, batch.base_seq - 1, batch.base_seq + 1, max(present, default=0) + 1} - set(present):
        assert stored.index_of(seq) is None


@given(batches(), st.data())
def test_a_flipped_bit_is_noticed_wherever_it_is(batch: Batch, data: st.DataObject) -> None:
    encoded = bytearray(encode(batch))
    bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    assert not is_intact(bytes(encoded))
    # The head vouches for itself alone, so that the sequences of a damaged body can be named.
    assert (read_head(bytes(encoded)) is None) == (bit // 8 < HEAD_SIZE)


@given(batches(), st.data())
def test_a_batch_that_is_cut_or_followed_by_more_is_not_intact(batch: Batch, data: st.DataObject) -> None:
    encoded = encode(batch)
    assert is_intact(encoded)
    assert not is_intact(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    assert not is_intact(encoded + b"\0")


def test_columns_of_a_batch_lie_in_its_own_bytes() -> None:
    encoded = numbered(1, count=10)
    columns = StoredBatch(encoded).columns()
    whole = np.frombuffer(encoded, np.uint8)
    for column in (columns.ts, columns.subject_lengths, columns.data_lengths):
        assert np.shares_memory(column, whole)
    assert np.shares_memory(np.frombuffer(columns.datas, np.uint8), whole)


def test_columns_of_unequal_length_are_a_bug() -> None:
    with pytest.raises(AssertionError):
        encode(Batch(1, [1], [b"a", b"b"], [b""], [b""], 1, 1))
