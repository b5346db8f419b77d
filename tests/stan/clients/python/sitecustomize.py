# mypy: ignore-errors
"""Lets a client written for Python 3.9 run on a later one: arguments named `loop`, are dropped."""

import asyncio
import functools


def without_loop(function):
    """Return the function without its argument `loop`."""

    @functools.wraps(function)
    def called(*args, **named):
        named.pop("loop", None)
        return function(*args, **named)

    return called


class Queue(asyncio.Queue):
    """A queue that takes no loop."""

    def __init__(self, maxsize=0, loop=None):
        super().__init__(maxsize)


for name in ("wait_for", "sleep", "open_connection", "wait", "gather"):
    setattr(asyncio, name, without_loop(getattr(asyncio, name)))
asyncio.Queue = Queue
