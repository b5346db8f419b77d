"""Publishes 300 clicks: 60 purchases, 237 views, and 3 that are no JSON."""

import asyncio
import json
import os

import nats

COUNTRIES = ("de", "fr", "us")


async def main() -> None:
    client = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    stream = client.jetstream()
    for number in range(300):
        click = {"user": number % 40, "action": "view", "country": COUNTRIES[number % 3]}
        if number % 5 == 0:
            click |= {"action": "buy", "amount": 10.5}
        payload = b"<html>not a click" if number % 100 == 99 else json.dumps(click).encode()
        await stream.publish("clicks.web", payload, headers={"Nats-Msg-Id": f"click-{number}"})
    await client.close()
    print("300 clicks published")


asyncio.run(main())
