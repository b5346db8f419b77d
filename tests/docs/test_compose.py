"""The files for containers: nats-servers load the configuration, and engines know their flags."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
import yaml
from nats.aio.msg import Msg

from headwater.bus.embedded import find_server
from headwater.bus.free_port import free_port
from headwater.bus.options import ConnectOptions
from headwater.journal.jetstream_journal import JetStreamPlace
from headwater.loaded_settings import load
from headwater.settings import Settings, flag_of, rows
from journals import jetstream_journal
from waits import until

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "compose"
SERVERS = ("n1", "n2", "n3")
PATIENCE_S = 60


def compose() -> dict[str, Any]:
    """Return the compose file with its anchors resolved."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / "three-copies.yaml").read_text())
    return found


def environment(name: str) -> dict[str, str]:
    """Return the environment of a service, added to that of this process."""
    return {**os.environ, **compose()["services"][name]["environment"]}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Run the three servers on loopback, and yield the ports of their clients."""
    directory = tmp_path_factory.mktemp("compose")
    clients, routes = ({name: free_port() for name in SERVERS} for _ in range(2))
    with ExitStack() as stack:
        for name in SERVERS:
            text = (FOLDER / "nats.conf").read_text()
            for there, here in (
                ("0.0.0.0:4222", f"127.0.0.1:{clients[name]}"),
                ("127.0.0.1:8222", f"127.0.0.1:{free_port()}"),
                ("0.0.0.0:6222", f"127.0.0.1:{routes[name]}"),
                ("0.0.0.0:7422", f"127.0.0.1:{free_port()}"),
                *((f"{other}:6222", f"127.0.0.1:{routes[other]}") for other in SERVERS),
                ('"/data"', f'"{directory / name}"'),
            ):
                assert there in text
                text = text.replace(there, here)
            (directory / f"{name}.conf").write_text(text)
            command = [find_server(), "-c", str(directory / f"{name}.conf")]
            with (directory / f"{name}.log").open("wb") as log:
                process = subprocess.Popen(command, env=environment(name), stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield clients


@pytest.mark.parametrize("name", SERVERS)
def test_nats_server_accepts_the_configuration_as_it_is(name: str) -> None:
    command = [find_server(), "-t", "-c", str(FOLDER / "nats.conf")]
    ran = subprocess.run(command, env=environment(name), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "is valid" in ran.stderr + ran.stdout


def test_the_services_are_whole(tmp_path: Path) -> None:
    said = compose()
    services = said["services"]
    assert set(services) == {*SERVERS, "bucket", "make-bucket", "engine-1", "engine-2"}
    assert [services[name]["environment"]["NATS_NAME"] for name in SERVERS] == list(SERVERS)
    assert {volume.split(":")[0] for name in SERVERS for volume in services[name]["volumes"]} == {
        *SERVERS,
        "./nats.conf",
    }
    assert set(said["volumes"]) == {*SERVERS, "bucket"}
    for engine in ("engine-1", "engine-2"):
        assert "volumes" not in services[engine], "an engine keeps nothing of its own"
        assert set(services[engine]["depends_on"]) <= set(services)
    login = json.loads((FOLDER / "s3.json").read_text())["identities"][0]["credentials"][0]
    bucket = services["engine-1"]["environment"]
    assert login == {"accessKey": bucket["AWS_ACCESS_KEY_ID"], "secretKey": bucket["AWS_SECRET_ACCESS_KEY"]}
    dockerfile = said["x-engine"]["build"]["dockerfile"]
    assert (FOLDER.parent.parent / dockerfile).exists()


def engine_settings() -> Settings:
    """Return the settings with which an engine is started in its container."""
    service = compose()["services"]["engine-1"]
    command, *flags = service["command"]
    assert command == "serve"
    by_flag = {flag_of(row): row.name for row in rows()}
    values = {}
    for flag in flags:
        name, _, value = flag.partition("=")
        values[by_flag[name]] = value or "true"
    return load(flags=values, environ=service["environment"]).settings


def test_the_engines_know_their_flags_and_find_what_the_other_services_are() -> None:
    settings = engine_settings()
    hosts = {name: compose()["services"][name] for name in SERVERS}
    assert settings.standby
    assert (settings.domain, settings.account, settings.user) == ("lake", "CLIENTS", "engine")
    assert settings.password == hosts["n1"]["environment"]["ENGINE_PASSWORD"]
    assert settings.tables == "s3://lake/prod"
    assert settings.nats_url == ",".join(f"nats://{name}:4222" for name in hosts)
    assert settings.leaf_url == ",".join(f"nats://{name}:7422" for name in hosts)


async def test_the_servers_keep_a_journal_and_leave_the_api_of_clients_to_the_engine(
    servers: dict[str, int],
) -> None:
    journal_url = engine_settings().journal or ""
    login = journal_url.removeprefix("nats://").partition("@")[0]
    urls = tuple(f"nats://{login}@127.0.0.1:{port}" for port in servers.values())
    journal = await asyncio.to_thread(jetstream_journal, JetStreamPlace(ConnectOptions(servers=urls), "LAKE"))
    try:
        assert journal.copies == 3, "and each server syncs each record, or it would be refused"
    finally:
        await asyncio.to_thread(journal.close)
    passwords = compose()["x-passwords"]
    addresses = [f"nats://127.0.0.1:{port}" for port in servers.values()]
    engine = await nats.connect(addresses[:1], user="engine", password=passwords["ENGINE_PASSWORD"])
    app = await nats.connect(addresses[1:2], user="app", password=passwords["APP_PASSWORD"])

    async def answer(message: Msg) -> None:
        await message.respond(message.subject.encode())

    await engine.subscribe("$JS.lake.API.>", cb=answer)
    await engine.flush()

    async def is_answered() -> bool:
        try:
            found = await app.request("$JS.API.STREAM.NAMES", timeout=2)
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
            return False
        assert found.data == b"$JS.lake.API.STREAM.NAMES", "the engine alone answers"
        return True

    await until(is_answered, "the engine is asked")
    await engine.close()
    await app.close()
