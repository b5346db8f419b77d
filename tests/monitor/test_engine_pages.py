"""Tests of monitor.engine_pages: the pages themselves, and those of engines that run."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import nats

from engines import READY_WORDS, RunningEngine, engine
from headwater.bus.free_port import free_port
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.settings import Settings
from monitor.families import parsed
from waits import until


async def read(url: str) -> tuple[int, bytes]:
    """Return the status and body of a page."""

    def ask() -> tuple[int, bytes]:
        try:
            with urlopen(url, timeout=60) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()

    return await asyncio.to_thread(ask)


def where(running: RunningEngine) -> str:
    return str(re.findall(r"monitoring on (http://\S+)", running.log)[-1])


async def test_readiness_names_what_is_missing_and_liveness_does_not_wait_for_it(tmp_path: Path) -> None:
    pages = EngineMonitor(Settings(), tmp_path).pages.by_path
    assert (await pages["/healthz"]({}))[0] == 200
    status, kind, body = await pages["/readyz"]({})
    assert (status, kind) == (503, "application/json")
    assert json.loads(body)["checks"]["engine"] == "0 of 1 accounts are served"
    assert (await pages["/readyz"]({"standby": "ok"}))[0] == 503, "a starting engine is no standby"
    index = (await pages["/"]({}))[2].decode()
    assert all(f'href="{path}"' in index for path in ("/healthz", "/readyz", "/metrics", "/history"))


async def test_the_last_warnings_are_served_while_the_engine_runs(tmp_path: Path) -> None:
    monitor = EngineMonitor(Settings(), tmp_path)
    log = logging.getLogger("headwater.probe")
    async with monitor.running():
        log.warning("the origin nats://me:secret@host refused")
    log.warning("after the end")
    body = json.loads((await monitor.pages.by_path["/warnings"]({}))[2])
    assert [each["message"] for each in body["warnings"]] == ["the origin nats://…@host refused"]
    assert body["dropped"] == 0


async def test_the_end_of_the_log_is_served_from_a_level_on(tmp_path: Path) -> None:
    monitor = EngineMonitor(Settings(), tmp_path)
    log = logging.getLogger("headwater.probe")
    log.setLevel(logging.DEBUG)
    try:
        async with monitor.running():
            log.debug("asked")
            log.info("folded", extra={"stream": "ORDERS"})
            log.warning("slow")
    finally:
        log.setLevel(logging.NOTSET)

    async def messages(**query: str) -> list[str]:
        lines = json.loads((await monitor.pages.by_path["/log"](query))[2])["lines"]
        return [each["message"] for each in lines if each["logger"] == "headwater.probe"]

    assert await messages() == ["slow", "folded stream=ORDERS", "asked"]
    assert await messages(level="info") == ["slow", "folded stream=ORDERS"]
    assert await messages(level="warning", limit="5") == ["slow"]
    assert (await monitor.pages.by_path["/log"]({"level": "loud"}))[0] == 400


async def test_a_running_engine_counts_what_is_published_and_a_standby_says_that_it_waits(
    tmp_path: Path,
) -> None:
    options = ("--standby", "--http-port", "0")
    async with engine(tmp_path / "first", *options) as first:
        client = await nats.connect(first.client_url)
        js = client.jetstream(timeout=60)
        await js.add_stream(name="ORDERS", subjects=["orders.>"])
        for number in range(3):
            await js.publish("orders.eu", b"%d" % number)
        await client.close()
        assert (await read(f"{where(first)}/readyz"))[0] == 200
        found = parsed((await read(f"{where(first)}/metrics"))[1])
        (orders,) = found["jetstream_stream_total_messages"]
        assert (orders[0]["stream_name"], orders[1]) == ("ORDERS", 3.0)
        assert found["headwater_stored_messages_total"] == [({}, 3.0)]
        assert found["headwater_ack_latency_seconds_count"] == [({}, 3.0)]
        status, body = await read(f"{where(first)}/history")
        assert (status, len(json.loads(body)["rows"]) >= 1) == (200, True)
        assert json.loads((await read(f"{where(first)}/warnings"))[1])["dropped"] == 0
        lines = json.loads((await read(f"{where(first)}/log?level=info"))[1])["lines"]
        assert any("monitoring on" in each["message"] for each in lines)
        assert json.loads((await read(f"{where(first)}/table?stream=ORDERS"))[1])["last_seq"] == 3
        assert json.loads((await read(f"{where(first)}/replicator"))[1])["jobs"] == []

        second = RunningEngine(tmp_path / "second", (*options, "--port", str(free_port())), first.store)
        second.directory.mkdir()
        second.launch()
        try:
            await second.says("headwater waits")
            page = f"{where(second)}/readyz"
            status, body = await read(page)
            assert (status, json.loads(body)["phase"]) == (503, "standby")
            assert (await read(page + "?standby=ok"))[0] == 200
            assert (await read(f"{where(second)}/healthz"))[0] == 200
            await first.kill()
            await second.says(READY_WORDS)

            async def is_ready() -> bool:
                return (await read(page))[0] == 200

            await until(is_ready)
        finally:
            await second.stop()
