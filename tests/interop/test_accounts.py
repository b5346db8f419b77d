"""Streams of another account, copied through exports and imports, compared with nats-server's sourcing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import RetentionPolicy, StreamConfig

from engines import READY_WORDS, RunningEngine
from headwater.replication.exports import needed, needed_for_queue
from interop.copying import replicating
from servers import RunningServer, nats_server
from waits import until

PATIENCE_S = 60.0
DELIVER = "deliver.acme"
API = "$JS.acme.API"
THREE = 3
"""How many of the exports nats-server's own sources need."""

Json = Any


def config(exports: list[str]) -> str:
    """Return two accounts, of which the second imports all that the first exports."""
    imports = [_import(each) for each in exports]
    return f"""
accounts {{
  ACME {{ jetstream: enabled, users: [ {{ user: ann, password: ann-secret }} ]
         exports: [ {", ".join(exports)} ] }}
  LAKE {{ jetstream: enabled, users: [ {{ user: lea, password: lea-secret }} ]
         imports: [ {", ".join(imports)} ] }}
  SYS {{ users: [ {{ user: sys, password: sys-secret }} ] }}
}}
system_account: SYS
"""


def _import(export: str) -> str:
    """Return the import of an export."""
    subject = export.split('"')[1]
    if "stream:" in export.split('"')[0]:
        return f'{{ stream: {{ account: ACME, subject: "{subject}" }} }}'
    service = f'{{ service: {{ account: ACME, subject: "{subject}" }}'
    if not subject.startswith("$JS.API."):
        return service + " }"
    return f'{service}, to: "{subject.replace("$JS.API", API)}" }}'


class Accounts:
    """A nats-server with JetStream in both accounts, and an engine that serves the domain `lake` to LAKE."""

    def __init__(self, server: RunningServer, running: RunningEngine, ann: Client, lea: Client) -> None:
        self.server = server
        self.engine = running
        self.ann = ann
        self.lea = lea

    async def fill(self, count: int, size: int = 10) -> None:
        """Store messages in ACME's stream."""
        for number in range(count):
            await self.ann.jetstream(timeout=60).publish(
                f"orders.{number % 3}", b"%d " % number + b"x" * size
            )

    async def ask(self, prefix: str, subject: str, body: Json = None) -> Json:
        """Return what LAKE is answered."""
        data = b"" if body is None else json.dumps(body).encode()
        answer = json.loads((await self.lea.request(f"{prefix}.{subject}", data, timeout=PATIENCE_S)).data)
        assert "error" not in answer, answer
        return answer

    async def source(self, prefix: str, name: str) -> None:
        """Make a stream of LAKE, on the engine or on nats-server, with ACME's as its source."""
        external = {"api": API, "deliver": f"{DELIVER}.{name}"}
        await self.ask(
            prefix,
            f"STREAM.CREATE.{name}",
            {"name": name, "sources": [{"name": "ORDERS", "external": external}]},
        )

    async def queue(self, name: str) -> None:
        """Make a stream of LAKE on the engine, with ACME's as its source; deliveries answer pulls."""
        source = {"name": "ORDERS", "external": {"api": API}}
        await self.ask("$JS.lake.API", f"STREAM.CREATE.{name}", {"name": name, "sources": [source]})

    async def has_consumer(self) -> None:
        """Return once the origin keeps messages for the engine."""

        async def there() -> bool:
            return (await self.ann.jetstream().stream_info("ORDERS")).state.consumer_count == 1

        await until(there, "a consumer at the origin", lambda: self.engine.log)

    async def emptied(self) -> None:
        """Return once the origin has released all its messages."""

        async def there() -> bool:
            return (await self.ann.jetstream().stream_info("ORDERS")).state.messages == 0

        await until(there, "the origin is empty", lambda: self.engine.log)

    async def messages(self, prefix: str, name: str, count: int) -> list[tuple[str, str]]:
        """Return subject and data of each message once there are so many."""

        async def there() -> bool:
            info = await self.ask(prefix, f"STREAM.INFO.{name}")
            return bool(info["state"]["messages"] >= count)

        await until(there, f"{name} holds {count}", lambda: self.engine.log)
        asked = [{"seq": seq} for seq in range(1, count + 1)]
        found = [(await self.ask(prefix, f"STREAM.MSG.GET.{name}", each))["message"] for each in asked]
        return [(message["subject"], message.get("data", "")) for message in found]

    async def error(self, name: str) -> str:
        """Return what the engine shows as its source's error, once there is one."""
        said = ""

        async def shown() -> bool:
            nonlocal said
            info = await self.ask("$JS.lake.API", f"STREAM.INFO.{name}")
            said = info["sources"][0].get("error", {}).get("description", "")
            return bool(said)

        await until(shown, "an error is shown", lambda: self.engine.log)
        return said


