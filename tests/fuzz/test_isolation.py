"""A user with permissions for some streams cannot read, write or delete anything else.

In one account, a user has permissions for one stream only. With several, a tenant has all in its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from doors import Asker
from engines import READY_WORDS, RunningEngine, engine
from fuzz.attacks import Attacks
from headwater.api.endpoints import ENDPOINTS
from headwater.bus.connection import Connection, Denial, DeniedError, NoRespondersError
from headwater.bus.options import ConnectOptions
from headwater.control.catalog import Catalog
from headwater.errors import BusError
from headwater.replication import handover
from headwater.wire import stan_messages
from rounds import choose_seed
from servers import nats_server
from sinks import KeptSink
from waits import until

SECRET = b"not-for-others"
TENANT_ATTACKS = 1500
USERS = """
accounts {
  SALES { users: [ { user: engine-sales, password: es }, { user: sales, password: s } ] }
  STAFF { users: [ { user: engine-staff, password: ef }, { user: tenant, password: t } ] }
}
"""
LEAVES = """
authorization { users: [
  { user: leaf-sales, password: ls, account: SALES }, { user: leaf-staff, password: lf, account: STAFF }
] }
"""
RIGHTS = {
    "publish": [
        *("t.>", "$JS.API.STREAM.INFO.T", "$JS.API.STREAM.MSG.GET.T", "$JS.API.CONSUMER.*.T", "$JS.ACK.T.>"),
        *("$JS.API.CONSUMER.CREATE.T.>", "$JS.API.CONSUMER.INFO.T.>", "$JS.API.CONSUMER.MSG.NEXT.T.>"),
    ],
    "subscribe": ["_INBOX.>"],
}


async def connected(url: str, user: str, password: str) -> tuple[Connection, list[Denial]]:
    denied: list[Denial] = []
    connection = Connection(ConnectOptions((url,), user=user, password=password), on_denied=denied.append)
    await connection.connect()
    return connection, denied


async def messages_of(asker: Asker, stream: str) -> list[dict[str, Any]]:
    """Return everything that a stream holds."""
    state = (await asker.ask(f"STREAM.INFO.{stream}"))["state"]
    seqs = range(state["first_seq"], state["last_seq"] + 1)
    return [await asker.ask(f"STREAM.MSG.GET.{stream}", {"seq": seq}) for seq in seqs]


async def furnish(asker: Asker, name: str, prefix: str) -> None:
    """Make a stream with messages and a consumer that has one of them pending."""
    await asker.ask(
        f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{prefix}.>"], "allow_direct": True}
    )
    for number in range(5):
        await asker.publish(f"{prefix}.{number}", SECRET)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    await asker.ask(f"CONSUMER.CREATE.{name}.C", {"stream_name": name, "config": config})


async def test_a_user_with_rights_to_one_stream_does_nothing_to_another(tmp_path: Path) -> None:
    user = {"user": "limited", "password": "l", "permissions": RIGHTS}
    config = f"authorization {{ users: [ {{ user: engine, password: e }}, {json.dumps(user)} ] }}"
    leaf = "authorization { user: leaf, password: lf }"
    async with nats_server(config, leaf=leaf) as server:
        leaf_url = f"nats://leaf:lf@127.0.0.1:{server.leaf_port}"
        options = ("--nats", server.client_url, "--leaf", leaf_url, "--user", "engine", "--password", "e")
        async with engine(tmp_path, *options):
            owner, _ = await connected(server.client_url, "engine", "e")
            for name in ("SECRET", "T"):
                await furnish(Asker(owner), name, name.lower())
            before = await messages_of(Asker(owner), "SECRET")
            limited, denied = await connected(server.client_url, "limited", "l")
            assert (await Asker(limited).ask("STREAM.INFO.T"))["state"]["messages"] == 5
            assert "seq" in await Asker(limited).publish("t.mine", b"")
            tried = [
                each.pattern.format(stream="SECRET", consumer="C").replace(".>", ".x") for each in ENDPOINTS
            ]
            tried += ["DIRECT.GET.SECRET", "DIRECT.GET.SECRET.secret.1", "CONSUMER.MSG.NEXT.SECRET.C"]
            for subject in tried:
                with pytest.raises((DeniedError, NoRespondersError)):
                    await Asker(limited).ask(subject, {"seq": 1, "name": "SECRET"})
            for subject in (
                "secret.1",
                "$JS.ACK.SECRET.C.1.1.1.1.1",
                "$HEADWATER.x.REPLICATION.COMMIT",
                "$JS.FC.SECRET.x",
            ):
                limited.publish(subject.encode(), b"+TERM")
            for subject in (">", "secret.>", "$JS.API.>", "$HEADWATER.>", "$JS.ACK.>"):
                limited.subscribe(subject.encode(), KeptSink())
            await limited.flush()
            assert len({each.subject for each in denied}) >= len(tried) + 9
            assert await messages_of(Asker(owner), "SECRET") == before
            info = await Asker(owner).ask("CONSUMER.INFO.SECRET.C")
            assert (info["delivered"]["consumer_seq"], info["num_ack_pending"]) == (0, 0)
            for connection in (owner, limited):
                await connection.close()


@asynccontextmanager
async def two_accounts(directory: Path) -> AsyncIterator[tuple[RunningEngine, str]]:
    """Run an engine that serves two accounts of a nats-server from one store."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(USERS, leaf=LEAVES))
        lines = ['replicator = "submitted"']
        for account, short in (("SALES", "s"), ("STAFF", "f")):
            name = account.lower()
            lines += ["[[seat]]", f'account = "{account}"', f'nats_url = "{server.client_url}"']
            lines += [f'leaf_url = "nats://leaf-{name}:l{short}@127.0.0.1:{server.leaf_port}"']
            lines += [f'user = "engine-{name}"', f'password = "e{short}"']
        (directory / "engine.toml").write_text("\n".join(lines) + "\n")
        running = RunningEngine(directory, ("--config", str(directory / "engine.toml"), "--nats", "n"))
        running.launch()
        stack.push_async_callback(running.stop)
        await until(lambda: running.log.count(READY_WORDS) == 2, "both seats serve", lambda: running.log)
        yield running, server.client_url


