"""The real `nats` command line sees the same from Headwater as from nats-server."""

from pathlib import Path

import pytest

from conformance import nats_cli
from conformance.server import Server
from conformance.verdict import judged


@pytest.mark.skipif(nats_cli.binary() is None, reason=f"no nats on PATH nor in {nats_cli.VARIABLE}")
async def test_the_command_line_prints_the_same(reference: Server, headwater: Server, tmp_path: Path) -> None:
    verdict = await judged("nats-cli", lambda: nats_cli.on_both(reference, headwater, tmp_path))
    assert verdict.agrees, str(verdict)
