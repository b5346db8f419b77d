"""`headwater sub` against real servers: listening, reading streams, and how it ends."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
from pathlib import Path

import pytest

from headwater.cli.received import Received
from headwater.cli.subscribe import MessageView, start_of
from headwater.errors import SettingsError
from jetstreams import Shell


def where(**given: object) -> dict[str, object]:
    nothing: dict[str, object] = {
        "from_all": False, "from_new": False, "from_last": False, "last_per_subject": False,
        "since": None, "start_sequence": None,
    }  # fmt: skip
    return start_of(**{**nothing, **given})  # type: ignore[arg-type]


def test_where_to_begin_is_said_as_a_consumer_says_it() -> None:
    assert where() == {}
    assert where(from_last=True) == {"deliver_policy": "last"}
    assert where(start_sequence=7) == {"deliver_policy": "by_start_sequence", "opt_start_seq": 7}
    assert where(since=60_000_000_000)["deliver_policy"] == "by_start_time"
    with pytest.raises(SettingsError, match="pass one start"):
        where(from_all=True, start_sequence=7)


def test_ignored_subjects_are_patterns() -> None:
    look = MessageView(ignored=["a.*", "b"])
    assert [look.skips(Received(subject, b"")) for subject in ("a.x", "a.x.y", "b", "c")] == [
        True, False, True, False,
    ]  # fmt: skip


def test_messages_are_shown_as_they_come_until_there_were_enough(shell: Shell, name: str) -> None:
    with shell.beside("Subscribing on", "sub", f"{name}.>", "--count", "2", "-I", f"{name}.no") as process:
        shell.ok("pub", f"{name}.a", "hello", "-H", "k: v", "--reply", "back", "-q")
        shell.ok("pub", f"{name}.b", "bye", "-q")
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out == (
        f'[#1] Received on "{name}.a" with reply "back"\nk: v\n\nhello\n\n'
        f'[#2] Received on "{name}.b"\nbye\n\n'
    )


def test_ctrl_c_is_a_clean_end(shell: Shell, name: str) -> None:
    with shell.beside("Subscribing on", "sub", f"{name}.a", "--subjects-only") as process:
        shell.ok("pub", f"{name}.a", "hello", "-q")
        assert process.stdout is not None
        assert process.stdout.readline() == f"{name}.a\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_queue_shares_messages(shell: Shell, name: str) -> None:
    listen = ("sub", f"{name}.>", "--queue", "q", "--subjects-only")
    with shell.beside("Subscribing", *listen) as one, shell.beside("Subscribing", *listen) as other:
        shell.ok("pub", f"{name}.{{{{Count}}}}", "x", "--count", "4", "-q")
        heard: list[str] = []
        with selectors.DefaultSelector() as ready:
            for process in (one, other):
                assert process.stdout is not None
                ready.register(process.stdout.fileno(), selectors.EVENT_READ)
            while len(heard) < 4:
                for key, _ in ready.select():
                    heard += os.read(key.fd, 4096).decode().split()
    assert sorted(heard) == [f"{name}.{place}" for place in (1, 2, 3, 4)]


def test_silence_ends_it(shell: Shell, name: str) -> None:
    ran = shell("sub", f"{name}.a", "--wait", "50ms")
    assert (ran.code, ran.out) == (0, "")
    assert f"Subscribing on {name}.a" in ran.err
    ran = shell("sub", "--inbox", "--wait", "50ms")
    assert "Subscribing on _INBOX." in ran.err


def test_a_stream_is_read_from_where_it_is_said_to_its_end(shell: Shell, stream: str) -> None:
    read = ("sub", "--stream", stream, "-T", "--raw")
    assert shell.ok(*read, "--all").split("\n")[:-1] == ["message a", "message b", "message c"]
    assert shell.ok(*read, "--last") == "message c\n"
    assert shell.ok(*read, "--start-sequence", "2", "--count", "1") == "message b\n"
    assert shell.ok(*read, "--since", "1h").count("\n") == 3
    assert shell.ok(*read, "--last-per-subject").count("\n") == 3
    assert shell.ok(*read, "--new") == ""
    assert shell.ok("sub", f"{stream}.b", "--all", "-T", "--raw") == "message b\n"
    assert shell.ok("sub", f"{stream}.a", f"{stream}.c", "--all", "-T", "--raw") == "message a\nmessage c\n"


def test_a_stored_message_shows_its_stream_and_sequence(shell: Shell, stream: str) -> None:
    out = shell.ok("sub", f"{stream}.a", "--all", "-T")
    assert re.fullmatch(
        rf"\[#1\] Received JetStream message: stream: {stream} seq: 1 / pending: 0 / subject: {stream}\.a / "
        r"time: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\nmessage a\n\n",
        out,
    )
    lines = shell.ok("sub", "--stream", stream, "--all", "-T", "--json").splitlines()
    found = [json.loads(line) for line in lines]
    assert [(each["seq"], each["data"], each["pending"]) for each in found] == [
        (1, "message a", 2),
        (2, "message b", 1),
        (3, "message c", 0),
    ]


def test_no_consumer_is_left_behind(shell: Shell, stream: str) -> None:
    shell.ok("sub", "--stream", stream, "--all", "--count", "1")
    assert shell.json("stream", "info", stream)["state"]["consumer_count"] == 0


def test_ctrl_c_leaves_no_consumer_behind_either(shell: Shell, stream: str) -> None:
    with shell.beside("Reading Stream", "sub", "--stream", stream, "--all", "--subjects-only") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in "abc"] == [f"{stream}.{token}\n" for token in "abc"]
        assert len(shell.json("consumer", "ls", stream)) == 1
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    assert shell.json("consumer", "ls", stream) == []


def test_a_durable_consumer_continues_where_it_stopped(shell: Shell, stream: str) -> None:
    shell.ok("consumer", "add", stream, "WORK", "--pull", "--defaults")
    read = ("sub", "--stream", stream, "--durable", "WORK", "--ack", "--raw", "-T")
    assert shell.ok(*read, "--count", "2") == "message a\nmessage b\n"
    assert shell.ok(*read) == "message c\n"
    assert shell.ok(*read) == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "missing subject"),
        (("x", "--all", "--queue", "q"), "leave them out"),
        (("x", "--durable", "d"), "--durable needs --stream and no subjects"),
        (("x", "-T"), "--terminate-at-end works only for streams"),
        (("no.stream.here", "--all"), 'no stream has the subject "no.stream.here"'),
        (("--stream", "NOPE", "--all"), "stream not found (10059)"),
    ],
)
def test_what_cannot_be_had_together_is_one_sentence(
    shell: Shell, arguments: tuple[str, ...], words: str
) -> None:
    ran = shell("sub", *arguments)
    assert ran.code in (1, 2)
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_messages_are_dumped_to_files_or_one_behind_the_other(
    shell: Shell, stream: str, tmp_path: Path
) -> None:
    reads = ("sub", "--stream", stream, "--all", "--terminate-at-end", "--dump")
    shell.ok(*reads, str(tmp_path / "dump"))
    files = sorted(tmp_path.glob("dump/*.json"))
    assert [file.name for file in files] == ["1.json", "2.json", "3.json"]
    assert json.loads(files[1].read_text())["data"] == "message b"
    assert shell.ok(*reads, "-") == "message a\0message b\0message c\0"


def test_the_time_since_the_start_is_shown(shell: Shell, stream: str) -> None:
    said = shell.ok("sub", "--stream", stream, "--all", "--terminate-at-end", "--delta-time")
    assert re.search(r"\[#1\] @ [\d.]+(µs|ms|s|m\d+s) Received JetStream message", said)
