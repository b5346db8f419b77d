"""The real `nats` command line, driven through a fixed list of commands and recorded like the rest."""

import asyncio
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from conformance.normal import normalise
from conformance.probe import Answer, delete_streams
from conformance.server import Server

COMMAND_WITHIN_S = 60
VARIABLE = "HEADWATER_NATS_CLI"

# What a table or a sentence shows of times, durations, versions and the server's random name.
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?( [+-]\d{4} UTC)?"), "<time>"),
    (re.compile(r"^\d\d:\d\d:\d\d "), "<time> "),
    (re.compile(r"\d+(\.\d+)?(ns|µs|ms|s)\b"), "<duration>"),
    (re.compile(r"\bN[A-Z0-9]{55}\b"), "<server>"),
    (re.compile(r'([Ll]eader"?: )"?[\w.<>-]+"?'), r"\1<server>"),
    (re.compile(r"\d+\.\d+\.\d+(-\w+)?"), "<version>"),
    (re.compile(r"[─━╭╮╰╯├┤┬┴┼]+"), "─"),
    (re.compile(r"\s+"), " "),
)

COMMANDS = (
    "stream add ORDERS --subjects orders.> --defaults --max-msgs 100 --description a_stream",
    "stream add ORDERS --subjects orders.> --defaults",
    "pub orders.a one",
    "pub orders.b two -H Own:header",
    "pub orders.a three --count 3",
    "stream info ORDERS --json",
    "stream info ORDERS",
    "stream state ORDERS --json",
    "stream subjects ORDERS --json",
    "stream ls --json",
    "stream ls --names",
    "stream report",
    "stream find --subject orders.a --names",
    "stream get ORDERS 2 --json",
    "stream get ORDERS --last-for orders.a --json",
    "stream get ORDERS 99 --json",
    "stream edit ORDERS --max-msgs 50 --description changed --force",
    "stream edit ORDERS --replicas 3 --force",
    "stream rmm ORDERS 2 --force",
    "stream rmm ORDERS 2 --force",
    "stream info ORDERS --json",
    "stream backup ORDERS {directory}/backup --no-progress",
    "stream rm ORDERS --force",
    "stream info ORDERS --json",
    "stream restore {directory}/backup --no-progress",
    "stream info ORDERS --json",
    "stream purge ORDERS --subject orders.a --force --json",
    "stream purge ORDERS --force --json",
    "stream copy ORDERS COPY --subjects copy.>",
    "stream seal COPY --force",
    "stream info COPY --json",
    "stream rm COPY --force",
    "stream rm ORDERS --force",
    "stream rm ORDERS --force",
    "kv add BUCKET --history 3",
    "kv put BUCKET key one",
    "kv put BUCKET key two",
    "kv create BUCKET key three",
    "kv create BUCKET other one",
    "kv update BUCKET key three 2",
    "kv update BUCKET key four 2",
    "kv get BUCKET key --raw",
    "kv get BUCKET key --revision 1 --raw",
    "kv get BUCKET none --raw",
    "kv info BUCKET",
    "kv del BUCKET key --force",
    "kv get BUCKET key --raw",
    "kv purge BUCKET other --force",
    "kv del BUCKET --force",
    "account info",
)

# Of these only the exit status counts: they tell of sizes on the wire, or of the connection.
STATUS_ONLY = ("stream backup", "stream restore", "account info")


def binary() -> str | None:
    """Return the `nats` command that the environment names, else the one on PATH."""
    return os.environ.get(VARIABLE) or shutil.which("nats")


def shown(output: str) -> Any:
    """Return a command's output as JSON where it is, else as lines without what varies."""
    try:
        return normalise(json.loads(output))
    except ValueError:
        pass
    for pattern, placeholder in VARYING:
        output = "\n".join(pattern.sub(placeholder, line) for line in output.splitlines())
    return [line.strip() for line in output.splitlines() if line.strip()]


async def on_both(reference: Server, server: Server, scratch: Path) -> tuple[list[Answer], list[Answer]]:
    """Return what the commands print against the reference and the server under test, at the same time."""
    with (
        tempfile.TemporaryDirectory(dir=scratch) as first,
        tempfile.TemporaryDirectory(dir=scratch) as second,
    ):
        return await asyncio.gather(run(reference, Path(first)), run(server, Path(second)))


async def run(server: Server, directory: Path) -> list[Answer]:
    """Run every command against a server, left without streams; return output and exit status of each."""
    try:
        return await _run(server, directory)
    finally:
        await delete_streams(server)


async def _run(server: Server, directory: Path) -> list[Answer]:
    command = binary()
    assert command is not None
    home = {"HOME": str(directory), "XDG_CONFIG_HOME": str(directory), "TZ": "UTC", "NO_COLOR": "1"}
    answers = []
    for number, line in enumerate(COMMANDS, 1):
        words = line.format(directory=directory).split()
        process = await asyncio.create_subprocess_exec(
            command,
            "--server",
            server.url,
            *words,
            env=home | {"PATH": os.environ["PATH"]},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(COMMAND_WITHIN_S):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if line.startswith("stream rm "):
            await server.forgotten(words[2])
        value: dict[str, Any] = {"status": process.returncode}
        if not line.startswith(STATUS_ONLY):
            value["output"] = shown(output.decode())
        answers.append(Answer(f"{number}: nats {line}", f"nats {line}", value))
    return answers
