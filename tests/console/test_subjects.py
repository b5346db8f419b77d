"""Subjects are counted on request."""

from __future__ import annotations

import json

import nats

from consoles import open_console
from headwater.client.connection_settings import ConnectionSettings
from headwater.console.watched_site import WatchedSite
from servers import nats_server


async def test_the_largest_subjects_come_first() -> None:
    async with nats_server(jetstream=True) as server:
        client = await nats.connect(server.client_url)
        await client.jetstream().add_stream(name="A", subjects=["a.>"])
        for subject in ("a.x", "a.y", "a.y"):
            await client.jetstream().publish(subject, b"1")
        await client.close()
        async with open_console([WatchedSite("s", ConnectionSettings(server=server.client_url))]) as console:
            found = json.loads((await console.get("/subjects/s/A")).text)
            assert found == {"total": 2, "subjects": [["a.y", 2], ["a.x", 1]]}
            missing = await console.get("/subjects/s/B")
            assert (missing.status, "stream not found" in json.loads(missing.text)["error"]) == (404, True)
