"""Deliveries are counted as pull requests count them, and end at the target's limit."""

from __future__ import annotations

from headwater.delivery.outgoing import CHUNK_BYTES, OutgoingMessages, headers_only, idle_heartbeat
from headwater.model import headers as header_block


def messages(*sizes: int) -> OutgoingMessages:
    """Return messages of these sizes, each with a reply and a subject of one byte."""
    count = len(sizes)
    datas = [b"d" * (size - 2) for size in sizes]
    return OutgoingMessages([b"r"] * count, [b"s"] * count, [b""] * count, datas)


def test_the_size_counts_replies_subjects_headers_and_data() -> None:
    assert OutgoingMessages([b"1"], [b"22"], [b"333"], [b"4444"]).size == 10
    assert messages(5, 7).size == 12
    assert messages().size == 0


def test_rows_are_taken_from_every_column() -> None:
    outgoing = OutgoingMessages([b"r0", b"r1"], [b"s0", b"s1"], [b"h0", b"h1"], [b"d0", b"d1"])
    assert outgoing.at([1]) == OutgoingMessages([b"r1"], [b"s1"], [b"h1"], [b"d1"])
    assert outgoing.at(range(1)) == OutgoingMessages([b"r0"], [b"s0"], [b"h0"], [b"d0"])


def test_all_messages_fit_without_a_limit_and_up_to_the_limit() -> None:
    assert messages(10, 10).within(None) == (messages(10, 10), False)
    assert messages(10, 10).within(20) == (messages(10, 10), False)


def test_the_first_message_beyond_the_limit_stays_and_says_so() -> None:
    assert messages(10, 10, 10).within(29) == (messages(10, 10), True)
    assert messages(10).within(9) == (messages(), True)


def test_the_last_message_may_exceed_the_buffer() -> None:
    large = CHUNK_BYTES - 5
    assert messages(large, 10, 10).within(None) == (messages(large, 10), False)
    assert messages(2 * CHUNK_BYTES, 10).within(None) == (messages(2 * CHUNK_BYTES), False)


def test_a_full_buffer_says_whether_the_next_message_exceeds_the_limit() -> None:
    large = CHUNK_BYTES - 5
    assert messages(large, 10, 10).within(large + 20) == (messages(large, 10), False)
    assert messages(large, 10, 10).within(large + 19) == (messages(large, 10), True)
    assert messages(large, 10).within(large + 10) == (messages(large, 10), False)


def test_without_data_the_headers_name_its_size() -> None:
    block = header_block.build([(b"A", b"1")])
    headers, datas = headers_only([b"", block], [b"four", b""])
    assert [header_block.get(each, b"Nats-Msg-Size") for each in headers] == [b"4", b"0"]
    assert header_block.get(headers[1], b"A") == b"1"
    assert datas == [b"", b""]


def test_what_a_server_does_not_accept_is_named_with_its_payload() -> None:
    outgoing = OutgoingMessages([b"r"] * 3, [b"s"] * 3, [b"", b"hh", b"h"], [b"dd", b"d", b"dddd"])
    assert outgoing.accepted(3) == ([0, 1], [(2, 5)])
    assert outgoing.accepted(5) == ([0, 1, 2], [])
    assert outgoing.accepted(1) == ([], [(0, 2), (1, 3), (2, 5)])


def test_a_heartbeat_names_the_last_sequences_and_what_else_is_given() -> None:
    block = idle_heartbeat(3, 7, [(b"Nats-Consumer-Stalled", b"$JS.FC.S.C.x")])
    assert block.startswith(b"NATS/1.0 100 Idle Heartbeat\r\n")
    names = (b"Nats-Last-Consumer", b"Nats-Last-Stream", b"Nats-Consumer-Stalled")
    assert [header_block.get(block, name) for name in names] == [b"3", b"7", b"$JS.FC.S.C.x"]
