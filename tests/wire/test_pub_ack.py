"""Acknowledgements in bulk are byte for byte what they would be one by one."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import api_error
from headwater.wire.pub_ack import PubAcks


def frame(reply: bytes, body: bytes) -> bytes:
    return b"PUB %b %d\r\n%b\r\n" % (reply, len(body), body)


def ack(seq: int, stream: str = "S") -> bytes:
    return b'{"stream":"%b","seq":%d}' % (stream.encode(), seq)


@given(
    st.lists(st.sampled_from([b"", b"_INBOX.a", b"r"]), max_size=40),
    st.integers(1, 6).flatmap(lambda digits: st.integers(max(1, 10**digits - 20), 10**digits)),
)
def test_a_run_acknowledges_consecutive_sequences_across_every_number_of_digits(
    replies: list[bytes], first_seq: int
) -> None:
    wanted = b"".join(frame(reply, ack(seq)) for seq, reply in enumerate(replies, first_seq) if reply)
    assert PubAcks("S", "").run(replies, first_seq) == wanted


def test_the_domain_is_named_when_there_is_one() -> None:
    acks = PubAcks("ORDERS", "lake")
    assert acks.run([b"r"], 7) == frame(b"r", b'{"stream":"ORDERS","domain":"lake","seq":7}')


def test_one_message_is_acknowledged_with_what_is_to_be_said_of_it() -> None:
    assert PubAcks("S", "").one(b"r", 12, {"duplicate": True}) == frame(
        b"r", b'{"stream":"S","seq":12,"duplicate":true}'
    )
    assert PubAcks("S", "").one(b"r", 5, {"batch": 'a"b', "count": 3}) == frame(
        b"r", b'{"stream":"S","seq":5,"batch":"a\\"b","count":3}'
    )


def test_a_message_that_is_held_is_answered_with_nothing() -> None:
    assert PubAcks("S", "").other(b"r", b"") == b"PUB r 0\r\n\r\n"
    assert PubAcks("S", "").other(b"r", b"{}") == b"PUB r 2\r\n{}\r\n"


def test_a_refusal_contains_code_and_reason_with_its_length_in_bytes() -> None:
    error = api_error("stream_store_failed", err="für später")
    refused = PubAcks("Ü", "").error(b"r", error)
    line, body, rest = refused.split(b"\r\n")
    assert (line, rest) == (b"PUB r %d" % len(body), b"")
    assert json.loads(body) == {
        "error": {"code": 503, "err_code": 10077, "description": "für später"},
        "stream": "Ü",
        "seq": 0,
    }


def test_a_stream_name_is_written_as_json_needs_it() -> None:
    (line, body, _) = PubAcks('say "hi"', "").run([b"r"], 1).split(b"\r\n")
    assert json.loads(body) == {"stream": 'say "hi"', "seq": 1}
    assert int(line.split()[-1]) == len(body)
