"""A change of a consumer's state is decoded as it was encoded, and nothing else is accepted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.delivery.change import VERSION, Change, UnknownChangeError, decode, encode

SEQS = st.integers(1, 2**62)
ENTRIES = st.dictionaries(SEQS, st.tuples(SEQS, SEQS, st.integers(0, 2**63 - 1)), max_size=20)


@given(ENTRIES, st.sets(SEQS), st.dictionaries(SEQS, st.integers(1, 99)), st.sets(SEQS), st.booleans())
def test_a_change_reads_back_as_it_was(
    pending: dict[int, tuple[int, int, int]],
    settled: set[int],
    counted: dict[int, int],
    uncounted: set[int],
    whole: bool,
) -> None:
    change = Change.of(
        whole=whole,
        delivered=(1, 2, 3),
        ack_floor=(4, 5, 6),
        next_seq=7,
        pending=dict(sorted(pending.items())),
        settled=sorted(settled),
        counted=dict(sorted(counted.items())),
        uncounted=sorted(uncounted),
    )
    again = decode(encode(change))
    assert again == change
    assert (again.pending, again.counted) == (pending, counted)
    assert (again.settled, again.uncounted) == (sorted(settled), sorted(uncounted))


@pytest.mark.parametrize("data", [b"", b"\x00", b"no change", msgspec.msgpack.encode([1, 2])])
def test_other_bytes_are_no_change(data: bytes) -> None:
    with pytest.raises(UnknownChangeError, match="cannot decode"):
        decode(data)


def test_a_change_of_another_version_is_refused() -> None:
    change = Change.of(
        whole=True,
        delivered=(0, 0, 0),
        ack_floor=(0, 0, 0),
        next_seq=1,
        pending={},
        settled=[],
        counted={},
        uncounted=[],
    )
    later = msgspec.structs.replace(change, version=VERSION + 1)
    with pytest.raises(UnknownChangeError, match=f"version {VERSION + 1}"):
        decode(encode(later))
