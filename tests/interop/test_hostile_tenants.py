"""A tenant of an engine with several accounts touches nothing by forged receipts, her own or others'."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from engines import READY_WORDS, RunningEngine
from headwater.replication.proof import Prover
from headwater.replication.work import PlanRequest, Receipt, commit_subject, encode, plan_subject
from interop.copying import replicating
from servers import nats_server
from waits import until

USERS = ("ann", "lea")
ACCOUNTS = """
accounts {
  ACME { users: [ { user: ann, password: ann-secret } ] }
  LAKE { users: [ { user: lea, password: lea-secret } ] }
}
"""


async def test_a_tenant_s_forged_receipts_touch_no_account_s_store(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(ACCOUNTS, leaf=True))
        tables = ['replicator = "submitted"\n']
        for user, account in (("ann", "ACME"), ("lea", "LAKE")):
            seat = {"account": account, "nats_url": server.client_url, "leaf_url": server.leaf_url}
            seat |= {"user": user, "password": f"{user}-secret"}
            tables.append("[[seat]]\n" + "".join(f"{key} = {json.dumps(seat[key])}\n" for key in seat))
        (tmp_path / "engine.toml").write_text("".join(tables))
        running = RunningEngine(tmp_path, ("--config", str(tmp_path / "engine.toml"), "--nats", "n"))
        running.launch()
        stack.push_async_callback(running.stop)
        await until(lambda: running.log.count(READY_WORDS) == 2, "both are served")
        ann, lea = [await nats.connect(server.client_url, user=u, password=f"{u}-secret") for u in USERS]
        stack.push_async_callback(ann.close)
        stack.push_async_callback(lea.close)
        heard: list[Msg] = []

        async def hear(message: Msg) -> None:
            heard.append(message)

        await ann.subscribe("$HEADWATER.>", cb=hear)
        await ann.flush()
        for client in (ann, lea):
            await client.jetstream(timeout=60).add_stream(name="O", subjects=["o"])
            await client.jetstream(timeout=60).publish("o", b"secret")
            made = {"name": "S", "sources": [{"name": "O"}]}
            answer = await client.request("$JS.API.STREAM.CREATE.S", json.dumps(made).encode(), timeout=60)
            assert "error" not in json.loads(answer.data)
        for folder in ("ACME", "LAKE"):
            await stack.enter_async_context(replicating(running, folder))

        async def copied() -> bool:
            infos = [await client.jetstream(timeout=60).stream_info("S") for client in (ann, lea)]
            return all(info.state.messages == 1 for info in infos)

        await until(copied, "both are copied", lambda: running.log)
        # She has heard her own account's replicator, and knows the store's id from its subjects.
        asked = [message for message in heard if ".REPLICATION." in message.subject]
        store_id = asked[0].subject.split(".")[1]
        before = {path: path.stat().st_ino for path in running.store.rglob("identity.json")}
        assert len(before) == 4
        prover = Prover(lambda: b"guessed")
        for target in (running.store / "catalog.db", *before):
            for place in ("ACME", "LAKE", ""):
                subject = commit_subject(store_id, place)
                forged = Receipt(
                    work="w", target="S", upstream="O > >", expected=b"", rows=1, through=9, path=str(target)
                )
                for body in (encode([forged]), prover.request(subject.encode(), b"mine", encode([forged]))):
                    await ann.publish(subject, body, reply="mine")
        for message in asked:
            for place in ("ACME", "LAKE"):
                subject = f"$HEADWATER.{store_id}.REPLICATION.{message.subject.split('.')[3]}.{place}"
                await ann.publish(subject, message.data, reply="mine")
        with pytest.raises((nats.errors.NoRespondersError, asyncio.TimeoutError)):
            await ann.request(plan_subject(store_id, "LAKE"), encode(PlanRequest(name="ann")), timeout=1)
        refused = await ann.request(
            plan_subject(store_id, "ACME"), encode(PlanRequest(name="ann")), timeout=60
        )
        assert len(refused.data) == 17
        assert (running.store / "catalog.db").exists()
        assert {path: path.stat().st_ino for path in before} == before
        for client in (ann, lea):
            await client.jetstream(timeout=60).publish("o", b"goes on")

        async def goes_on() -> bool:
            infos = [await client.jetstream(timeout=60).stream_info("S") for client in (ann, lea)]
            return all(info.state.messages == 2 for info in infos)

        await until(goes_on, "both are copied on", lambda: running.log)
