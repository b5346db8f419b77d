"""`headwater backfill` stores a source once, with its progress, through the connection of the command."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from doors import opened_door
from headwater.cli.backfill import origin_of
from headwater.cli.main import headwater
from headwater.client.connection_settings import ConnectionSettings
from headwater.errors import SettingsError


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(headwater, ["backfill", *arguments])


async def test_a_source_is_stored_once(tmp_path: Path) -> None:
    pq.write_table(pa.table({"data": [str(n) for n in range(10)]}), tmp_path / "rows.parquet")
    async with opened_door(tmp_path / "store") as door:
        await door.asker.ask("STREAM.CREATE.B", {"name": "B", "subjects": ["b"]})
        common = (str(tmp_path / "rows.parquet"), "B", "--subject", "b", "-s", door.client_url)
        first = await asyncio.to_thread(invoke, *common)
        assert first.exit_code == 0, first.output
        assert "10 messages stored in B\n" in first.output
        again = await asyncio.to_thread(invoke, *common)
        assert "0 messages stored in B, 10 were there already\n" in again.output
        shown = await asyncio.to_thread(invoke, *common, "--name", "two", "--json")
        assert json.loads(shown.output) == {"stream": "B", "stored": 10, "already_stored": 0}
        assert (await door.asker.ask("STREAM.INFO.B"))["state"]["messages"] == 20


def test_the_connection_is_that_of_the_command() -> None:
    settings = ConnectionSettings(server="nats://a:1, nats://b:2", domain="hub", user="u", password="p")
    origin = origin_of(settings, "S")
    assert (origin.servers, origin.api_prefix) == (("nats://a:1", "nats://b:2"), "$JS.hub.API")
    assert (origin.user, origin.password, origin.stream) == ("u", "p", "S")
    token = origin_of(ConnectionSettings(user="secret"), "S")
    assert (token.user, token.token) == ("", "secret")
    with pytest.raises(SettingsError, match="use --creds"):
        origin_of(ConnectionSettings(jwt="j", seed="s"), "S")
