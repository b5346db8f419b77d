"""The real `nats` command line sees the same from Headwater as from nats-server."""

import asyncio
from pathlib import Path

import pytest

from conformance import nats_cli
from conformance.difference import compare
from conformance.known import explained, stale
from conformance.server import Server


@pytest.mark.skipif(nats_cli.binary() is None, reason=f"no nats on PATH nor in {nats_cli.VARIABLE}")
async def test_the_command_line_prints_the_same(reference: Server, headwater: Server, tmp_path: Path) -> None:
    for name in ("reference", "headwater"):
        (tmp_path / name).mkdir()
    expected, actual = await asyncio.gather(
        nats_cli.run(reference.url, tmp_path / "reference"),
        nats_cli.run(headwater.url, tmp_path / "headwater"),
    )
    found = compare("nats-cli", expected, actual)
    unexplained = [one for one in found if not explained(one)]
    assert not unexplained, "\n".join(map(str, unexplained))
    assert not stale("nats-cli", found), "known differences that no longer differ"
