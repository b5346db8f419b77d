"""Dead letters have the reason and their origin in headers."""

from __future__ import annotations

from headwater.model import headers as header_block
from headwater.replication.worker.dead_letter import LONGEST_ERROR, DeadLetter, dead_rows, with_error


def test_a_dead_letter_keeps_its_own_headers_and_says_where_it_came_from() -> None:
    block = header_block.build([(b"A", b"1"), (b"A", b"2"), (b"Nats-Msg-Id", b"i"), (b"Nats-TTL", b"1s")])
    letter = DeadLetter(7, 1_790_000_000_000_000_000, "orders.eu", block, b"data", "why\r\nnot")
    columns = dead_rows([letter], target="BIG", origin="ORDERS").columns()
    found = header_block.to_dict(bytes(columns.headers))
    assert bytes(columns.subjects) == b"orders.eu"
    assert bytes(columns.datas) == b"data"
    assert found == {
        b"A": [b"1", b"2"],
        b"Headwater-Origin-Msg-Id": [b"i"],
        b"Headwater-Target": [b"BIG"],
        b"Headwater-Origin": [b"ORDERS"],
        b"Headwater-Origin-Sequence": [b"7"],
        b"Headwater-Origin-Subject": [b"orders.eu"],
        b"Headwater-Origin-Time": [b"2026-09-21T14:13:20Z"],
        b"Headwater-Error": [b"why  not"],
    }


def test_a_reason_is_added_once_and_is_not_endless() -> None:
    block = with_error(b"", "x" * 10_000)
    assert header_block.get(block, b"Headwater-Error") == b"x" * LONGEST_ERROR
    assert with_error(block, "other") == block
