"""`headwater pub` and `req` against real servers: what is sent, what is said, what is refused."""

from __future__ import annotations

import json
import re

import pytest

from headwater.cli.publish import MessageTemplates
from headwater.errors import SettingsError
from jetstreams import Shell


def stored(shell: Shell, stream: str) -> list[str]:
    """Return the data of a stream's messages, in order."""
    return shell.ok("sub", "--stream", stream, "--all", "-T", "--raw").splitlines()


def test_letters_are_numbered_on_over_bodies() -> None:
    outgoing = MessageTemplates("s.{{Count}}", ["n: {{Count}}"], templates=True)
    sent = [*outgoing.each("a", 2), *outgoing.each("b{{Count}}", 1)]
    assert [(each.subject, each.data, each.headers) for each in sent] == [
        ("s.1", b"a", {"n": "1"}),
        ("s.2", b"a", {"n": "2"}),
        ("s.3", b"b3", {"n": "3"}),
    ]


@pytest.mark.parametrize("text", ["no colon", ": value", ""])
def test_a_header_without_sense_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a header: write it as 'Name: value'"):
        MessageTemplates("s", [text], templates=True)


def test_messages_are_stored_and_each_acknowledgement_is_shown(shell: Shell, name: str) -> None:
    shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--defaults")
    ran = shell("pub", f"{name}.a", "m {{Count}}", "--count", "2", "-J")
    assert (ran.code, ran.out) == (0, "")
    said = [line.split(" ", 1)[1] for line in ran.err.splitlines()]
    assert said == [
        f'Published 3 bytes to "{name}.a"',
        f"Stored in Stream: {name} Sequence: 1",
        f'Published 3 bytes to "{name}.a"',
        f"Stored in Stream: {name} Sequence: 2",
    ]
    ran = shell("publish", f"{name}.{{{{Count}}}}", "-J", "--json", "--no-templates", "{{Count}}")
    assert ran.json["seq"] == 3
    assert (ran.json["stream"], ran.json["subject"], ran.json["bytes"]) == (name, f"{name}.{{{{Count}}}}", 9)
    assert stored(shell, name) == ["m 1", "m 2", "{{Count}}"]


def test_a_duplicate_is_shown(shell: Shell, stream: str) -> None:
    for _ in range(2):
        ran = shell("pub", f"{stream}.a", "x", "-J", "-H", "Nats-Msg-Id: once")
    assert "Duplicate: true" in ran.err


def test_many_messages_show_progress_and_arrive_in_order(shell: Shell, name: str) -> None:
    shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--defaults")
    ran = shell("pub", f"{name}.a", "{{Count}}", "--count", "600", "-J")
    assert (ran.code, ran.out) == (0, "")
    assert re.fullmatch(r"Publishing: 100%, 600 of 600, [\d,]+/s\n", ran.err)
    assert stored(shell, name) == [str(place) for place in range(1, 601)]


def test_standard_input_is_one_message_or_one_of_each_line(shell: Shell, name: str) -> None:
    shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--defaults")
    shell.ok("pub", f"{name}.a", "-J", "-q", stdin="one {{Count}}\ntwo")
    shell.ok("pub", f"{name}.a", "-J", "-q", "--send-on", "newline", stdin="three\r\nfour {{Count}}\n")
    assert stored(shell, name) == ["one 1", "two", "three", "four 2"]


def test_bytes_that_are_no_text_go_through(shell: Shell, name: str) -> None:
    shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--defaults")
    shell.ok("pub", f"{name}.a", "-J", "-q", stdin=b"\xff\x00\xfe")
    assert json.loads(shell.ok("sub", f"{name}.a", "--all", "-T", "--json"))["data_base64"] == "/wD+"


def test_quiet_says_nothing(shell: Shell, stream: str) -> None:
    ran = shell("pub", f"{stream}.a", "x", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pub", "nowhere", "x", "-J"), 'message 1 was not stored: no stream has the subject "nowhere"'),
        (("pub", "a", "x", "-H", "what"), "is not a header"),
        (("pub", "a", "{{Nope}}"), "unknown template function {{Nope}}"),
        (("pub", "a", "x", "-J", "--reply", "b"), "leave out --reply"),
        (("req", "nowhere.at.all", "x"), 'no responders on "nowhere.at.all"'),
        (("pub", "a b", "x"), "message 1 was not sent: "),
    ],
)
def test_what_cannot_be_sent_is_one_sentence(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    ran = shell(*arguments)
    assert ran.code in (1, 2)
    assert words in ran.err
    assert ran.err.splitlines()[-1].startswith("headwater: ")


def test_a_message_that_a_stream_refuses_says_why_and_which(shell: Shell, stream: str) -> None:
    ran = shell("pub", f"{stream}.a", "x", "-J", "-q", "-H", "Nats-Expected-Last-Sequence: 99")
    assert (ran.code, ran.out) == (1, "")
    assert "message 1 was not stored: wrong last sequence: 3 (10071)" in ran.err


def test_a_request_shows_its_answer(shell: Shell, name: str) -> None:
    service = ("reply", f"svc.{name}", "pong {{Request}}", "-H", "n: {{Count}}", "--count", "3")
    with shell.beside("Listening on", *service) as service_process:
        ran = shell("req", f"svc.{name}", "hi")
        assert (ran.code, ran.out) == (0, "n: 0\n\npong hi\n")
        assert re.search(r'Sending request on "svc.*"\n.*Received with rtt ', ran.err)
        ran = shell("request", f"svc.{name}", "you", "--raw", "--translate", "tr a-z A-Z")
        assert (ran.code, ran.out, ran.err) == (0, "PONG YOU\n", "")
        answer = shell("req", f"svc.{name}", "--json", stdin="piped").json
        assert (answer["data"], answer["headers"]) == ("pong piped", {"n": "2"})
        assert answer["rtt_ns"] > 0
        assert service_process.wait(60) == 0


def test_a_request_may_have_many_answers_or_none_in_time(shell: Shell, name: str) -> None:
    with shell.beside("Listening on", "reply", f"svc.{name}", "one", "-q", "a"):
        with shell.beside("Listening on", "reply", f"svc.{name}", "two", "-q", "b"):
            answers = shell.ok("req", f"svc.{name}", "?", "--raw", "--replies", "2").split()
            assert sorted(answers) == ["one", "two"]
            answers = shell.ok(
                "req", f"svc.{name}", "?", "--raw", "--replies", "0", "--timeout", "3s"
            ).split()
            assert sorted(answers) == ["one", "two"]
    with shell.beside("Subscribing on", "sub", f"svc.{name}"):
        ran = shell("req", f"svc.{name}", "?", "--timeout", "100ms")
        assert ran.code == 1
        assert "within 100ms: pass a longer --timeout" in ran.err
