"""`headwater consumer` against real servers: list, info, report, pause, resume, unpin, rm."""

from __future__ import annotations

import re

import pytest

from jetstreams import Shell


@pytest.fixture
def work(shell: Shell, stream: str) -> str:
    """Return the name of a stream with a consumer WORK."""
    shell.ok("consumer", "add", stream, "WORK", "--pull")
    return stream


def test_consumers_are_listed(shell: Shell, work: str) -> None:
    shell.ok("consumer", "add", work, "AUDIT", "--target", f"to.{work}")
    assert shell.ok("consumer", "ls", work, "--names") == "AUDIT\nWORK\n"
    assert sorted(info["name"] for info in shell.json("consumer", "ls", work)) == ["AUDIT", "WORK"]
    assert sorted(shell.json("consumer", "ls", work, "-n")) == ["AUDIT", "WORK"]
    lines = shell.ok("consumer", "ls", work).splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert cells[0] == ["Consumers"]
    assert cells[1] == ["Name", "Description", "Created", "Ack Pending", "Unprocessed", "Last Delivery"]
    assert [(row[0], row[3], row[4], row[5]) for row in cells[2:]] == [
        ("AUDIT", "0", "3", "never"),
        ("WORK", "0", "3", "never"),
    ]


def test_info_state_and_report_tell_how_far_a_consumer_has_come(shell: Shell, work: str) -> None:
    shell.ok("consumer", "next", work, "WORK")
    shell.ok("consumer", "next", work, "WORK", "--no-ack")
    text = shell.ok("consumer", "info", work, "WORK")
    assert "Consumer sequence: 2 Stream sequence: 2 Last delivery: " in text
    assert "Outstanding Acks: 1 out of maximum 1,000\n" in text
    assert "Unprocessed Messages: 1\n" in text
    assert shell.ok("consumer", "state", work, "WORK").startswith(f"State for Consumer {work} > WORK")
    assert shell.json("consumer", "state", work, "WORK")["ack_floor"]["stream_seq"] == 1
    report = shell.ok("consumer", "report", work)
    assert f"Consumer report for {work} with 1 consumer" in report
    row = [cell.strip() for cell in report.splitlines()[5].split("│")[1:-1]]
    assert row[:8] == ["WORK", "Pull", "Explicit", "30.00s", "1", "0", "1 / 33%", "1"]
    assert shell.json("consumer", "report", work)[0]["num_ack_pending"] == 1


def test_a_stream_without_consumers_says_so(shell: Shell, stream: str) -> None:
    assert shell.ok("consumer", "report", stream) == "No Consumers defined\n"


def test_a_paused_consumer_delivers_nothing_until_it_is_resumed(shell: Shell, work: str) -> None:
    assert f"Paused {work} > WORK until " in shell.ok("consumer", "pause", work, "WORK", "1h", "-f")
    shown = shell.ok("consumer", "info", work, "WORK")
    assert len(re.findall(r"\((?:1h0m0s|59m\d+s) remaining\)", shown)) == 2
    assert shell("consumer", "next", work, "WORK", "--timeout", "100ms").code == 1
    assert "was resumed while previously paused" in shell.ok("consumer", "resume", work, "WORK", "-f")
    shell.ok("consumer", "next", work, "WORK")
    ran = shell("consumer", "resume", work, "WORK", "-f")
    assert (ran.code, "is not paused" in ran.err) == (1, True)


def test_pauses_without_sense_are_refused(shell: Shell, work: str) -> None:
    assert shell("consumer", "pause", work, "WORK", "-f").code == 2
    assert shell("consumer", "pause", work, "WORK", "soon", "-f").code == 2
    ran = shell("consumer", "pause", work, "WORK", "2020-01-01 00:00:00", "-f")
    assert (ran.code, "pass a later time" in ran.err) == (1, True)
    assert "pass --force" in shell("consumer", "pause", work, "WORK", "1h").err
    assert shell.json("consumer", "pause", work, "WORK", "1h", "-f")["paused"] is True
    assert "pause_remaining" not in shell.json("consumer", "resume", work, "WORK", "-f")


def test_a_pinned_client_can_be_unpinned(shell: Shell, stream: str) -> None:
    shell.ok("consumer", "add", stream, "PIN", "--pull", "--pinned-groups", "readers", "--pinned-ttl", "1m")
    ran = shell("consumer", "unpin", stream, "PIN", "-f")
    assert (ran.code, "there is nothing to unpin" in ran.err) == (1, True)
    shell.ok("consumer", "next", stream, "PIN", "--group", "readers")
    ran = shell("consumer", "unpin", stream, "PIN", "writers", "-f")
    assert (ran.code, 'no client is pinned to "writers"' in ran.err) == (1, True)
    assert f"from Priority Group {stream} > PIN > readers" in shell.ok(
        "consumer", "unpin", stream, "PIN", "-f"
    )
    groups = shell.json("consumer", "info", stream, "PIN")["priority_groups"]
    assert [group.get("pinned_client_id", "") for group in groups] == [""]


def test_only_pinning_consumers_are_unpinned(shell: Shell, work: str) -> None:
    ran = shell("consumer", "unpin", work, "WORK", "-f")
    assert (ran.code, "create a consumer with --pinned-groups" in ran.err) == (1, True)


def test_a_consumer_is_removed_with_force_alone(shell: Shell, work: str) -> None:
    ran = shell("consumer", "rm", work, "WORK")
    assert (ran.code, "pass --force" in ran.err) == (2, True)
    assert shell.ok("consumer", "rm", work, "WORK", "--force") == ""
    assert shell.json("consumer", "ls", work, "--names") == []


@pytest.mark.parametrize("command", ["info", "state", "rm", "next", "pause", "resume", "unpin"])
def test_a_missing_consumer_is_said_with_what_to_do(shell: Shell, stream: str, command: str) -> None:
    extra = {"pause": ("1h", "-f"), "next": ()}.get(
        command, ("-f",) if command in ("rm", "resume", "unpin") else ()
    )
    ran = shell("consumer", command, stream, "NOPE", *extra)
    assert (ran.code, ran.out) == (1, "")
    assert (
        ran.err
        == "headwater: consumer not found (10014): `headwater consumer ls STREAM` lists the consumers\n"
    )


@pytest.mark.parametrize("command", ["ls", "info", "report", "rm", "sub"])
def test_without_a_terminal_names_are_needed(shell: Shell, command: str) -> None:
    ran = shell("consumer", command)
    assert (ran.code, "missing" in ran.err) == (2, True)
    assert shell("consumer", "info", "--no-select").code == 2
