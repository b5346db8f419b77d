"""Backup and restore, on and between both kinds of server, and a backup that is interrupted."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from headwater.cli.session import flushed
from headwater.cli.stream.archive import DATA, META, UNFINISHED
from jetstreams import Shell
from servers import nats_server

ROUNDS = 2000


def test_a_stream_comes_back_as_it_was(shell: Shell, stream: str, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    ran = shell("stream", "backup", stream, str(target))
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"Backed up stream {stream} to {target}: 3 messages, ")
    assert ran.err.startswith(f"Backing up {stream}: 100%, ")
    assert sorted(path.name for path in target.iterdir()) == [META, DATA]
    before = shell.json("stream", "view", stream)
    shell.ok("stream", "rm", stream, "-f")
    ran = shell("stream", "restore", str(target))
    assert ran.out.startswith(f"Restored stream {stream} from {target}\n\nInformation for Stream {stream}")
    assert ran.err.startswith(f"Restoring {stream}: 100%, ")
    assert shell.json("stream", "view", stream) == before


@pytest.mark.parametrize("flag", ["--consumers", "--no-consumers"])
def test_consumers_come_back_if_they_were_taken_along(
    shell: Shell, stream: str, tmp_path: Path, flag: str
) -> None:
    target = tmp_path / "backup"
    shell.ok("consumer", "add", stream, "worker", "--pull", "--ack", "explicit", "--wait", "1h", "--defaults")
    shell.ok("consumer", "next", stream, "worker", "--count", "2", "--no-ack")
    before = shell.json("consumer", "info", stream, "worker")
    assert before["num_ack_pending"] == 2
    shell.ok("stream", "backup", stream, str(target), flag)
    shell.ok("stream", "rm", stream, "-f")
    shell.ok("stream", "restore", str(target))
    ran = shell("consumer", "info", stream, "worker", "--json")
    if flag == "--no-consumers":
        assert (ran.code, "consumer not found" in ran.err) == (1, True)
        return
    after = json.loads(ran.out)
    for key in ("num_ack_pending", "num_pending", "num_redelivered"):
        assert after[key] == before[key]
    for key in ("delivered", "ack_floor"):
        assert after[key]["stream_seq"] == before[key]["stream_seq"]
        assert after[key]["consumer_seq"] == before[key]["consumer_seq"]


def test_the_config_may_change_on_the_way_back(shell: Shell, stream: str, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    taken = shell.json("stream", "snapshot", stream, str(target), "--no-progress")
    assert taken["state"]["messages"] == 3
    shell.ok("stream", "rm", stream, "-f")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**taken["config"], "description": "brought back"}))
    ran = shell("stream", "restore", str(target), "--config", str(config), "--no-progress")
    assert (ran.code, ran.err) == (0, "")
    assert shell.json("stream", "info", stream)["config"]["description"] == "brought back"


def test_a_stream_that_is_there_is_not_overwritten(shell: Shell, stream: str, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    shell.ok("stream", "backup", stream, str(target))
    ran = shell("stream", "restore", str(target))
    assert (ran.code, "(10130): remove it first" in ran.err) == (1, True)
    assert shell.json("stream", "state", stream)["messages"] == 3


def test_a_backup_is_not_overwritten(shell: Shell, stream: str, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    shell.ok("stream", "backup", stream, str(target))
    held = (target / DATA).read_bytes()
    ran = shell("stream", "backup", stream, str(target))
    assert (ran.code, "contains a backup already" in ran.err) == (1, True)
    assert (target / DATA).read_bytes() == held


def test_a_backup_that_fails_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    assert "stream not found" in shell("stream", "backup", "NOPE", str(target)).err
    assert not target.exists()
    kept = tmp_path / "mine"
    kept.mkdir()
    (kept / "letter").touch()
    assert shell("stream", "backup", "NOPE", str(kept)).code == 1
    assert [path.name for path in kept.iterdir()] == ["letter"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, f"is not a complete backup: {META} is missing"),
        ({META: "{}", DATA: ""}, "is damaged"),
        ({META: '{"config":{"name":"X"},"state":{}}'}, f"is not a complete backup: {DATA} is missing"),
        ({META + UNFINISHED: "", DATA + UNFINISHED: ""}, "is not a complete backup"),
    ],
)
def test_what_is_no_backup_is_not_restored(
    shell: Shell, tmp_path: Path, files: dict[str, str], words: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    ran = shell("stream", "restore", str(tmp_path))
    assert ran.code == 1
    assert words in ran.err


async def test_ctrl_c_in_the_middle_of_a_backup_leaves_no_file(tmp_path: Path) -> None:
    """The server begins to send and then stops. The user presses Ctrl-C."""
    async with nats_server() as server:
        client = await nats.connect(server.client_url)

        async def begin(message: Msg) -> None:
            await message.respond(b'{"config":{"name":"BIG"},"state":{"messages":9}}')
            await client.publish(json.loads(message.data)["deliver_subject"], b"beginning")

        await client.subscribe("$JS.API.STREAM.SNAPSHOT.BIG", cb=begin)
        await flushed(client)
        target = tmp_path / "backup"
        command = [sys.executable, "-m", "headwater", "--no-context", "-s", server.client_url]
        process = subprocess.Popen(
            [*command, "stream", "backup", "BIG", str(target), "--timeout", "60s"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            for _ in range(ROUNDS):
                if (target / (DATA + UNFINISHED)).exists():
                    break
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.to_thread(process.communicate, timeout=30)
        finally:
            process.kill()
        assert process.returncode == 130
        assert (out, b"Traceback" in err) == (b"", False)
        assert not target.exists()
        await client.close()


async def test_an_archive_that_the_server_gives_up_is_not_kept(tmp_path: Path) -> None:
    async with nats_server() as server:
        client = await nats.connect(server.client_url)

        async def give_up(message: Msg) -> None:
            await message.respond(b'{"config":{"name":"BIG"},"state":{"messages":9}}')
            inbox = json.loads(message.data)["deliver_subject"]
            await client.publish(inbox, headers={"Status": "500", "Description": "disk on fire"})

        await client.subscribe("$JS.API.STREAM.SNAPSHOT.BIG", cb=give_up)
        await flushed(client)
        shell = Shell(server.client_url, tmp_path / "home")
        ran = await asyncio.to_thread(shell, "stream", "backup", "BIG", str(tmp_path / "backup"))
        assert (ran.code, "the server stopped the backup of BIG: disk on fire" in ran.err) == (1, True)
        assert not (tmp_path / "backup").exists()
        await client.close()


async def test_ctrl_c_in_the_middle_of_a_restore_leaves_at_once_and_keeps_the_backup(tmp_path: Path) -> None:
    """The server accepts the first chunk and then stops. It discards an incomplete restore by itself."""
    (tmp_path / META).write_text('{"config":{"name":"BIG"},"state":{"messages":9}}')
    (tmp_path / DATA).write_bytes(b"x" * 300_000)
    async with nats_server() as server:
        client = await nats.connect(server.client_url)
        begun = asyncio.Event()

        async def begin(message: Msg) -> None:
            await message.respond(b'{"deliver_subject":"restore.here"}')

        async def take(message: Msg) -> None:
            if begun.is_set():
                return
            begun.set()
            await message.respond(b"")

        await client.subscribe("$JS.API.STREAM.RESTORE.BIG", cb=begin)
        await client.subscribe("restore.here", cb=take)
        await flushed(client)
        command = [sys.executable, "-m", "headwater", "--no-context", "-s", server.client_url]
        process = subprocess.Popen(
            [*command, "stream", "restore", str(tmp_path), "--timeout", "60s"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            await asyncio.wait_for(begun.wait(), 60)
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.to_thread(process.communicate, timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert (out, b"Traceback" in err) == (b"", False)
        assert sorted(path.name for path in tmp_path.iterdir()) == [META, DATA]
        await client.close()
