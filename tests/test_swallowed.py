"""An assertion that fails in a callback, a gathered task or a lost task fails its test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

CALLBACK = """
    import asyncio, nats
    from servers import nats_server

    async def test_it():
        came = asyncio.Event()

        async def check(message):
            came.set()
            assert message.data == b"right"

        async with nats_server() as server:
            client = await nats.connect(server.client_url)
            await client.subscribe("x", cb=check)
            await client.publish("x", b"DATA")
            await came.wait()
            await client.drain()
"""
GATHERED = """
    import asyncio

    async def check():
        assert b"DATA" == b"right"

    async def test_it():
        await asyncio.gather(check(), return_exceptions=True)
"""
LOST = """
    import asyncio, gc

    async def check():
        assert b"DATA" == b"right"

    async def test_it():
        asyncio.create_task(check())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()
"""


def outcome(directory: Path, text: str) -> tuple[int, str]:
    """Run a test module with this suite's conftest; return its exit code and what pytest printed."""
    lines = [line.removeprefix("    ") for line in text.splitlines()]
    (directory / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (directory / "test_it.py").write_text("\n".join(lines))
    paths = f"pythonpath={TESTS} {TESTS.parent / 'src'}"
    (directory / "pytest.ini").write_text(f"[pytest]\nasyncio_mode = auto\n{paths}\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=directory,
    )
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("text", [CALLBACK, GATHERED, LOST], ids=["callback", "gathered", "lost"])
def test_a_failed_assertion_that_nothing_awaits_fails_the_test(tmp_path: Path, text: str) -> None:
    code, said = outcome(tmp_path, text.replace("DATA", "wrong"))
    assert code == 1, said
    assert "assertions failed where nothing awaited them" in said


@pytest.mark.parametrize("text", [CALLBACK, GATHERED, LOST], ids=["callback", "gathered", "lost"])
def test_assertions_that_hold_pass(tmp_path: Path, text: str) -> None:
    code, said = outcome(tmp_path, text.replace("DATA", "right"))
    assert code == 0, said
