"""Reads a channel as a NATS Streaming client, from its beginning: `python stan_reader.py CHANNEL COUNT`."""

import asyncio
import os
import sys

import nats
from nats.aio.msg import Msg

from headwater.wire import stan_messages as stan

CLUSTER = "test-cluster"


async def main(channel: str, count: int) -> None:
    client = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    heartbeats, inbox = client.new_inbox(), client.new_inbox()
    seen: list[stan.MsgProto] = []
    ack_inbox: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    complete = asyncio.Event()

    async def receive(message: Msg) -> None:
        received = stan.decode(stan.MsgProto, message.data)
        seen.append(received)
        ack = stan.Ack(subject=channel, sequence=received.sequence)
        await client.publish(await ack_inbox, ack.SerializeToString())
        if len(seen) == count:
            complete.set()

    async def answer_heartbeat(message: Msg) -> None:
        await message.respond(b"")

    await client.subscribe(heartbeats, cb=answer_heartbeat)
    await client.subscribe(inbox, cb=receive)
    hello = stan.ConnectRequest(clientID="reader", heartbeatInbox=heartbeats, connID=b"reader-1", protocol=1)
    answer = await client.request(f"_STAN.discover.{CLUSTER}", hello.SerializeToString(), timeout=60)
    server = stan.decode(stan.ConnectResponse, answer.data)
    wanted = stan.SubscriptionRequest(
        clientID="reader",
        subject=channel,
        inbox=inbox,
        maxInFlight=1024,
        ackWaitInSecs=30,
        startPosition=stan.FIRST,
    )
    answer = await client.request(server.subRequests, wanted.SerializeToString(), timeout=60)
    ack_inbox.set_result(stan.decode(stan.SubscriptionResponse, answer.data).ackInbox)
    await asyncio.wait_for(complete.wait(), 60)
    print(len(seen), "messages, the last one:", seen[-1].sequence, seen[-1].data.decode())
    await client.request(server.closeRequests, stan.CloseRequest(clientID="reader").SerializeToString(), timeout=60)
    await client.close()


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
