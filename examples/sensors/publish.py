"""Publishes three days of readings of three sensors, and one payload that is no JSON."""

import asyncio
import json
import math
import os
from datetime import UTC, datetime, timedelta

import nats

SENSORS = ("north", "south", "roof")
START = datetime(2026, 11, 14, tzinfo=UTC)


async def main() -> None:
    client = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    stream = client.jetstream()
    for hour in range(72):
        at = START + timedelta(hours=hour)
        for place, sensor in enumerate(SENSORS):
            celsius = round(10 + 5 * place + 4 * math.sin(hour / 24 * 2 * math.pi), 1)
            reading = {"sensor": sensor, "at": at.isoformat(), "celsius": celsius}
            # The id makes a repeated publish harmless.
            headers = {"Nats-Msg-Id": f"{sensor}-{hour}"}
            await stream.publish(f"sensors.{sensor}", json.dumps(reading).encode(), headers=headers)
    await stream.publish("sensors.roof", b"ERR 17: no signal")
    await client.close()
    print(72 * len(SENSORS), "readings published")


asyncio.run(main())