@asynccontextmanager
async def accounts(directory: Path, exports: list[str], retention: str = "limits") -> AsyncIterator[Accounts]:
    """Run both accounts with these exports, and a replicator in this process."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(config(exports), jetstream="hub", leaf=True))
        seat = {
            "account": "LAKE",
            "domain": "lake",
            "nats_url": server.client_url,
            "leaf_url": server.leaf_url,
            "user": "lea",
            "password": "lea-secret",
        }
        toml = "".join(f"{key} = {json.dumps(value)}\n" for key, value in seat.items())
        (directory / "engine.toml").write_text(f'replicator = "submitted"\n[[seat]]\n{toml}')
        running = RunningEngine(
            directory, ("--config", str(directory / "engine.toml"), "--nats", server.client_url)
        )
        running.launch()
        stack.push_async_callback(running.stop)
        await until(lambda: READY_WORDS in running.log, patience_s=PATIENCE_S)
        clients = []
        for user in ("ann", "lea"):
            client = await nats.connect(server.client_url, user=user, password=f"{user}-secret")
            stack.push_async_callback(client.close)
            clients.append(client)
        stream = StreamConfig(
            name="ORDERS",
            subjects=["orders.>"],
            retention=RetentionPolicy(retention),
            allow_direct=True,
        )
        await clients[0].jetstream(timeout=60).add_stream(stream)
        await stack.enter_async_context(replicating(running, "LAKE"))
        yield Accounts(server, running, *clients)


@pytest.mark.parametrize(
    "count", [THREE, len(needed("ORDERS", DELIVER))], ids=["three exports", "all exports"]
)
async def test_what_is_exported_is_copied_as_nats_server_copies_it(tmp_path: Path, count: int) -> None:
    async with accounts(tmp_path, needed("ORDERS", DELIVER)[:count]) as both:
        await both.fill(20)
        await both.source("$JS.API", "REFERENCE")
        await both.source("$JS.lake.API", "COPY")
        wanted = await both.messages("$JS.API", "REFERENCE", 20)
        assert await both.messages("$JS.lake.API", "COPY", 20) == wanted
        info = await both.ask("$JS.lake.API", "STREAM.INFO.COPY")
        assert "error" not in info["sources"][0]
        await both.fill(5)
        assert len(await both.messages("$JS.lake.API", "COPY", 25)) == 25


LACKS: list[tuple[str, Callable[[list[str]], list[str]], str]] = [
    ("no API", lambda all_: all_[1:3], '{service: "$JS.API.CONSUMER.>"}'),
    ("no deliveries", lambda all_: [all_[0], *all_[2:4]], f'{{stream: "{DELIVER}.COPY.>"}}'),
    ("no flow control", lambda all_: [*all_[:2], all_[3]], '{service: "$JS.FC.ORDERS.>"}'),
]


@pytest.mark.parametrize(("chosen", "line"), [lack[1:] for lack in LACKS], ids=[lack[0] for lack in LACKS])
async def test_a_missing_export_is_named_with_the_line_that_fixes_it(
    tmp_path: Path, chosen: Callable[[list[str]], list[str]], line: str
) -> None:
    async with accounts(tmp_path, chosen(needed("ORDERS", DELIVER))) as both:
        await both.fill(40, size=200_000)
        await both.source("$JS.lake.API", "COPY")
        assert f"exports: [{line}]" in await both.error("COPY")


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_a_queue_of_another_account_releases_what_was_copied(tmp_path: Path, retention: str) -> None:
    async with accounts(tmp_path, needed_for_queue("ORDERS"), retention) as both:
        await both.queue("COPY")
        await both.has_consumer()
        await both.fill(30)
        copied = await both.messages("$JS.lake.API", "COPY", 30)
        assert [subject for subject, _ in copied] == [f"orders.{number % 3}" for number in range(30)]
        assert len({data for _, data in copied}) == 30
        await both.emptied()
        info = await both.ask("$JS.lake.API", "STREAM.INFO.COPY")
        assert ("error" in info["sources"][0], info["state"]["messages"]) == (False, 30)


QUEUE_LACKS = [
    ("no API", lambda all_: all_[1:], '{service: "$JS.API.CONSUMER.>"}'),
    (
        "one answer only",
        lambda all_: [all_[0].replace(", response: stream", ""), *all_[1:]],
        '{service: "$JS.API.CONSUMER.>", response: stream}',
    ),
    ("no acknowledgements", lambda all_: [all_[0], all_[2]], '{service: "$JS.ACK.ORDERS.>"}'),
    ("no info", lambda all_: all_[:2], '{service: "$JS.API.STREAM.INFO.ORDERS"}'),
]


@pytest.mark.parametrize(
    ("chosen", "line"), [lack[1:] for lack in QUEUE_LACKS], ids=[lack[0] for lack in QUEUE_LACKS]
)
async def test_what_a_queue_s_account_does_not_export_is_named(
    tmp_path: Path,
    chosen: Callable[[list[str]], list[str]],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The replicator is in this process, and what never comes need not be waited for as long as usual.
    monkeypatch.setattr("headwater.replication.worker.pull_reader.ANSWER_S", 6.0)
    async with accounts(tmp_path, chosen(needed_for_queue("ORDERS")), "workqueue") as both:
        await both.fill(10)
        await both.queue("COPY")
        assert f"exports: [{line}]" in await both.error("COPY")


async def test_streams_of_an_account_are_closed_to_other_accounts(tmp_path: Path) -> None:
    async with accounts(tmp_path, needed("ORDERS", DELIVER)) as both:
        await both.ask("$JS.lake.API", "STREAM.CREATE.OWN", {"name": "OWN", "subjects": ["own"]})
        await both.lea.request("own", b"1", timeout=PATIENCE_S)
        for subject in ("$JS.lake.API.STREAM.INFO.OWN", "$JS.lake.API.STREAM.DELETE.OWN", "own"):
            with pytest.raises(nats.errors.NoRespondersError):
                await both.ann.request(subject, b"", timeout=PATIENCE_S)
        names = await both.ask("$JS.lake.API", "STREAM.NAMES")
        assert names["streams"] == ["OWN"]
        info = await both.ask("$JS.lake.API", "STREAM.INFO.OWN")
        assert info["state"]["messages"] == 1


SEATED = f"""
accounts {{
  ACME {{ users: [ {{ user: ann, password: ann-secret }} ]
         exports: [ {", ".join(needed("ORDERS", DELIVER))} ] }}
  LAKE {{ users: [ {{ user: lea, password: lea-secret }} ]
         imports: [ {", ".join(map(_import, needed("ORDERS", DELIVER)))} ] }}
}}
"""


async def test_seats_of_one_engine_copy_from_each_other_as_the_exports_allow(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(SEATED, leaf=True))
        tables = ['replicator = "submitted"\n']
        for user, account, domain in (
            ("ann", "ACME", None),
            ("lea", "LAKE", "lake"),
            ("lea", "LAKE", "pond"),
        ):
            seat = {
                "account": account,
                "nats_url": server.client_url,
                "leaf_url": server.leaf_url,
                "user": user,
                "password": f"{user}-secret",
                **({"domain": domain, "folder": domain} if domain else {}),
            }
            tables.append("[[seat]]\n" + "".join(f"{key} = {json.dumps(seat[key])}\n" for key in seat))
        (tmp_path / "engine.toml").write_text("".join(tables))
        running = RunningEngine(tmp_path, ("--config", str(tmp_path / "engine.toml"), "--nats", "n"))
        running.launch()
        stack.push_async_callback(running.stop)
        await until(lambda: running.log.count(READY_WORDS) == 3, patience_s=PATIENCE_S)
        clients = []
        for user in ("ann", "lea"):
            client = await nats.connect(server.client_url, user=user, password=f"{user}-secret")
            stack.push_async_callback(client.close)
            clients.append(client)
        await clients[0].jetstream(timeout=60).add_stream(name="ORDERS", subjects=["orders.>"])
        for folder in ("ACME", "lake", "pond"):
            await stack.enter_async_context(replicating(running, folder))
        both = Accounts(server, running, *clients)
        await both.fill(10)
        await both.source("$JS.lake.API", "COPY")
        mirror = {"name": "COPY", "external": {"api": "$JS.lake.API"}}
        await both.ask("$JS.pond.API", "STREAM.CREATE.DEEP", {"name": "DEEP", "mirror": mirror})
        copied = await both.messages("$JS.lake.API", "COPY", 10)
        assert len({data for _, data in copied}) == 10
        assert await both.messages("$JS.pond.API", "DEEP", 10) == copied
