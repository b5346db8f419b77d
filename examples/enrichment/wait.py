"""Waits until a stream has so many messages: `python wait.py STREAM COUNT`."""

import os
import sys
import time

import headwater

name, count = sys.argv[1], int(sys.argv[2])
with headwater.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222")) as client:
    deadline = time.monotonic() + 240
    while client.stream(name).messages < count:
        if time.monotonic() > deadline:
            sys.exit(f"{name} has {client.stream(name).messages} messages after 4 minutes")
        time.sleep(0.5)
print(name, "has", count, "messages")
