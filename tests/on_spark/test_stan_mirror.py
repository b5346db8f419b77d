"""Both doors of one engine: what STAN clients publish is consumed and mirrored, and the other way round."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from pathlib import Path

import nats

from doors import Asker, connected
from engines import engine
from headwater.wire.stan_messages import FIRST
from stan_door import CLUSTER, StanClient

WITHIN_S = 180.0


async def test_a_channel_is_consumed_mirrored_and_subscribed_to_through_both_doors(tmp_path: Path) -> None:
    options = ("--stan", CLUSTER, "--spark-master", "local[2]", "--spark-driver-memory", "512m")
    async with engine(tmp_path, *options) as running:
        client = StanClient(await connected(running.client_url))
        await client.connect()
        heard = await client.subscribe("orders.eu", startPosition=FIRST)
        await client.publish_all("orders.eu", [b"stan %d" % n for n in range(100)])
        asker = Asker(client.connection)
        mirror = {"name": "COPY", "mirror": {"name": "orders~eu"}}
        assert "error" not in await asker.ask("STREAM.CREATE.COPY", mirror)
        for n in range(100):
            await asker.publish("orders.eu", b"jetstream %d" % n)
        await heard.got(200)
        assert heard.seqs == list(range(1, 201))

        connection = await nats.connect(running.client_url)
        consumer = await connection.jetstream().pull_subscribe("orders.eu", stream="orders~eu")
        pulled = await consumer.fetch(200, timeout=WITHIN_S)
        assert [message.data for message in pulled] == heard.datas
        await connection.close()

        async with asyncio.timeout(WITHIN_S):
            while (await asker.ask("STREAM.INFO.COPY"))["state"]["messages"] < 200:
                await asyncio.sleep(0.1)
        for seq, data in ((1, b"stan 0"), (200, b"jetstream 99")):
            held = (await asker.ask("STREAM.MSG.GET.COPY", {"seq": seq}))["message"]
            assert (held["subject"], b64decode(held["data"])) == ("orders.eu", data)
        await client.connection.close()
