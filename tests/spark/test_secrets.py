"""A password leaves no trace: in no list of processes, log, plan, event log or page of Spark."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from doors import Asker
from engines import READY_WORDS, RunningEngine
from headwater.bus.connection import Connection
from headwater.bus.embedded import free_port
from headwater.control.catalog import Catalog
from headwater.replication import handover
from interop.sites import eventually
from servers import nats_server
from sinks import KeptSink
from spark.standalone import HOME, cluster_environment
from waits import until

MARKER = "marker-3f9c-password"
SERVER = f"accounts {{ LAKE {{ users: [ {{ user: lea, password: {MARKER} }} ] }} }}"


@asynccontextmanager
async def submitted(running: RunningEngine, store_id: str, port: int) -> AsyncIterator[psutil.Process]:
    """Run a replicator by spark-submit, with Spark's pages and its event log."""
    events = running.directory / "events"
    events.mkdir()
    script = running.directory / "replicator.py"
    script.write_text("from headwater.cli.main import main\n\nmain()\n")
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    said = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "512m", *said]
    command += [str(script), "replicator", "--engine", f"{store_id}={running.store / handover.NAME}"]
    with (running.directory / "replicator.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=cluster_environment()
        )
    known = psutil.Process(process.pid)
    try:
        yield known
    finally:
        # Its Python ends in order, and Spark with it, which closes the event log.
        family = [known, *known.children(recursive=True)]
        drivers = [
            each for each in family if each.name().startswith("python") and str(script) in each.cmdline()
        ]
        for driver in drivers:
            driver.terminate()
        _, alive = await asyncio.to_thread(psutil.wait_procs, family, 60)
        for each in alive:
            each.kill()
        process.wait()


def shown_by(process: psutil.Process) -> str:
    """Return the arguments and the environment of a process and of all that it has started."""
    texts = []
    for each in [process, *process.children(recursive=True)]:
        try:
            texts.append(f"{each.cmdline()} {each.environ()}")
        except psutil.Error:
            continue
    return "\n".join(texts)


def pages(port: int) -> str:
    """Return what Spark's pages say of its environment and of its jobs."""
    base = f"http://127.0.0.1:{port}"
    (application,) = json.loads(urllib.request.urlopen(f"{base}/api/v1/applications", timeout=30).read())
    inside = f"{base}/api/v1/applications/{application['id']}"
    addresses = [f"{base}/environment/", f"{base}/jobs/", f"{inside}/environment", f"{inside}/stages"]
    return "\n".join(urllib.request.urlopen(each, timeout=30).read().decode() for each in addresses)


async def test_a_password_is_used_by_every_part_and_seen_in_none(tmp_path: Path) -> None:
    async with nats_server(SERVER, leaf=True) as server:
        seat = {
            "account": "LAKE",
            "domain": "lake",
            "nats_url": server.client_url,
            "leaf_url": server.leaf_url,
            "user": "lea",
            "password": MARKER,
        }
        table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in seat.items())
        (tmp_path / "engine.toml").write_text(
            f'log_level = "debug"\nreplicator = "submitted"\n[[seat]]\n{table}'
        )
        running = RunningEngine(
            tmp_path, ("--config", str(tmp_path / "engine.toml"), "--nats", server.client_url)
        )
        running.launch()
        try:
            await until(lambda: READY_WORDS in running.log)
            catalog = Catalog(running.store / "catalog.db")
            store_id = catalog.store_id
            catalog.close()
            port = free_port()
            options = handover.connect_options(str(running.store / handover.NAME), "LAKE", "test")
            assert options.password == MARKER
            connection = Connection(options)
            await connection.connect()
            spoken = KeptSink()
            connection.subscribe(b"$HEADWATER.>", spoken)
            lake = Asker(connection, "$JS.lake.API")
            await lake.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders"]})
            for number in range(5):
                await lake.publish("orders", b"%d" % number)
            source = {"name": "ORDERS", "external": {"api": "$JS.lake.API"}}
            await lake.ask("STREAM.CREATE.COPY", {"name": "COPY", "sources": [source]})

            async def copied() -> bool:
                return bool((await lake.ask("STREAM.INFO.COPY"))["state"]["messages"] == 5)

            async with submitted(running, store_id, port) as replicator:

                def said() -> str:
                    return running.log + (tmp_path / "replicator.log").read_text(errors="replace")

                await eventually(copied, "five messages are copied", said, 240)
                shown = {
                    "pages": await asyncio.to_thread(pages, port),
                    "processes": shown_by(replicator) + shown_by(psutil.Process(running.pid)),
                }
            shown["logs"] = said()
            shown["events"] = "".join(p.read_text() for p in (tmp_path / "events").rglob("*") if p.is_file())
            shown["plans"] = "".join(f"{frame}" for frame in spoken.frames)
            assert "spark.eventLog.enabled" in shown["pages"]
            assert "SparkListenerTaskEnd" in shown["events"]
            assert "--engine" in shown["processes"]
            assert handover.NAME in shown["plans"]
            assert [place for place, text in shown.items() if MARKER in text] == []
            await connection.close()
        finally:
            await running.stop()


def test_a_marker_would_be_found_in_a_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()", MARKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert MARKER in shown_by(psutil.Process(process.pid))
        process.kill()
