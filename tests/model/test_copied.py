"""What a linked file's messages have in their target, and how much longer that makes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import headers as header_block
from headwater.model.copied import Copied, SourceLine, fits_in_path

BLOCKS = [b"", header_block.build([(b"A", b"1")]), header_block.build([(b"A", b"")], code=503)]
# So that runs begin, end and lie on both sides of where numbers get longer.
AROUND = st.sampled_from([10**n for n in range(1, 19)]).flatmap(lambda n: st.integers(n - 40, n + 40))


def copied_of(source_base: int, with_headers: int, name: str = "ORDERS", identity: str = "Ab1") -> Copied:
    return Copied(name, identity, source_base, 7, 1, 2, with_headers)


def with_source_header(block: bytes, copied: Copied, seq: int, subject: bytes) -> bytes:
    """Return a block with the header, as plainly as it can be said."""
    where = [copied.source.encode(), b"%d" % seq, b">", b">", subject, copied.source_id.encode()]
    return header_block.add(block, b"Nats-Stream-Source", b" ".join(part for part in where if part))


@given(
    st.one_of(st.integers(1, 200), AROUND).map(lambda seq: max(seq, 1)),
    st.lists(st.tuples(st.sampled_from(BLOCKS), st.binary(min_size=1, max_size=9)), min_size=1, max_size=60),
    st.integers(0, 10**6),
    st.sampled_from(["O", "A_LONGER-NAME"]),
    st.sampled_from(["", "Ab1", "0123456789ab"]),
)
def test_what_the_header_adds_is_known_without_making_it(
    first_seq: int, messages: list[tuple[bytes, bytes]], first_offset: int, name: str, identity: str
) -> None:
    base = first_seq - first_offset
    copied = copied_of(base, sum(1 for block, _ in messages if block), name, identity)
    longer = sum(
        len(with_source_header(block, copied, first_seq + row, subject)) - len(block)
        for row, (block, subject) in enumerate(messages)
    )
    subjects = sum(len(subject) for _, subject in messages)
    assert copied.added_bytes(first_offset, first_offset + len(messages) - 1, subjects) == longer


def test_a_run_is_longer_by_what_its_parts_are() -> None:
    copied, rows = copied_of(5, 0), 1_234_567
    parts = [(0, 600_000), (600_001, 999_994), (999_995, rows - 1)]
    added = [copied.added_bytes(first, last, last - first + 1) for first, last in parts]
    assert copied.added_bytes(0, rows - 1, rows) == sum(added)


def test_the_line_is_what_a_source_s_header_says() -> None:
    before, between, after = copied_of(0, 0).line
    assert before + b"7" + between + b"orders.1" + after == (
        b"Nats-Stream-Source: ORDERS 7 > > orders.1 Ab1\r\n\r\n"
    )
    assert SourceLine.of("O", "a.*", "b.$1", "").after == b"\r\n\r\n"


def test_its_time_is_a_whole_microsecond() -> None:
    assert copied_of(0, 0).ts == 7_000


@pytest.mark.parametrize(
    ("source", "can"),
    [
        (("ORDERS", ">", ">", "Ab1"), True),
        (("a-b_C9", ">", ">", "0-_z"), True),
        (("N" * 200, ">", ">", "Ab1"), True),
        (("ORDERS:hash", ">", ">", "Ab1"), False),
        (("ÖRDERS", ">", ">", "Ab1"), False),
        (("a=b", ">", ">", "Ab1"), False),
        (("a%20", ">", ">", "Ab1"), False),
        (("ORDERS\n", ">", ">", "Ab1"), False),
        (("ORDERS", ">", ">", ""), False),
        (("ORDERS", "a.*", ">", "Ab1"), False),
        (("ORDERS", ">", "x.>", "Ab1"), False),
        # Folders' names have 255 bytes, of which `source=` takes seven.
        (("N" * 255, ">", ">", "Ab1"), False),
        # What readers take for no value.
        (("__HIVE_DEFAULT_PARTITION__", ">", ">", "Ab1"), False),
        (("ORDERS", ">", ">", "__HIVE_DEFAULT_PARTITION__"), False),
    ],
)
def test_only_names_that_every_reader_finds_in_a_path_stand_in_one(
    source: tuple[str, str, str, str], can: bool
) -> None:
    assert fits_in_path(source) is can
