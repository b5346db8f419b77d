"""Single messages, purges and gaps, on both kinds of server."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from headwater.cli import ask
from headwater.cli.session import flushed
from headwater.cli.stream import messages as stream_messages
from headwater.cli.stream.messages import ranges
from headwater.model.counted import counted
from jetstreams import Shell
from servers import nats_server


def test_a_message_is_shown_with_its_subject_and_time(shell: Shell, stream: str) -> None:
    text = shell.ok("stream", "get", stream, "2")
    assert text.startswith(f"Item: {stream}#2 received 20")
    assert text.endswith(f" ago) on Subject {stream}.b\n\nmessage b\n\n")


def test_the_headers_of_a_message_are_shown(shell: Shell, stream: str) -> None:
    shell.ok("pub", f"{stream}.d", "x", "--jetstream", "--quiet", "-H", "Colour:red")
    assert "Headers:\n  Colour: red\n" in shell.ok("stream", "get", stream, "4")


def test_the_last_message_of_a_subject_is_found(shell: Shell, stream: str) -> None:
    message = shell.json("stream", "get", stream, "-S", f"{stream}.c")
    assert (message["seq"], base64.b64decode(message["data"])) == (3, b"message c")


def test_a_message_that_is_not_there_is_one_sentence(shell: Shell, stream: str) -> None:
    ran = shell("stream", "get", stream, "99")
    assert (ran.code, ran.err) == (1, "headwater: no message found (10037)\n")


def test_a_missing_sequence_is_asked_for_only_on_a_terminal(
    shell: Shell, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell("stream", "get", stream).code == 2
    monkeypatch.setattr(ask, "possible", lambda: True)
    assert "message c" in shell.ok("stream", "get", stream, stdin="first\n3\n")


def test_data_is_translated_by_a_command(shell: Shell, stream: str) -> None:
    assert "MESSAGE B" in shell.ok("stream", "get", stream, "2", "--translate", "tr a-z A-Z")
    ran = shell("stream", "get", stream, "2", "--translate", "false")
    assert (ran.code, "--translate failed" in ran.err) == (1, True)


def test_messages_are_viewed_in_order_and_the_end_is_shown(shell: Shell, stream: str) -> None:
    ran = shell("stream", "view", stream)
    places = [ran.out.index(f"{stream}#{sequence} ") for sequence in (1, 2, 3)]
    assert places == sorted(places)
    assert ran.err == "Reached apparent end of data\n"


def test_a_view_begins_at_the_given_start(shell: Shell, stream: str) -> None:
    assert [m["seq"] for m in shell.json("stream", "view", stream, "--id", "2")] == [2, 3]
    assert [m["seq"] for m in shell.json("stream", "view", stream, "--subject", f"{stream}.b")] == [2]
    assert [m["seq"] for m in shell.json("stream", "view", stream, "--since", "1h")] == [1, 2, 3]
    assert shell.ok("stream", "view", stream, "--raw", "2") == "message a\nmessage b\n"


def test_at_a_terminal_a_view_continues_page_by_page(
    shell: Shell, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "possible", lambda: True)
    ran = shell("stream", "view", stream, "1", "--raw", stdin="y\nn\n")
    assert ran.out == "message a\nmessage b\n"
    assert ran.err.count("Next Page?") == 2


def test_a_message_is_erased_and_leaves_a_gap(shell: Shell, stream: str) -> None:
    assert shell.ok("stream", "gaps", stream) == f"No deleted messages in {stream}\n"
    assert shell("stream", "rmm", stream, "2").code == 2
    shell.ok("stream", "rmm", stream, "2", "--force")
    assert shell.json("stream", "gaps", stream) == [[2, 2]]
    assert f"1 gap found in Stream {stream}" in shell.ok("stream", "gaps", stream, "-f")


@pytest.mark.parametrize(
    ("flags", "purged", "left"),
    [([], 3, 0), (["--keep", "1"], 2, 1), (["--seq", "3"], 2, 1), (["--subject", "b"], 1, 2)],
)
def test_a_purge_removes_what_it_says(
    shell: Shell, stream: str, flags: list[str], purged: int, left: int
) -> None:
    given = [f"{stream}.b" if flag == "b" else flag for flag in flags]
    text = shell.ok("stream", "purge", stream, "--force", *given)
    assert text.startswith(f"Purged {counted(purged, 'message')} from {stream}\n\nState for Stream {stream}")
    assert shell.json("stream", "state", stream)["messages"] == left


async def test_a_purge_that_takes_long_shows_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers the purge after a request for its state has shown an empty stream."""
    monkeypatch.setattr(stream_messages, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(stream_messages, "POLL_SECONDS", 0.01)
    async with nats_server() as server:
        client = await nats.connect(server.client_url)
        left = [1000, 800, 500, 200, 0, 0]
        purging: list[Msg] = []

        async def info(message: Msg) -> None:
            held = left.pop(0) if len(left) > 1 else left[0]
            body = {"config": {"name": "BIG"}, "state": {"messages": held, "bytes": 0}}
            await message.respond(json.dumps(body).encode())
            if not held and purging:
                await purging.pop().respond(b'{"success":true,"purged":1000}')

        async def purge(message: Msg) -> None:
            purging.append(message)

        await client.subscribe("$JS.API.STREAM.INFO.BIG", cb=info)
        await client.subscribe("$JS.API.STREAM.PURGE.BIG", cb=purge)
        await flushed(client)
        ran = await asyncio.to_thread(Shell(server.client_url, tmp_path), "stream", "purge", "BIG", "-f")
        await client.close()
    assert (ran.code, ran.out.splitlines()[0]) == (0, "Purged 1,000 messages from BIG")
    assert ran.err.startswith("Purging BIG: 100%, 1,000 of 1,000, ")


def test_a_purge_that_contradicts_itself_is_refused(shell: Shell, stream: str) -> None:
    ran = shell("stream", "purge", stream, "-f", "--keep", "1", "--seq", "2")
    assert (ran.code, "exclude each other" in ran.err) == (2, True)


def test_a_purge_without_a_terminal_wants_force(shell: Shell, stream: str) -> None:
    assert shell("stream", "purge", stream).code == 2
    assert shell.json("stream", "state", stream)["messages"] == 3


def test_sequences_become_runs_without_a_break() -> None:
    assert ranges([5, 1, 2, 3, 9, 10]) == [[1, 3], [5, 5], [9, 10]]
    assert ranges([]) == []
