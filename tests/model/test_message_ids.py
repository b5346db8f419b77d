"""The ids of a file come back as they were, in their order."""

from __future__ import annotations

import msgspec
import pytest

from headwater.model.message_ids import MessageIds


@pytest.mark.parametrize("ids", [[b"a"], [b"", b"xyz", b""], [b"", b""], [b"a" * 300, b"\x00\r\n"]])
def test_ids_come_back_in_order(ids: list[bytes]) -> None:
    found = msgspec.msgpack.decode(msgspec.msgpack.encode(MessageIds.of(ids, ts=5)), type=MessageIds)
    assert list(found.values()) == ids
    assert found.last == ids[-1]
    assert found.ts == 5


def test_an_id_of_the_last_message_alone_keeps_its_row() -> None:
    assert list(MessageIds.of_last(3, b"z").values()) == [b"", b"", b"z"]
    assert list(MessageIds.of_last(1, b"").values()) == [b""]
