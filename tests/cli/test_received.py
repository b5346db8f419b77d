"""A message as it is shown: words, JSON, raw bytes."""

from __future__ import annotations

import re

import pytest

from headwater.cli.received import Received, translated, write_data, write_numbered
from headwater.errors import Error
from headwater.wire.ack_subject import AckSubject

DELIVERED = AckSubject(b"ORDERS", b"C", 2, 1234, 5, 1_767_366_245_000_000_000, 7)


def test_a_published_message_shows_where_it_came_from_its_headers_and_its_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_numbered(Received("x.y", b"hello", "r.s", {"a": "b"}), 1)
    assert capsys.readouterr().out == '[#1] Received on "x.y" with reply "r.s"\na: b\n\nhello\n\n'


def test_a_stored_message_shows_its_place_in_the_stream(capsys: pytest.CaptureFixture[str]) -> None:
    write_numbered(Received("x.y", b"hello", "$JS.ACK", {}, DELIVERED), 3, stamp="now", data=False)
    said = capsys.readouterr().out
    expected = (
        r"\[#3\] @ now Received JetStream message: stream: ORDERS seq: 1,234 / pending: 7 / subject: x\.y / "
        r"time: 2026-01-0\d \d\d:\d\d:05\n"
    )
    assert re.fullmatch(expected, said)


def test_data_is_written_as_it_came(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_data(b"\xff\x00\r\n")
    assert capfdbinary.readouterr().out == b"\xff\x00\r\n\n"


def test_json_shows_the_delivery_and_keeps_bytes_that_are_no_text() -> None:
    assert Received("a", b"hi", "r", {"k": "v"}).as_json() == {
        "subject": "a",
        "reply": "r",
        "headers": {"k": "v"},
        "data": "hi",
    }
    assert Received("a", b"\xff", "$JS.ACK", {}, DELIVERED).as_json() == {
        "subject": "a",
        "stream": "ORDERS",
        "consumer": "C",
        "seq": 1234,
        "consumer_seq": 5,
        "delivered": 2,
        "pending": 7,
        "time": "2026-01-02T15:04:05Z",
        "data_base64": "/w==",
    }


def test_only_the_servers_own_messages_have_a_status() -> None:
    assert Received("a", b"", "", {"Status": "408"}).status == "408"
    assert Received("a", b"data", "", {"Status": "408"}).status == ""
    assert Received("a", b"", "$JS.ACK", {"Status": "408"}, DELIVERED).status == ""


def test_a_command_may_turn_the_data() -> None:
    assert translated(b"abc", None, "x") == b"abc"
    assert translated(b"abc", "tr a-z A-Z", "x") == b"ABC"
    assert translated(b"", "echo 'on {{Subject}}'", "a.b") == b"on a.b\n"


@pytest.mark.parametrize("command", ["no-such-command-here", "false"])
def test_a_command_that_does_not_work_is_one_sentence(command: str) -> None:
    with pytest.raises(Error, match=f"--translate '{command}' failed"):
        translated(b"abc", command, "x")
