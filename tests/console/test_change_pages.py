"""Changes over HTTP: refused without permission, and sent as the forms say with it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from consoles import OpenConsole, Visit, open_console
from headwater.client.connection_settings import ConnectionSettings
from headwater.console.change_pages import ROUTES
from headwater.console.watched_site import WatchedSite
from servers import nats_server


class Forms:
    """Posts forms as a browser does that has opened the page of changes."""

    def __init__(self, console: OpenConsole) -> None:
        self.console = console
        self.token = ""

    async def open(self) -> None:
        """Read the token of the forms."""
        found = re.search(r'name="form_token" value="(\w+)"', (await self.console.get("/changes")).text)
        assert found
        self.token = found[1]

    async def post(self, path: str, **fields: str) -> Visit:
        """Return the answer to a form."""
        body = urlencode({"form_token": self.token, **fields})
        kind = "application/x-www-form-urlencoded"
        return await self.console.get(path, "POST", body, Content_Type=kind, Sec_Fetch_Site="same-origin")


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[tuple[Forms, JetStreamContext]]:
    async with nats_server(jetstream=True) as server:
        client = await nats.connect(server.client_url)
        site = WatchedSite("plain", ConnectionSettings(server=server.client_url, timeout=60))
        async with open_console([site], **settings) as console:
            yield Forms(console), client.jetstream(timeout=60)
        await client.close()


async def test_without_permission_every_page_of_changes_is_refused() -> None:
    async with served() as (forms, js):
        await js.add_stream(name="S", subjects=["s"])
        for route in ROUTES:
            path = route.path.replace("{site}", "plain").replace("{stream}", "S").replace("{consumer}", "c")
            if "POST" in (route.methods or ()):
                answer = await forms.post(path, typed="S", config='{"name": "T"}', site="plain")
            else:
                answer = await forms.console.get(path)
            assert (answer.status, "--allow-changes" in answer.text) == (403, True), path
        assert "Changes" not in (await forms.console.get("/messages")).text
        assert (await js.stream_info("S")).state.messages == 0


async def test_a_form_without_its_token_or_from_another_site_is_refused() -> None:
    async with served(allow_changes=True) as (forms, js):
        await js.add_stream(name="S", subjects=["s"])
        assert (await forms.post("/changes/plain/S/delete", typed="S")).status == 403
        forms.token = "0" * 64
        assert (await forms.post("/changes/plain/S/delete", typed="S")).status == 403
        await forms.open()
        body = urlencode({"form_token": forms.token, "typed": "S"})
        kind = "application/x-www-form-urlencoded"
        for headers in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {}):
            answer = await forms.console.get(
                "/changes/plain/S/delete", "POST", body, Content_Type=kind, **headers
            )
            assert answer.status == 403
        await js.stream_info("S")


async def test_streams_are_created_edited_purged_and_deleted() -> None:
    async with served(allow_changes=True) as (forms, js):
        await forms.open()
        assert "Changes" in (await forms.console.get("/messages")).text
        fields = {
            "site": "plain",
            "name": "ORDERS",
            "subjects": "orders.>",
            "max_age": "1d",
            "storage": "file",
        }
        preview = await forms.post("/changes/preview", **fields)
        assert preview.status == 200
        assert "&#34;max_age&#34;: 86400000000000" in preview.text
        assert (await forms.post("/changes/preview", site="plain", name="X", max_age="soon")).status == 422

        config = {"name": "ORDERS", "subjects": ["orders.>"]}
        made = await forms.post("/changes/create", site="plain", config=json.dumps(config))
        assert (made.status, made.headers["location"]) == (303, "/changes/plain/ORDERS?done=created")
        again = await forms.post("/changes/create", site="plain", config='{"name": "ORDERS", "max_msgs": 5}')
        assert (again.status, "stream name already in use with a different configuration" in again.text) == (
            422,
            True,
        )
        page = (await forms.console.get("/changes/plain/ORDERS?done=created")).text
        assert "The stream was created." in page

        root = "/changes/plain/ORDERS"
        update = {**config, "max_msgs": 100, "description": "<b>"}
        assert (await forms.post(f"{root}/update", config=json.dumps(update))).status == 303
        assert (await js.stream_info("ORDERS")).config.max_msgs == 100
        wrong = await forms.post(f"{root}/update", config=json.dumps({**update, "storage": "memory"}))
        assert (wrong.status, "can not change storage type" in wrong.text) == (422, True)
        assert (await forms.post(f"{root}/update", config='{"name": "OTHER"}')).status == 422
        assert (await forms.post(f"{root}/update", config='{"a": "\\ud800"}')).status == 422

        for number in range(5):
            await js.publish("orders.x", b"%d" % number)
        assert (await forms.post(f"{root}/purge", typed="orders")).status == 422
        assert (await js.stream_info("ORDERS")).state.messages == 5
        assert (await forms.post(f"{root}/purge", typed="ORDERS", keep="2")).status == 303
        assert (await js.stream_info("ORDERS")).state.messages == 2
        assert (await forms.post(f"{root}/delete", typed="")).status == 422
        assert (await forms.post(f"{root}/delete", typed="ORDERS")).headers[
            "location"
        ] == "/changes?done=deleted"
        with pytest.raises(NotFoundError):
            await js.stream_info("ORDERS")
        assert (await forms.console.get(root)).status == 404


async def test_consumers_are_created_edited_paused_and_deleted() -> None:
    async with served(allow_changes=True) as (forms, js):
        await js.add_stream(name="S", subjects=["s"])
        await forms.open()
        root = "/changes/plain/S"
        preview = await forms.post(f"{root}/preview", name="billing", ack_policy="explicit", ack_wait="1m")
        assert "&#34;ack_wait&#34;: 60000000000" in preview.text
        config = {"name": "billing", "durable_name": "billing", "ack_policy": "explicit"}
        assert (await forms.post(f"{root}/put", config=json.dumps(config), exists="no")).status == 303
        edit = (await forms.console.get(f"{root}/consumers/billing")).text
        assert "&#34;durable_name&#34;: &#34;billing&#34;" in edit
        changed = {**config, "max_deliver": 7}
        twice = await forms.post(f"{root}/put", config=json.dumps(changed), exists="no")
        assert (twice.status, "consumer already exists" in twice.text) == (422, True)
        assert (await forms.post(f"{root}/put", config=json.dumps(changed), exists="yes")).status == 303
        assert (await js.consumer_info("S", "billing")).config.max_deliver == 7

        paused = await forms.post(f"{root}/consumers/billing/pause", length="1h")
        assert paused.headers["location"] == f"{root}?done=paused"
        assert ">paused</span>" in (await forms.console.get(root)).text
        resumed = await forms.post(f"{root}/consumers/billing/pause")
        assert resumed.headers["location"] == f"{root}?done=resumed"
        assert (await forms.post(f"{root}/consumers/billing/pause", length="soon")).status == 422
        assert (await forms.post(f"{root}/consumers/billing/delete", typed="other")).status == 422
        assert (await forms.post(f"{root}/consumers/billing/delete", typed="billing")).status == 303
        with pytest.raises(NotFoundError):
            await js.consumer_info("S", "billing")
