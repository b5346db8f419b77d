"""Messages over HTTP: browsed, shown, searched and downloaded, whatever is in them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import StreamSource

from consoles import OpenConsole, open_console
from headwater.client.connection_settings import ConnectionSettings
from headwater.console import messages_pages
from headwater.console.watched_site import WatchedSite
from headwater.model.message import Message
from servers import nats_server
from waits import until

EVIL = "<script>document.title='run'</script>"


@asynccontextmanager
async def served() -> AsyncIterator[tuple[OpenConsole, JetStreamContext]]:
    """Run a nats-server and a console that watches it under the name plain."""
    async with nats_server(jetstream=True) as server:
        client = await nats.connect(server.client_url)
        site = WatchedSite("plain", ConnectionSettings(server=server.client_url, timeout=60))
        async with open_console([site]) as console:
            yield console, client.jetstream(timeout=60)
        await client.close()


async def test_messages_are_browsed_shown_searched_and_downloaded() -> None:
    async with served() as (console, js):
        await js.add_stream(name="ORDERS", subjects=["orders.>"])
        for number in range(1, 61):
            body = json.dumps({"id": number, "tags": ["a", {"deep": EVIL}]}).encode()
            await js.publish(f"orders.{number % 2}", body, headers={"kind": EVIL})
        await js.publish("orders.bin", b"\xff\x00\xfe")
        root = "/messages/plain/ORDERS"

        newest = (await console.get(root)).text
        assert f'href="{root}/61"' in newest
        assert f'href="{root}/36"' not in newest
        assert EVIL not in newest
        page = (await console.get(f"{root}?seq=5&count=3")).text
        assert [f'href="{root}/{seq}"' in page for seq in (4, 5, 7, 8)] == [False, True, True, False]
        assert "seq=8" in page
        filtered = (await console.get(f"{root}?seq=1&count=2&subject=orders.0")).text
        assert [f'href="{root}/{seq}"' in filtered for seq in (1, 2, 3, 4)] == [False, True, False, True]
        last = (await console.get(f"{root}?count=2&subject=orders.0")).text
        assert [f'href="{root}/{seq}"' in last for seq in (56, 58, 60)] == [False, True, True]
        assert "before=58" in last
        older = (await console.get(f"{root}?before=58&count=2&subject=orders.0")).text
        assert [f'href="{root}/{seq}"' in older for seq in (52, 54, 56, 58)] == [False, True, True, False]
        assert "seq=58" in older
        assert f'href="{root}/1"' in (await console.get(f"{root}?since=1h")).text
        assert "not a time" in (await console.get(f"{root}?time=soon")).text
        assert "must be a number" in (await console.get(f"{root}?seq=-1")).text
        assert "No message" in (await console.get(f"{root}?seq=1000")).text

        one = (await console.get(f"{root}/7")).text
        assert 'id="json"' in one
        assert "&lt;script&gt;" in one
        assert EVIL not in one
        binary = (await console.get(f"{root}/61")).text
        assert "00000000  ff 00 fe" in binary
        assert 'id="text"' not in binary
        assert (await console.get(f"{root}/62")).status == 404
        assert (await console.get(f"{root}/{10**30}")).status == 404

        expression = quote("json.id > 58 and 'script' in text")
        found = (await console.get(f"{root}/search?expression={expression}")).text
        assert "2 found in 61 messages" in found
        assert "The expression could not be evaluated for 1 of them" in found
        assert "has the unknown name" in (await console.get(f"{root}/search?expression=x==1")).text

        raw = await console.get(f"{root}/5/payload")
        assert json.loads(raw.text)["id"] == 5
        assert raw.headers["content-type"] == "application/octet-stream"
        assert raw.headers["content-disposition"].startswith("attachment")
        lines = (await console.get(f"{root}/download?seq=60&count=5")).text.splitlines()
        assert [json.loads(line)["seq"] for line in lines] == [60, 61]
        assert json.loads(lines[0])["headers"] == [["kind", EVIL]]
        assert json.loads(lines[1])["data_base64"] == "/wD+"
        assert "stream not found" in (await console.get("/messages/plain/NONE")).text
        assert (await console.get("/messages/plain/NONE/download")).status == 404
        assert (await console.get("/messages/nowhere/ORDERS")).status == 404
        chosen = await console.get("/messages?site=plain&stream=A%2FB")
        assert (chosen.status, chosen.headers["location"]) == (303, "/messages/plain/A%2FB")
        assert "<h1>Messages</h1>" in (await console.get("/messages")).text


async def test_a_copied_message_names_its_origin() -> None:
    async with served() as (console, js):
        await js.add_stream(name="ORIGIN", subjects=["origin.>"])
        await js.publish("origin.x", b"1")
        await js.add_stream(name="COPY", sources=[StreamSource(name="ORIGIN")])

        async def links_to_its_origin() -> bool:
            page = (await console.get("/messages/plain/COPY/1")).text
            return 'href="/messages/plain/ORIGIN/1">ORIGIN #1</a>' in page

        await until(links_to_its_origin)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (Message(1, 0, b"a", b"", b"x"), {"data": "x"}),
        (Message(1, 0, b"a", b"", b"\xff"), {"data_base64": "/w=="}),
        (
            Message(1, 0, b"a", b"NATS/1.0\r\nb: c\r\nb: d\r\n\r\n", b""),
            {"headers": [["b", "c"], ["b", "d"]], "data": ""},
        ),
    ],
)
def test_a_line_of_a_download_holds_everything(message: Message, shown: dict[str, object]) -> None:
    expected = {"seq": 1, "time": "1970-01-01T00:00:00Z", "subject": "a", **shown}
    assert messages_pages.json_of(message) == expected
