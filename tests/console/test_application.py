"""The console over HTTP: pages, JSON, live updates, login, and requests that it refuses."""

from __future__ import annotations

import json

import nats

from consoles import open_console
from headwater.client.connection_settings import ConnectionSettings
from headwater.console.access import COOKIE
from headwater.console.watched_site import WatchedSite
from servers import nats_server
from waits import until

NOWHERE = WatchedSite("nowhere", ConnectionSettings(server="nats://127.0.0.1:1"))


async def test_a_page_shows_a_plain_nats_server_and_follows_it() -> None:
    async with nats_server(jetstream=True) as server:
        site = WatchedSite("plain", ConnectionSettings(server=server.client_url))
        client = await nats.connect(server.client_url)
        await client.jetstream().add_stream(name="ORDERS", subjects=["ORDERS.>"])
        async with open_console([site, NOWHERE]) as console:
            page = await console.get("/streams")
            assert (page.status, "/static/streams.js" in page.text) == (200, True)

            async def rows() -> dict[str, dict[str, object]]:
                found: dict[str, dict[str, object]] = json.loads((await console.get("/api/streams")).text)[
                    "rows"
                ]
                return found

            await until(rows)
            first = json.loads((await console.events("/live/streams", 1))[0])
            assert first["rows"]["plain/ORDERS"]["messages"] == 0
            assert "connection refused" in first["sites"]["nowhere"]["error"]
            await client.publish("ORDERS.new", b"1")
            await client.flush()

            async def has_arrived() -> bool:
                return (await rows())["plain/ORDERS"]["messages"] == 1

            await until(has_arrived)
        await client.close()


async def test_every_answer_has_strict_headers_and_unknown_pages_say_so() -> None:
    async with open_console([NOWHERE]) as console:
        missing = await console.get("/no/such/page")
        assert (missing.status, "Not Found" in missing.text) == (404, True)
        for path in ("/streams", "/no/such/page", "/static/console.css", "/api/streams"):
            answer = await console.get(path)
            policy = answer.headers["content-security-policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert (await console.get("/static/../application.py")).status == 404


async def test_other_names_and_other_sites_are_refused() -> None:
    async with open_console([NOWHERE], host_names=("console.example",)) as console:
        assert (await console.get("/streams", Host="evil.example")).status == 421
        assert (await console.get("/streams", Host="console.example")).status == 200
        assert (await console.get("/streams", Origin="http://evil.example")).status == 403
        assert (await console.get("/api/streams", Sec_Fetch_Site="cross-site")).status == 403
        assert (await console.get("/login", "POST", "token=x")).status == 403


async def test_without_the_token_there_is_only_the_login() -> None:
    async with open_console([NOWHERE], token="secret") as console:
        assert (await console.get("/streams")).headers["location"] == "/login"
        assert (await console.get("/api/streams")).status == 401
        assert (await console.get("/static/console.css")).status == 200
        form = {"Content_Type": "application/x-www-form-urlencoded", "Sec_Fetch_Site": "same-origin"}
        wrong = await console.get("/login", "POST", "token=guess", **form)
        assert (wrong.status, "set-cookie" in wrong.headers) == (403, False)
        right = await console.get("/login", "POST", "token=secret", **form)
        cookie = right.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        session = cookie.partition(";")[0]
        assert session.startswith(f"{COOKIE}=")
        assert (await console.get("/streams", Cookie=session)).status == 200
        assert (await console.get("/api/streams", Authorization="Bearer secret")).status == 200
        assert (await console.get("/api/streams", Authorization="Bearer other")).status == 401
        await console.get("/logout", "POST", "", Cookie=session, Sec_Fetch_Site="same-origin")
        assert (await console.get("/streams", Cookie=session)).status == 303
