"""A hub with plain JetStream, engines behind it, and consoles of all, for browsers and screenshots."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from nats.js import JetStreamContext
from nats.js.api import ExternalStream, StreamConfig, StreamSource

from engines import RunningEngine, engine
from headwater.bus.free_port import free_port
from servers import nats_server
from waits import pauses

READY_ROUNDS = 1500
SCRIPT = "<script>window.hacked=1</script>"
HOSTILE_NAME = "<img_src=x_onerror=hacked=1\"'&amp;{{7-7}}"
HOSTILE_TEXT = f"\"'</pre></script>{SCRIPT}<img src=x onerror=window.hacked=1>"


@dataclass
class ConsoleStage:
    """Where the parts of the stage are."""

    hub_url: str
    monitoring_urls: dict[str, str]
    """The addresses of the engines' pages by the name of the site."""
    directory: Path
    loop: asyncio.AbstractEventLoop
    """The loop that runs the servers, in a thread of its own."""
    engines: dict[str, RunningEngine] = field(default_factory=dict)
    consoles: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of work on the loop of the servers."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def console(self, *options: str, port: int = 0) -> str:
        """Start a console, and return its address once it answers."""
        port = port or free_port()
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("HEADWATER_", "NATS_"))
        }
        command = [sys.executable, "-m", "headwater", "console", "hub", *self.engines, "--port", str(port)]
        for name, url in self.monitoring_urls.items():
            command += ["--monitoring", f"{name}={url}"]
        command += ["--interval", "0.5", *options]
        process = subprocess.Popen(
            command,
            env={**clean, "XDG_CONFIG_HOME": str(self.directory)},
            stderr=(self.directory / "console.log").open("ab"),
            stdin=subprocess.DEVNULL,
        )
        self.consoles.append(process)
        address = f"http://127.0.0.1:{port}"
        # Not with asyncio: the browser's driver has a loop that runs in this thread.
        for _, pause_s in zip(range(READY_ROUNDS), pauses(), strict=False):
            if answers(address):
                return address
            assert process.poll() is None, (self.directory / "console.log").read_text()
            time.sleep(pause_s)
        raise AssertionError(f"{address} does not answer")

    def stop(self) -> None:
        """End the consoles."""
        for process in self.consoles:
            process.terminate()
        for process in self.consoles:
            process.wait(30)


def answers(address: str) -> bool:
    """Return whether something answers at an address."""
    try:
        with urllib.request.urlopen(f"{address}/static/console.css", timeout=10):
            return True
    except OSError:
        return False


async def declare(hub: JetStreamContext, lake: JetStreamContext) -> None:
    """Create the streams: copies on both sides, one that is stuck, and hostile names."""
    for name in ("ORDERS", "PAYMENTS", "SENSORS"):
        await hub.add_stream(name=name, subjects=[f"{name}.>"], max_msgs=5000)
    await hub.add_stream(name="HISTORY", sources=[StreamSource("ORDERS"), StreamSource("PAYMENTS")])
    await hub.add_stream(name="BACKUP", mirror=StreamSource("HISTORY"))
    await hub.add_consumer("ORDERS", durable_name="billing")
    await hub.add_consumer("ORDERS", durable_name="shipping")
    remote = ExternalStream(api="$JS.hub.API")
    await lake.add_stream(
        name="ARCHIVE",
        sources=[StreamSource("ORDERS", external=remote), StreamSource("PAYMENTS", external=remote)],
    )
    await lake.add_stream(name="REPORT", mirror=StreamSource("ARCHIVE"))
    await lake.add_stream(name="STUCK", sources=[StreamSource("MISSING", external=remote)])
    await lake.add_stream(name="CLICKS", subjects=["CLICKS.>"], max_bytes=1_000_000)
    await lake.add_consumer("CLICKS", durable_name="dashboard")


async def declare_hostile(lake: JetStreamContext) -> None:
    """Create a stream and a consumer whose names and texts try to be scripts, with such messages."""
    config = StreamConfig(name=HOSTILE_NAME, subjects=["hostile.>"], description=HOSTILE_TEXT)
    await lake.add_stream(config)
    await lake.add_consumer(HOSTILE_NAME, durable_name="<svg_onload=hacked=1", description=HOSTILE_TEXT)
    await lake.publish(
        "hostile.<img_src=x_onerror=hacked=1", HOSTILE_TEXT.encode(), headers={"X-Hostile": HOSTILE_TEXT}
    )


async def publish(hub: JetStreamContext, lake: JetStreamContext, count: int) -> None:
    """Publish to every stream that has subjects."""
    for number in range(count):
        await hub.publish(f"ORDERS.{number % 7}", b'{"item": "popcorn", "price": 4.5}')
        await hub.publish(f"PAYMENTS.{number % 3}", b'{"paid": true}')
        await lake.publish(f"CLICKS.{number % 5}", b"x" * 200)


@contextmanager
def console_stage(
    directory: Path,
    *options: str,
    others: Sequence[str] = (),
    hostile: bool = True,
    keep_publishing: bool = False,
) -> Iterator[ConsoleStage]:
    """Run the stage; `options` are the engine's. Without Spark nothing is copied into an engine.

    `others` are the names of more engines behind the hub, without Spark.
    """
    ready: asyncio.Future[Any] | None = None
    started = threading.Event()
    found: list[ConsoleStage | BaseException] = []
    loop = asyncio.new_event_loop()

    async def run() -> None:
        nonlocal ready
        ready = loop.create_future()
        async with AsyncExitStack() as stack:
            hub = await stack.enter_async_context(nats_server(jetstream="hub", leaf=True))
            pages = {name: free_port() for name in ("lake", *others)}
            engines: dict[str, RunningEngine] = {}
            for name, http in pages.items():
                attach = ("--nats", hub.client_url, "--leaf", hub.leaf_url, "--domain", name)
                own = options if name == "lake" else ("--replicator", "submitted")
                engines[name] = await stack.enter_async_context(
                    engine(directory / name, *attach, "--http-port", str(http), *own)
                )
            client = await nats.connect(hub.client_url)
            stack.push_async_callback(client.close)
            at_hub, at_lake = client.jetstream(timeout=60), client.jetstream(domain="lake", timeout=60)
            await declare(at_hub, at_lake)
            if hostile:
                await declare_hostile(at_lake)
            await publish(at_hub, at_lake, 30)
            _save_contexts(directory, hub.client_url, ["hub", *engines])
            urls = {name: f"http://127.0.0.1:{http}" for name, http in pages.items()}
            found.append(ConsoleStage(hub.client_url, urls, directory, loop, engines))
            started.set()
            while keep_publishing and not ready.done():
                await publish(at_hub, at_lake, 20)
                await asyncio.sleep(0.3)
            await ready

    def serve() -> None:
        try:
            loop.run_until_complete(run())
        except BaseException as error:
            found.append(error)
            started.set()

    thread = threading.Thread(target=serve, name="console stage")
    thread.start()
    started.wait()
    stage = found[0]
    if isinstance(stage, BaseException):
        thread.join()
        raise stage
    try:
        yield stage
    finally:
        stage.stop()
        assert ready is not None
        loop.call_soon_threadsafe(ready.set_result, None)
        thread.join()
        loop.close()


def _save_contexts(directory: Path, url: str, names: Sequence[str]) -> None:
    folder = directory / "nats" / "context"
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.json").write_text(f'{{"url": "{url}", "jetstream_domain": "{name}"}}')
