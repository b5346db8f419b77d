"""`consumer next` and `consumer sub` against real servers: what is shown, and what is settled."""

from __future__ import annotations

import json
import re
import signal

import pytest

from jetstreams import Shell


@pytest.fixture
def work(shell: Shell, stream: str) -> str:
    """Return the name of a stream with a consumer WORK."""
    shell.ok("consumer", "add", stream, "WORK", "--pull")
    return stream


def test_the_next_message_is_shown_and_acknowledged(shell: Shell, work: str) -> None:
    out = shell.ok("consumer", "next", work, "WORK")
    assert re.fullmatch(
        rf"\[\d\d:\d\d:\d\d\] subj: {work}\.a / tries: 1 / cons seq: 1 / str seq: 1 / pending: 2\n\n"
        r"message a\n\nAcknowledged message\n\n",
        out,
    )
    assert shell.json("consumer", "info", work, "WORK")["ack_floor"]["stream_seq"] == 1


def test_headers_stand_apart_from_the_data(shell: Shell, work: str) -> None:
    shell.ok("pub", f"{work}.h", "body", "-H", "k: v", "-J", "-q")
    out = shell.ok("consumer", "next", work, "WORK", "--count", "4", "--no-ack")
    assert out.endswith("\n\nHeaders:\n\n  k: v\n\nData:\n\nbody\n")


def test_messages_are_given_back_or_ended(shell: Shell, work: str) -> None:
    assert "Negative Acknowledged message" in shell.ok("consumer", "next", work, "WORK", "--nak")
    assert shell.ok("consumer", "next", work, "WORK", "--raw", "--term") == "message a\n"
    assert shell.ok("consumer", "next", work, "WORK", "--raw", "--wait", "1ms") == "message b\n"
    info = shell.json("consumer", "info", work, "WORK")
    assert (info["ack_floor"]["stream_seq"], info["num_ack_pending"]) == (2, 0)


def test_fewer_messages_than_asked_for_are_an_error(shell: Shell, work: str) -> None:
    ran = shell("consumer", "next", work, "WORK", "--count", "5", "--json", "--timeout", "2s")
    assert [json.loads(line)["seq"] for line in ran.out.splitlines()] == [1, 2, 3]
    assert ran.code == 1
    assert "after 3 of 5 no further message arrived within 2s" in ran.err
    ran = shell("consumer", "next", work, "WORK", "--timeout", "100ms")
    assert (ran.code, ran.out) == (1, "")
    assert "no message arrived within 100ms: pass a longer --timeout" in ran.err


def test_one_way_to_settle_is_enough(shell: Shell, work: str) -> None:
    assert (
        "choose one of --ack, --nak and --term"
        in shell("consumer", "next", work, "WORK", "--nak", "--term").err
    )


def test_a_pull_consumer_is_followed_until_there_were_enough(shell: Shell, work: str) -> None:
    assert shell.ok("consumer", "sub", work, "WORK", "--raw", "--count", "2") == "message a\nmessage b\n"
    assert shell.ok("consumer", "sub", work, "WORK", "--raw", "--wait", "1s") == "message c\n"
    assert shell.json("consumer", "info", work, "WORK")["num_ack_pending"] == 0


def test_a_push_consumer_is_listened_to_with_flow_control(shell: Shell, stream: str) -> None:
    flags = ("--target", f"to.{stream}", "--ack", "explicit", "--flow-control", "--heartbeat", "5s")
    shell.ok("consumer", "add", stream, "PUSH", *flags)
    with shell.beside("Receiving messages of", "consumer", "sub", stream, "PUSH") as process:
        assert process.stdout is not None
        seen = ""
        while seen.count("Acknowledged message") < 3:
            seen += process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err, out.strip()) == (0, "", "")
    assert "message c" in seen
    assert "Heartbeat" not in seen
    assert shell.json("consumer", "info", stream, "PUSH")["ack_floor"]["stream_seq"] == 3


def test_a_push_consumer_cannot_be_asked(shell: Shell, stream: str) -> None:
    shell.ok("consumer", "add", stream, "PUSH", "--target", f"to.{stream}")
    ran = shell("consumer", "next", stream, "PUSH")
    assert (ran.code, "use `headwater consumer sub`" in ran.err) == (1, True)


def test_a_consumer_without_acknowledgements_gets_none(shell: Shell, stream: str) -> None:
    shell.ok("consumer", "add", stream, "NONE", "--pull", "--ack", "none")
    assert "Acknowledged" not in shell.ok("consumer", "next", stream, "NONE")
