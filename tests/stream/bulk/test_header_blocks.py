"""Header blocks that are checked together are judged as each alone would be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import headers as header_block
from headwater.stream.bulk.header_blocks import HeaderBlocks


def blocks_of(*blocks: bytes | None) -> HeaderBlocks:
    return HeaderBlocks(pa.array(blocks, pa.binary()))


ID = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n"
pieces = st.sampled_from(
    [b"NATS/1.0", b"\r\n", b"\r", b"\n", b"Nats-Msg-Id:", b"Nats-TTL:", b" ", b"x", b"A:", b"", b"\r\n\r\n"]
)
made = st.lists(pieces, max_size=9).map(b"".join)
values = st.sampled_from([b"", b" ", b"7", b"a\rb", b"a\r\nNats-TTL: 1", b"a\r\nB: c", b"\r\n"])


@given(st.lists(st.one_of(made, values.map(lambda value: ID % value)), min_size=1, max_size=5))
def test_blocks_together_are_judged_as_each_alone(raw: list[bytes]) -> None:
    found = blocks_of(*(block or None for block in raw))
    assert found.are_valid == all(header_block.valid(block) for block in raw)
    if found.are_valid:
        ids = [header_block.get(block, b"Nats-Msg-Id") or b"" for block in raw]
        assert found.ids() == ids
        assert found.last_id == ids[-1]
        assert found.have_ids or not any(ids)
        names = [[name for name, _ in header_block.parse(block) or ()] for block in raw]
        if any(name.startswith(b"Nats-") and name != b"Nats-Msg-Id" for each in names for name in each):
            assert found.are_ruled


@pytest.mark.parametrize(
    ("block", "ruled"),
    [
        (ID % b"1", False),
        (b"NATS/1.0\r\nColour: red\r\nNats-Msg-Id: 1\r\n\r\n", False),
        (b"NATS/1.0\r\nNats-Msg-Id: 1\r\nNats-Msg-Id: 2\r\n\r\n", True),
        (b"NATS/1.0\r\nNats-Msg-Id: 1\r\nNats-Rollup: all\r\n\r\n", True),
        (b"NATS/1.0\r\nNats-Msg-Identity: 1\r\n\r\n", True),
        (b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n", True),
    ],
)
def test_only_one_id_needs_no_other_rule(block: bytes, ruled: bool) -> None:
    for found in (blocks_of(block), blocks_of(None, block, ID % b"9")):
        assert found.are_valid
        assert found.are_ruled == ruled
