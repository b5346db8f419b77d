"""The options of a write say where it goes, and the server says how."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from doors import Asker, Door, connected, opened_door
from headwater.errors import Error, SettingsError
from headwater.spark.bulk_client import SinkError
from headwater.spark.writing import SINK_OPTIONS, SinkMode, Writing
from servers import nats_server


def test_options_name_the_stream_the_query_and_the_batch() -> None:
    writing = Writing.of({"stream": "S", "domain": "hub", "queryId": "q", "batchId": "7", "user": "u"})
    assert (writing.origin.stream, writing.origin.api_prefix, writing.origin.user) == (
        "S",
        "$JS.hub.API",
        "u",
    )
    assert (writing.query, writing.batch, writing.mode) == ("q", 7, SinkMode.AUTO)
    assert Writing.of({"stream": "S", "checkpointLocation": "/x", "path": "y"}).query == ""
    assert Writing.of({"stream": "S"}).job != Writing.of({"stream": "S"}).job


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "missing option stream"),
        ({"stream": "S", "mode": "fast"}, "option mode must be auto, engine, publish, not 'fast'"),
        ({"stream": "S", "subject": "a"}, "unknown option 'subject'"),
        ({"stream": "S", "batchId": "1"}, "batchId needs a queryId"),
        ({"stream": "S", "queryId": "q", "batchId": "-1"}, "batchId must be a number"),
        ({"stream": "S", "queryId": "a b"}, "queryId must be a short name"),
    ],
)
def test_other_options_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        Writing.of(options)


async def declared(door: Door) -> None:
    answer = await door.asker.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    assert "error" not in answer


async def test_an_engine_takes_bulk_writes_and_another_server_messages(tmp_path: Path) -> None:
    async with opened_door(tmp_path) as door:
        await declared(door)
        options = {"stream": "S", "server": door.client_url}
        for mode, settled in (("auto", "engine"), ("engine", "engine"), ("publish", "publish")):
            writing = Writing.of({**options, "mode": mode})
            assert (await asyncio.to_thread(writing.settled)).mode == settled
        with pytest.raises(SinkError, match="stream not found"):
            await asyncio.to_thread(Writing.of({**options, "stream": "X"}).settled)
    async with nats_server("", jetstream=True) as server:
        client = await connected(server.client_url)
        await Asker(client).ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await client.close()
        options = {"stream": "S", "server": server.client_url}
        assert (await asyncio.to_thread(Writing.of(options).settled)).mode == "publish"
        with pytest.raises(SinkError, match="takes no bulk writes"):
            await asyncio.to_thread(Writing.of({**options, "mode": "engine"}).settled)
    with pytest.raises(Error):
        Writing.of({"stream": "S", "server": "nats://127.0.0.1:1"}).settled()


def test_the_page_lists_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "spark.md").read_text()
    section = page.split("## Writing to a stream")[1].split("## Options")[0]
    assert [name for name in SINK_OPTIONS if f"`{name}`" not in section] == []