async def test_a_tenant_of_one_account_reaches_nothing_of_another(tmp_path: Path) -> None:
    """The tenant has all permissions in its own account. It sends generated requests and targeted ones."""
    seed = choose_seed()
    async with two_accounts(tmp_path) as (running, url):
        sales, _ = await connected(url, "sales", "s")
        tenant, _ = await connected(url, "tenant", "t")
        await furnish(Asker(sales), "S0", "orders")
        await furnish(Asker(sales), "S1", "invoices")
        before = [await messages_of(Asker(sales), name) for name in ("S0", "S1")]
        heard = KeptSink()
        tenant.subscribe(b">", heard)
        catalog = Catalog(running.store / "catalog.db")
        store_id = catalog.store_id
        catalog.close()
        victim = next((running.store / "SALES" / "S0").rglob("identity.json"))
        for seat in ("", ".SALES", ".STAFF"):
            for what in ("PLAN", "COMMIT"):
                tenant.publish(
                    f"$HEADWATER.{store_id}.REPLICATION.{what}{seat}".encode(), b"\x90", b"_INBOX.t"
                )
        attacks = Attacks(seed, store_id, str(victim))
        for number in range(TENANT_ATTACKS):
            attack = attacks.next()
            with suppress(BusError):
                tenant.publish(attack.subject, attack.body, b"_INBOX.t.%d" % number, attack.headers)
            if number % 40 == 0:
                await tenant.flush(60)
                await Asker(tenant).ask("INFO")
        for name in ("../SALES/S0", "..", "SALES", "S0"):
            with suppress(NoRespondersError, TimeoutError):
                await asyncio.wait_for(Asker(tenant).ask(f"STREAM.DELETE.{name}"), 5)
        copy = {"name": "COPY", "sources": [{"name": "S0", "external": {"api": "$JS.SALES.API"}}]}
        await Asker(tenant).ask("STREAM.CREATE.COPY", copy)
        await Asker(tenant).ask("INFO")
        assert [await messages_of(Asker(sales), name) for name in ("S0", "S1")] == before
        names = (await Asker(sales).ask("STREAM.NAMES"))["streams"]
        assert names == ["S0", "S1"]
        assert victim.exists()
        assert not [frame for frame in heard.frames if SECRET in frame[3] or SECRET in frame[2]]
        assert "Traceback" not in running.log, running.log[running.log.index("Traceback") :][:3000]
        for connection in (sales, tenant):
            await connection.close()


async def test_no_answer_goes_where_only_engines_speak(tmp_path: Path) -> None:
    """In nats-server a client may name any reply subject, also one that it may not publish to."""
    async with engine(tmp_path, "--stan", "cluster") as running:
        insider = Connection(handover.connect_options(str(running.store / handover.NAME), "$G", "test"))
        stranger = Connection(ConnectOptions((running.client_url,)))
        heard = KeptSink()
        for connection in (insider, stranger):
            await connection.connect()
        insider.subscribe(b"$HEADWATER.>", heard)
        await insider.flush()
        await furnish(Asker(stranger), "S", "s")
        hello = stan_messages.ConnectRequest(clientID="me", heartbeatInbox="_INBOX.beat").SerializeToString()
        asked = {
            "s.1": b"",
            "$JS.API.INFO": b"",
            "$JS.API.STREAM.INFO.S": b"",
            "$JS.API.STREAM.MSG.GET.S": b'{"seq":1}',
            "$JS.API.DIRECT.GET.S": b'{"seq":1}',
            "$JS.API.CONSUMER.MSG.NEXT.S.C": b'{"batch":1,"no_wait":true}',
            "_STAN.discover.cluster": hello,
        }
        for subject, body in asked.items():
            stranger.publish(subject.encode(), body, b"$HEADWATER.x.REPLICATION.COMMIT")
        del asked["$JS.API.CONSUMER.MSG.NEXT.S.C"]  # it is answered on the subject of the message
        for subject, body in asked.items():
            await stranger.request(subject.encode(), body, 60)
        await insider.flush()
        assert heard.frames == []
        push = {"durable_name": "P", "deliver_subject": "$HEADWATER.x.REPLICATION.COMMIT"}
        made = await Asker(stranger).ask("CONSUMER.CREATE.S.P", {"stream_name": "S", "config": push})
        assert made["error"]["err_code"] == 10112
        for connection in (insider, stranger):
            await connection.close()
