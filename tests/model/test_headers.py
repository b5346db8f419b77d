"""Header blocks are read and changed as bytes, and broken ones never raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import headers

NAMES = st.sampled_from([b"A", b"Ab", b"Nats-Msg-Id", b"Nats-Msg-Id-2", b"Nats-Expected-Stream"])
VALUES = st.binary(max_size=8).map(lambda v: v.replace(b"\r", b"").replace(b"\n", b"").lstrip(b" "))
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=5)
BLOCK = b"NATS/1.0\r\nA: 1\r\nNats-Msg-Id:x y\r\nA: 2\r\n\r\n"


def test_get_returns_the_first_value_and_the_case_counts() -> None:
    assert headers.get(BLOCK, b"A") == b"1"
    assert headers.get(BLOCK, b"Nats-Msg-Id") == b"x y"
    assert headers.get(BLOCK, b"nats-msg-id") is None
    assert headers.get(b"", b"A") is None


def test_a_name_inside_a_value_or_a_longer_name_is_not_found() -> None:
    block = b"NATS/1.0\r\nX: A: 1\r\nAA: 2\r\n\r\n"
    assert headers.get(block, b"A") is None


def test_an_empty_value_is_not_an_absent_one() -> None:
    assert headers.get(b"NATS/1.0\r\nA:\r\n\r\n", b"A") == b""


def test_text_that_is_no_utf8_is_none() -> None:
    assert headers.get_str(b"NATS/1.0\r\nA: \xff\r\n\r\n", b"A") is None
    assert headers.get_str(BLOCK, b"A") == "1"


def test_parse_keeps_order_and_repeats() -> None:
    assert headers.parse(BLOCK) == [(b"A", b"1"), (b"Nats-Msg-Id", b"x y"), (b"A", b"2")]
    assert headers.to_dict(BLOCK) == {b"A": [b"1", b"2"], b"Nats-Msg-Id": [b"x y"]}


@pytest.mark.parametrize(
    "broken", [b"x", b"NATS/1.0\r\n", b"NATS/1.0\r\nA\r\n\r\n", b"HTTP/1.1\r\n\r\n", b"NATS/1.0\r\nA: 1"]
)
def test_a_malformed_block_is_none(broken: bytes) -> None:
    assert headers.parse(broken) is None
    assert headers.to_dict(broken) is None
    assert not headers.valid(broken)


@given(PAIRS)
def test_what_is_built_is_parsed_back(pairs: list[tuple[bytes, bytes]]) -> None:
    assert headers.parse(headers.build(pairs)) == pairs


@given(PAIRS, NAMES, VALUES)
def test_set_leaves_one_value_and_the_others_alone(
    pairs: list[tuple[bytes, bytes]], name: bytes, value: bytes
) -> None:
    block = headers.set(headers.build(pairs), name, value)
    assert headers.parse(block) == [(n, v) for n, v in pairs if n != name] + [(name, value)]


@given(PAIRS, NAMES)
def test_remove_takes_all_of_a_name(pairs: list[tuple[bytes, bytes]], name: bytes) -> None:
    left = [(n, v) for n, v in pairs if n != name]
    assert headers.remove(headers.build(pairs), name) == headers.build(left)


@given(PAIRS)
def test_remove_prefix_takes_all_that_begin_so(pairs: list[tuple[bytes, bytes]]) -> None:
    left = [(n, v) for n, v in pairs if not n.startswith(b"Nats-Msg-")]
    assert headers.remove_prefix(headers.build(pairs), b"Nats-Msg-") == headers.build(left)


def test_replace_keeps_the_place() -> None:
    block = headers.build([(b"A", b"1"), (b"B", b"2"), (b"C", b"3")])
    assert headers.replace(block, b"B", b"two") == headers.build([(b"A", b"1"), (b"B", b"two"), (b"C", b"3")])
    assert headers.replace(b"", b"B", b"2") == headers.build([(b"B", b"2")])


def test_add_appends_and_makes_a_block_where_there_is_none() -> None:
    assert headers.add(b"", b"A", b"1") == b"NATS/1.0\r\nA: 1\r\n\r\n"
    assert headers.parse(headers.add(BLOCK, b"A", b"3")) == [*(headers.parse(BLOCK) or []), (b"A", b"3")]


def test_a_value_cannot_smuggle_a_header_in() -> None:
    block = headers.build([(b"A", b"1\r\nB: 2")])
    assert headers.get(block, b"B") is None
    assert headers.parse(block) == [(b"A", b"1  B: 2")]


def test_the_status_line() -> None:
    block = headers.build(code=404, description=b"No Messages")
    assert block == b"NATS/1.0 404 No Messages\r\n\r\n"
    assert headers.status(block) == (404, b"No Messages")
    assert headers.status(headers.build(code=503)) == (503, b"")
    assert headers.status(BLOCK) is None
    assert headers.status(b"NATS/1.0 abc\r\n\r\n") is None
    assert headers.status(b"NATS/1.0 %b\r\n\r\n" % (b"4" * 5000)) is None


def test_status_and_headers_go_together() -> None:
    block = headers.build([(b"A", b"1")], code=100, description=b"Idle Heartbeat")
    assert headers.status(block) == (100, b"Idle Heartbeat")
    assert headers.get(block, b"A") == b"1"


@given(st.binary(max_size=40))
def test_no_bytes_make_it_raise(junk: bytes) -> None:
    for raw in (junk, headers.VERSION + b"\r\n" + junk):
        headers.get(raw, b"A")
        headers.get_str(raw, b"A")
        headers.parse(raw)
        headers.status(raw)
        headers.remove(raw, b"A")
        headers.remove_prefix(raw, b"A")
        assert headers.get(headers.add(raw, b"Zz", b"1"), b"Zz") == b"1"


def test_the_headers_of_a_map_have_all_values_as_text() -> None:
    assert headers.text_pairs(BLOCK) == [("A", ["1", "2"]), ("Nats-Msg-Id", ["x y"])]
    assert headers.text_pairs(b"NATS/1.0\r\nA: \xff\r\n\r\n") == [("A", ["�"])]
    assert headers.text_pairs(None) is None
