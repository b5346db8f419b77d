"""The streams that become views of a Spark session: of a server of either kind, and of a store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from headwater.errors import SettingsError
from headwater.lake.spark_views import streams_of
from headwater.model.payload_schema import KEY, stored
from replication.origins import KINDS, site_of

SCHEMA = {"properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize("kind", KINDS)
async def test_streams_are_listed_with_their_schemas(kind: str, tmp_path: Path) -> None:
    async with site_of(kind, tmp_path) as site:
        await site.make(metadata={KEY: stored(SCHEMA)})
        await site.ask("STREAM.CREATE.A", json.dumps({"name": "A", "subjects": ["a"]}).encode())
        found = await asyncio.to_thread(streams_of, site.url, {"subject": "x"})
        assert [(each.name, each.schema) for each in found] == [("A", None), ("ORDERS", SCHEMA)]
        assert found[1].options == {"server": site.url, "stream": "ORDERS", "subject": "x"}
        if kind == "headwater":
            store = tmp_path / "engine" / "store"
            kept = await asyncio.to_thread(streams_of, store, {"server": site.url})
            assert [(each.name, each.schema) for each in kept] == [("A", None), ("ORDERS", SCHEMA)]
            assert kept[1].options["path"] == str(store / "$G" / "ORDERS")


def test_a_place_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no store"):
        streams_of(tmp_path / "missing", {})
