"""`pub --atomic`: all messages or none, against nats-server and Headwater alike."""

from __future__ import annotations

from headwater.cli.batch import numbered
from headwater.cli.publish import RenderedMessage
from jetstreams import Shell


def test_the_letters_of_a_batch_are_numbered_and_the_last_one_commits() -> None:
    first, last = numbered([RenderedMessage("a", b"1", {"K": "v"}), RenderedMessage("b", b"2", None)], "B")
    assert first.headers == {"K": "v", "Nats-Batch-Id": "B", "Nats-Batch-Sequence": "1"}
    assert last.headers == {"Nats-Batch-Id": "B", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}


def test_a_batch_is_stored_as_a_whole_and_reported_in_two_lines(shell: Shell, name: str) -> None:
    shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--allow-batch", "--defaults")
    ran = shell("pub", f"{name}.a", "order {{Count}}", "-H", "K: {{Count}}", "--count", "50", "--atomic")
    assert ran.code == 0, ran.err
    assert "Published 50 messages as one batch" in ran.err
    assert f"Stored in Stream: {name} Sequence: 50" in ran.err
    assert "order 50" in shell.ok("stream", "get", name, "50")
    lines = shell("pub", f"{name}.b", "--send-on", "newline", "--atomic", "--json", stdin="x\ny\nz\n")
    assert (lines.json["messages"], lines.json["count"], lines.json["seq"]) == (3, 3, 53)
    single = shell("pub", f"{name}.c", "alone", "--atomic", "--json")
    assert single.json["seq"] == 54


def test_one_message_that_is_refused_keeps_all_out(shell: Shell, name: str) -> None:
    shell.ok("stream", "add", name, "--subjects", f"{name}.>", "--allow-batch", "--defaults")
    ran = shell("pub", f"{name}.a", "x", "-H", "Nats-Expected-Last-Sequence: 99", "--count", "3", "--atomic")
    assert ran.code == 1
    assert "headwater: nothing was stored: " in ran.err
    assert shell.json("stream", "info", name)["state"]["messages"] == 0


def test_what_cannot_be_a_batch_is_refused_in_one_sentence(shell: Shell, name: str, stream: str) -> None:
    ran = shell("pub", f"{stream}.a", "x", "--count", "3", "--atomic")
    assert (ran.code, "headwater: nothing was stored: " in ran.err) == (1, True)
    nobody = shell("pub", f"nobody.{name}", "x", "--count", "3", "--atomic")
    assert (nobody.code, f'no stream has the subject "nobody.{name}"' in nobody.err) == (1, True)
    many = shell("pub", f"{stream}.a", "x", "--count", "1001", "--atomic")
    assert (many.code, "at most 1,000" in many.err) == (1, True)
    slow = shell("pub", f"{stream}.a", "x", "--atomic", "--sleep", "1s")
    assert (slow.code, "leave out --reply and --sleep" in slow.err) == (2, True)
