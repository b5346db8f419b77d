"""Passwords, nkeys, creds and TLS on every connection: the engine's two, the replicator's and its tasks'."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from doors import Asker
from engines import RunningEngine
from headwater.bus.connection import Connection
from headwater.replication import handover
from identities import make_certificates, make_operator, new_key, public, write_seed
from interop.copying import replicating
from servers import nats_server
from waits import until

PASSWORD = "marker-of-22-characters!"
HASHED = "$2a$04$abcdefghijklmnopqrstuuXLs5v.UfNyq9YybJvQfXYFiUYQggqQy"
"""That password as nats-server keeps it, at the lowest cost: it ends a login that takes two seconds."""


@dataclass(frozen=True)
class Proof:
    """How a server authenticates its users, and the engine's settings for it."""

    config: str
    options: dict[str, str]
    leaf: str = ""


def by_password(directory: Path) -> Proof:
    (directory / "password").write_text(f"{PASSWORD}\n")
    users = f'accounts {{ LAKE {{ users: [ {{ user: lea, password: "{HASHED}" }} ] }} }}'
    return Proof(
        users, {"--user": "lea", "--password-file": str(directory / "password"), "--account": "LAKE"}
    )


def by_nkey(directory: Path) -> Proof:
    pair = new_key()
    seed = write_seed(directory / "seed", pair)
    return Proof(f"accounts {{ LAKE {{ users: [ {{ nkey: {public(pair)} }} ] }} }}", {"--nkey": seed})


def by_creds(directory: Path) -> Proof:
    operator = make_operator(directory)
    return Proof(operator.config, {"--creds": operator.creds_file})


def by_certificate(directory: Path, extra: str = "") -> Proof:
    made = make_certificates(directory)
    block = made.config(f"verify: true, {extra}")
    shown = {"--tls-ca": made.ca, "--tls-cert": made.client_cert, "--tls-key": made.client_key}
    return Proof(block, shown, block)


def by_certificate_first(directory: Path) -> Proof:
    proof = by_certificate(directory, "handshake_first: true")
    return Proof(proof.config, {**proof.options, "--tls-first": "true"}, proof.leaf)


@asynccontextmanager
async def copied(directory: Path, proof: Proof) -> AsyncIterator[tuple[RunningEngine, Asker]]:
    """Run an engine that shows this proof, and a replicator that copies what it plans."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(proof.config, leaf=proof.leaf or True))
        options = ["--nats", server.client_url, "--leaf", server.leaf_url, "--domain", "lake"]
        options += ["--replicator", "submitted", *(word for each in proof.options.items() for word in each)]
        running = RunningEngine(directory, tuple(options))
        stack.push_async_callback(running.stop)
        await running.start()
        folder = proof.options.get("--account", "$G")
        await stack.enter_async_context(replicating(running, folder))
        connection = Connection(handover.connect_options(str(running.store / handover.NAME), folder, "test"))
        await connection.connect()
        stack.push_async_callback(connection.close)
        yield running, Asker(connection, "$JS.lake.API")


@pytest.mark.parametrize(
    "prove",
    [by_password, by_nkey, by_creds, by_certificate, by_certificate_first],
    ids=["bcrypt password", "nkey", "creds", "TLS certificate", "TLS first"],
)
async def test_a_stream_is_served_delivered_and_copied_with_valid_credentials(
    tmp_path: Path, prove: Any
) -> None:
    async with copied(tmp_path, prove(tmp_path)) as (running, lake):
        await lake.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders"]})
        for number in range(5):
            await lake.publish("orders", b"%d" % number)
        source = {"name": "ORDERS", "external": {"api": "$JS.lake.API"}}
        await lake.ask("STREAM.CREATE.COPY", {"name": "COPY", "sources": [source]})

        async def there() -> bool:
            return bool((await lake.ask("STREAM.INFO.COPY"))["state"]["messages"] == 5)

        await until(there, "five messages are copied", lambda: running.log)
        await lake.ask("CONSUMER.CREATE.COPY.C", {"stream_name": "COPY", "config": {"durable_name": "C"}})
        delivered = await lake.many("CONSUMER.MSG.NEXT.COPY.C", {"batch": 9, "no_wait": True})
        assert [frame[3] for frame in delivered[:5]] == [b"%d" % number for number in range(5)]
        assert PASSWORD not in running.log


async def test_expired_creds_are_reported_in_one_sentence_at_the_start(tmp_path: Path) -> None:
    operator = make_operator(tmp_path)
    async with nats_server(operator.config, leaf=True) as server:
        options = ("--nats", server.client_url, "--leaf", server.leaf_url, "--domain", "lake")
        running = RunningEngine(tmp_path, (*options, "--creds", operator.expired_file))
        running.launch()
        assert await running.ended() == 1
        (sentence,) = [line for line in running.log.splitlines() if line.startswith("headwater: ")]
        assert "refused the connection" in sentence
        assert "the JWT must not be expired" in running.log
        assert "Traceback" not in running.log


async def test_creds_that_expire_while_the_engine_runs_are_reported_and_replaced(
    tmp_path: Path,
) -> None:
    operator = make_operator(tmp_path)
    used = Path(operator.creds_file)
    good = used.read_text()
    async with nats_server(operator.config, leaf=True) as server:
        options = ("--nats", server.client_url, "--leaf", server.leaf_url, "--domain", "lake")
        running = RunningEngine(tmp_path, (*options, "--creds", str(used)))
        await running.start()
        try:
            used.write_text(Path(operator.expired_file).read_text())
            await server.restart()
            await until(lambda: "cannot reconnect yet: " in running.log)
            used.write_text(good)
            connection = Connection(
                handover.connect_options(str(running.store / handover.NAME), "$G", "test")
            )
            await connection.connect()
            lake = Asker(connection, "$JS.lake.API")

            async def answers() -> bool:
                try:
                    return bool(json.loads((await lake.raw("$JS.lake.API.INFO"))[3])["streams"] == 0)
                except Exception:
                    return False

            await until(answers, "the engine is back", lambda: running.log)
            await connection.close()
        finally:
            await running.stop()
