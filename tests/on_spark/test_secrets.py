"""Credentials leave no trace: in no process list, log, plan, event log or page of Spark."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from doors import Asker
from engines import READY_WORDS, RunningEngine
from headwater.bus.connection import Connection
from headwater.bus.free_port import free_port
from headwater.control.catalog import Catalog
from headwater.replication import handover
from identities import Certificates, make_certificates, make_operator, new_key, public, write_seed
from on_spark.standalone import HOME, cluster_environment
from servers import nats_server
from sinks import KeptSink
from waits import PATIENCE_S, until

MARKER = "marker-3f9c-password"


@dataclass(frozen=True)
class Place:
    """A nats-server, the engine's credentials there, and the secrets that must not be visible."""

    name: str
    config: str
    seat: dict[str, str | bool]
    secrets: tuple[str, ...]
    leaf: str = ""


def by_password(directory: Path) -> Place:
    users = f"accounts {{ LAKE {{ users: [ {{ user: lea, password: {MARKER} }} ] }} }}"
    return Place("plain", users, {"account": "LAKE", "user": "lea", "password": MARKER}, (MARKER,))


def by_nkey(directory: Path, made: Certificates) -> Place:
    """An nkey and a client's certificate, TLS before anything else."""
    pair = new_key()
    seed = write_seed(directory / "user.nk", pair)
    block = made.config("verify: true, handshake_first: true")
    seat: dict[str, str | bool] = {"account": "LAKE", "nkey": seed, "tls_first": True, "tls_ca": made.ca}
    seat |= {"tls_cert": made.client_cert, "tls_key": made.client_key}
    users = f"accounts {{ LAKE {{ users: [ {{ nkey: {public(pair)} }} ] }} }}"
    secrets = (bytes(pair.seed).decode(), _inside(made.client_key))
    return Place("nkeys", f"{users}\n{block}", seat, secrets, block)


def by_creds(directory: Path, made: Certificates) -> Place:
    """Credentials of an operator's account, over TLS that is asked for in the greeting."""
    operator = make_operator(directory)
    block = made.config()
    lines = Path(operator.creds_file).read_text().splitlines()
    secrets = (lines[1], next(line for line in lines if line.startswith("SU")))
    seat: dict[str, str | bool] = {"account": "A", "creds": operator.creds_file, "tls_ca": made.ca}
    return Place("creds", f"{operator.config}\n{block}", seat, secrets, block)


def _inside(key: str) -> str:
    """Return a line from within a private key's file."""
    return Path(key).read_text().splitlines()[5]


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
    (application,) = json.loads(page(f"{base}/api/v1/applications"))
    inside = f"{base}/api/v1/applications/{application['id']}"
    addresses = [f"{base}/environment/", f"{base}/jobs/", f"{inside}/environment", f"{inside}/stages"]
    return "\n".join(map(page, addresses))


def page(address: str) -> str:
    """Return what is found at an address."""
    found: bytes = urllib.request.urlopen(address, timeout=PATIENCE_S).read()
    return found.decode()


async def seated(stack: AsyncExitStack, directory: Path, places: list[Place]) -> RunningEngine:
    """Run an engine with two seats at each place: streams of the one are copied by the other."""
    tables = ['log_level = "debug"\nreplicator = "submitted"\n']
    for place in places:
        server = await stack.enter_async_context(nats_server(place.config, leaf=place.leaf or True))
        scheme = "tls" if place.leaf else "nats"
        at = {"nats_url": f"{scheme}://127.0.0.1:{server.port}"}
        at |= {"leaf_url": f"{scheme}://127.0.0.1:{server.leaf_port}"}
        for domain in (f"{place.name}-lake", f"{place.name}-copy"):
            seat = {**place.seat, **at, "domain": domain, "folder": domain}
            tables.append("[[seat]]\n" + "".join(f"{key} = {json.dumps(seat[key])}\n" for key in seat))
    (directory / "engine.toml").write_text("".join(tables))
    running = RunningEngine(directory, ("--config", str(directory / "engine.toml"), "--nats", "n"))
    running.launch()
    stack.push_async_callback(running.stop)
    await until(_awaited(lambda: running.log.count(READY_WORDS) == 2 * len(places)), "all seats serve")
    return running


def _awaited(holds: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def answer() -> bool:
        return holds()

    return answer


async def copying(stack: AsyncExitStack, running: RunningEngine, place: Place) -> tuple[Asker, KeptSink]:
    """Store five messages at a place, have them copied into another domain; return that domain's client."""
    file = str(running.store / handover.NAME)
    connection = Connection(handover.connect_options(file, f"{place.name}-copy", "test"))
    await connection.connect()
    stack.push_async_callback(connection.close)
    spoken = KeptSink()
    connection.subscribe(b"$HEADWATER.>", spoken)
    lake = Asker(connection, f"$JS.{place.name}-lake.API")
    await lake.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders"]})
    for number in range(5):
        await lake.publish("orders", b"%d" % number)
    copy = Asker(connection, f"$JS.{place.name}-copy.API")
    source = {"name": "ORDERS", "external": {"api": lake.prefix}}
    made = await copy.ask("STREAM.CREATE.COPY", {"name": "COPY", "sources": [source]})
    assert "error" not in made, made
    return copy, spoken


async def test_credentials_are_used_by_every_part_and_visible_in_none(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    places = [by_password(tmp_path), by_nkey(tmp_path, made), by_creds(tmp_path, made)]
    async with AsyncExitStack() as stack:
        running = await seated(stack, tmp_path, places)
        catalog = Catalog(running.store / "catalog.db")
        store_id = catalog.store_id
        catalog.close()
        assert MARKER in (running.store / handover.NAME).read_text()
        asked = [await copying(stack, running, place) for place in places]
        port = free_port()

        async def copied() -> bool:
            infos = [await copy.ask("STREAM.INFO.COPY") for copy, _ in asked]
            return all(info["state"]["messages"] == 5 for info in infos)

        def said() -> str:
            return running.log + (tmp_path / "replicator.log").read_text(errors="replace")

        async with submitted(running, store_id, port) as replicator:
            await until(copied, "five messages are copied at each place", said, 240)
            shown = {
                "pages": await asyncio.to_thread(pages, port),
                "processes": shown_by(replicator) + shown_by(psutil.Process(running.pid)),
            }
        shown["logs"] = said()
        shown["events"] = "".join(p.read_text() for p in (tmp_path / "events").rglob("*") if p.is_file())
        for place, (_, spoken) in zip(places, asked, strict=True):
            shown[f"plans for {place.name}"] = plans = "".join(f"{frame}" for frame in spoken.frames)
            # A task gets the path of its credentials, and reads the origin through its API.
            assert handover.NAME in plans
            assert f"$JS.{place.name}-lake.API" in plans
        assert "spark.eventLog.enabled" in shown["pages"]
        assert "SparkListenerTaskEnd" in shown["events"]
        assert "--engine" in shown["processes"]
        secrets = [secret for place in places for secret in place.secrets]
        assert all(len(secret) > 15 for secret in secrets)
        assert [where for where, text in shown.items() for secret in secrets if secret in text] == []


def test_a_marker_would_be_found_in_a_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print(flush=True); input()", MARKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it runs: before that its environment cannot be read yet
        assert MARKER in shown_by(psutil.Process(process.pid))
        process.kill()
