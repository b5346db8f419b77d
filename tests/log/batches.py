"""Batches for the tests of the log, and those that a log holds."""

from __future__ import annotations

from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.log import Batch, Log, encode

_texts = st.binary(max_size=20)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Draw any batch."""
    count = draw(st.integers(0, 6))

    def column(values: st.SearchStrategy[bytes]) -> list[bytes]:
        return draw(st.lists(values, min_size=count, max_size=count))

    gaps = draw(st.none() | st.lists(st.integers(1, 1 << 33), min_size=count, max_size=count))
    base_seq = draw(st.integers(1, 1 << 48))
    removed = draw(st.none() | st.sets(st.integers(1, 1 << 48), min_size=1, max_size=5))
    return Batch(
        base_seq=base_seq,
        timestamps=draw(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=count, max_size=count)),
        subjects=column(st.binary(min_size=1, max_size=20)),
        headers=column(st.just(b"") | _texts) if draw(st.booleans()) else [b""] * count,
        datas=column(_texts),
        first_seq=draw(st.integers(0, 1 << 48)),
        last_seq=draw(st.integers(0, 1 << 48)),
        offsets=None if gaps is None else [sum(gaps[:i]) for i in range(count)],
        removed=b"" if removed is None else BitMap64(removed).serialize(),
        notes=draw(_texts),
    )


def numbered(seq: int, count: int = 1, data: bytes = b"data") -> bytes:
    """Return the encoded batch of `count` messages from this sequence on."""
    return encode(
        Batch(
            base_seq=seq,
            timestamps=range(seq, seq + count),
            subjects=[b"subject"] * count,
            headers=[b""] * count,
            datas=[data] * count,
            first_seq=1,
            last_seq=seq + count - 1,
        )
    )


def contents(log: Log) -> list[bytes]:
    """Return the batches of a log, as they were encoded."""
    return [batch.encoded for _, batch in log.replay()]
