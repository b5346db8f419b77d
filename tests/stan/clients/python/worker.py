# mypy: ignore-errors
"""The real client as a process to be killed: `worker.py URL CLUSTER CLIENT_ID CHANNEL FILE ROLE [GROUP]`.

A publisher writes each acknowledged message to the file. A subscriber writes each message before it
acknowledges it, with its sequence and whether it was flagged as redelivered. The process ends when its
connection is lost, and the test starts it again.
"""

import asyncio
import os
import sys

from nats.aio.client import Client as NATS
from stan.aio.client import Client as STAN

URL, CLUSTER, CLIENT_ID, CHANNEL, FILE, ROLE = sys.argv[1:7]
GROUP = sys.argv[7] if len(sys.argv) > 7 else None
LANES = 8
PAUSE_S = 0.02
ANSWER_S = 4
ACK_S = 1
TRIES = 30


def writer():
    """Return what writes a line that outlives this process."""
    file = os.open(FILE, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    return lambda *words: os.write(file, (" ".join(words) + "\n").encode())


async def connected():
    """Return a client; the process ends when the client finds itself unheard."""

    async def lost(error):
        os._exit(1)

    nats, stan = NATS(), STAN()
    await nats.connect(servers=[URL], max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    await stan.connect(
        CLUSTER,
        CLIENT_ID,
        nats=nats,
        connect_timeout=ANSWER_S,
        ping_interval=1,
        ping_max_out=10,
        conn_lost_cb=lost,
    )
    return stan


async def publish(stan, write):
    """Publish without end, each message again until it is acknowledged."""

    async def lane(number):
        count = 0
        while True:
            count += 1
            data = f"{os.getpid()}.{number}.{count}"
            await acknowledged(stan, data.encode())
            write(data)
            await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*(lane(number) for number in range(LANES)))


async def acknowledged(stan, data):
    """Return once a message is stored."""
    for _ in range(TRIES):
        try:
            answer = await stan.publish(CHANNEL, data, ack_wait=ACK_S)
        except TimeoutError:
            continue
        if answer.error:
            sys.exit(answer.error)
        return
    sys.exit("nobody acknowledges")


async def subscribe(stan, write):
    """Keep every message; it is acknowledged when this function has returned."""

    async def keep(message):
        write(str(message.seq), str(int(message.proto.redelivered)), message.data.decode())

    await stan.subscribe(
        CHANNEL, cb=keep, durable_name="mine", queue=GROUP, start_at="first", ack_wait=2, max_inflight=20
    )
    await asyncio.Event().wait()


async def main():
    """Be a publisher or a subscriber until killed."""
    await {"publish": publish, "subscribe": subscribe}[ROLE](await connected(), writer())


asyncio.get_event_loop_policy().new_event_loop().run_until_complete(main())
