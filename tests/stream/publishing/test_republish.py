"""Stored messages are published again with headers that name their stream and sequence."""

from __future__ import annotations

import pytest

from headwater.model import headers as header_block
from headwater.model.stream import RePublish
from headwater.stream.publishing.republish import Republisher
from stream.streams import config_of, headers

TS = 1_700_000_000_123_456_789


def republisher(**fields: object) -> Republisher:
    return Republisher(config_of(republish=RePublish(**fields)))  # type: ignore[arg-type]


def block_of(frame: bytes) -> bytes:
    """Return the header block of a frame."""
    line, rest = frame.split(b"\r\n", 1)
    return rest[: int(line.split(b" ")[-2])]


def test_a_message_goes_out_with_its_place_in_the_stream() -> None:
    made = republisher(src="orders.*", dest="copy.{{wildcard(1)}}")
    (frame,) = made.frames(7, TS, b"orders.new", b"", b"data", 3)
    assert frame.startswith(b"HPUB copy.new ")
    assert frame.endswith(b"\r\n\r\ndata\r\n")
    assert header_block.parse(block_of(frame)) == [
        (b"Nats-Stream", b"S"),
        (b"Nats-Subject", b"orders.new"),
        (b"Nats-Sequence", b"7"),
        (b"Nats-Time-Stamp", b"2023-11-14T22:13:20.123456789Z"),
        (b"Nats-Last-Sequence", b"3"),
    ]


def test_its_own_headers_come_first() -> None:
    (frame,) = republisher(src=">", dest="copy.>").frames(1, TS, b"a", headers(Key="value"), b"", 0)
    parsed = header_block.parse(block_of(frame))
    assert parsed is not None
    assert parsed[:2] == [(b"Key", b"value"), (b"Nats-Stream", b"S")]


def test_headers_only_leaves_the_data_out_and_says_its_size() -> None:
    (frame,) = republisher(src=">", dest="copy.>", headers_only=True).frames(1, TS, b"a", b"", b"12345", 0)
    assert header_block.get(block_of(frame), b"Nats-Msg-Size") == b"5"
    assert frame.endswith(b"\r\n\r\n\r\n")


def test_a_message_on_another_subject_is_not_republished() -> None:
    assert (
        republisher(src="orders.*", dest="copy.{{wildcard(1)}}").frames(1, TS, b"orders", b"", b"", 0) == []
    )


def test_a_copy_larger_than_the_server_takes_is_reported_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    config = config_of(republish=RePublish(src=">", dest="copy.>"))
    republisher = Republisher(config, lambda: 1000)
    assert republisher.frames(1, 0, b"a", b"", b"x" * 500, 0)
    assert republisher.frames(2, 0, b"a", b"", b"x" * 1000, 1) == []
    assert "message 2 of stream S is not republished to copy.a" in caplog.text


def test_no_wildcard_of_a_destination_leads_to_the_subjects_of_engines() -> None:
    made = republisher(src="x.*.*", dest="{{wildcard(1)}}.{{wildcard(2)}}.REPLICATION.COMMIT")
    assert made.frames(1, TS, b"x.$HEADWATER.id", b"", b"forged", 0) == []
    assert len(made.frames(1, TS, b"x.a.id", b"", b"", 0)) == 1
