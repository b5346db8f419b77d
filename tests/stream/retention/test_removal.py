"""A removal carries exactly what the ledger must subtract, counted as nats-server counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.stream.retention.removal import FILE_OVERHEAD, MEMORY_OVERHEAD, Overhead, Removal
from stream.runs import message, removal_of, run_of
from stream.streams import headers

MESSAGES = [
    message(3, b"a", b"xx"),
    message(4, b"b.c", b"", headers(K="v")),
    message(7, b"a", b"yyyy", headers(Key="value")),
    message(8, b"d"),
]


def test_a_stored_message_counts_as_much_as_nats_server_counts() -> None:
    block = headers(K="v")
    assert FILE_OVERHEAD.of(b"abc", b"", b"12345") == 22 + 8 + 3 + 5
    assert FILE_OVERHEAD.of(b"abc", block, b"12345") == 22 + 8 + 4 + 3 + len(block) + 5
    assert MEMORY_OVERHEAD.of(b"abc", block, b"12345") == 16 + 3 + len(block) + 5


@pytest.mark.parametrize("overhead", [FILE_OVERHEAD, MEMORY_OVERHEAD])
def test_rows_count_as_much_as_their_messages(overhead: Overhead) -> None:
    run = run_of(MESSAGES)
    sizes = [overhead.of(m.subject, m.headers, m.data) for m in MESSAGES]
    assert overhead.sizes(run).tolist() == sizes
    assert overhead.of_rows(run, np.array([1, 3])) == sizes[1] + sizes[3]


@given(st.sets(st.integers(0, 3)))
def test_taking_rows_is_taking_their_messages_one_by_one(rows: set[int]) -> None:
    taken = Removal()
    taken.take(run_of(MESSAGES), np.array(sorted(rows), np.intp), FILE_OVERHEAD)
    assert taken == removal_of([MESSAGES[row] for row in sorted(rows)])
    assert bool(taken) == bool(rows)


def test_merged_removals_add_up() -> None:
    removal = removal_of(MESSAGES[:2])
    removal.merge(removal_of(MESSAGES[2:]))
    assert removal == removal_of(MESSAGES)
    assert not removal.everything
    removal.merge(Removal(everything=True))
    assert removal.everything
    assert removal.seqs == BitMap64([3, 4, 7, 8])


def test_a_removal_of_everything_counts_although_it_lists_nothing() -> None:
    assert not Removal()
    assert Removal(everything=True)
