"""Rows are published to a plain nats-server with ids, so that a repeated task stores nothing twice."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from doors import Asker, connected
from headwater.errors import Error
from headwater.replication.work import NatsOrigin
from headwater.spark.bulk_client import bulk_client
from headwater.spark.message_rows import MessageRows
from headwater.spark.row_publisher import RowPublisher
from servers import nats_server


def rows(*ids: str | None, subject: str = "p") -> MessageRows:
    datas = [str(number) for number in range(len(ids))]
    ids_ = pa.array(ids, pa.string())
    return MessageRows(pa.record_batch({"subject": [subject] * len(ids), "data": datas, "msg_id": ids_}))


async def test_repeated_rows_are_stored_once() -> None:
    async with nats_server("", jetstream=True) as server:
        client = await connected(server.client_url)
        asker = Asker(client)
        for name, subject in (("P", "p"), ("O", "o")):
            await asker.ask(
                f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject], "storage": "memory"}
            )

        async def publish(prefix: str, batch: MessageRows) -> object:
            origin = NatsOrigin(servers=(server.client_url,), api_prefix="$JS.API", stream="P")

            def run() -> int:
                with bulk_client(origin) as bulk:
                    publisher = RowPublisher(bulk.client, "P", prefix)
                    publisher.append(batch)
                    return publisher.finish()

            return await asyncio.to_thread(run)

        async def stored() -> int:
            return int((await asker.ask("STREAM.INFO.P"))["state"]["messages"])

        assert await publish("q:0:0", rows(*[None] * 2000)) == 2000
        assert await publish("q:0:0", rows(*[None] * 2000)) == 2000
        assert await stored() == 2000
        await publish("q:1:0", rows("a", "b", None))
        await publish("q:2:0", rows("b", "a", None))
        assert await stored() == 2004
        failing: list[tuple[str, str]] = [("nobody", "no engine answers"), ("o", "stored in stream 'O'")]
        for subject, problem in failing:
            with pytest.raises(Error, match=problem):
                await publish("q:3:0", rows(None, subject=subject))
        await client.close()
