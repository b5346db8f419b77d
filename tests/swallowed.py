"""Assertions that fail where nothing awaits them: in a client's callback, in a gathered task, in a lost task.

nats-py hands an exception of a callback to its error callback. `asyncio.gather(…, return_exceptions=True)`
returns it as a value. A task that is never awaited logs it. A test whose assertion fails there would pass.
Here each of them is recorded, and `tests/conftest.py` fails the test.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.client import Client

_Callback = Callable[[Any], Awaitable[None]]


class Swallowed:
    """The failed assertions since the last time they were taken."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, where: str, error: BaseException | None) -> None:
        """Record an error if it is a failed assertion."""
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                self.add(where, inner)
        elif isinstance(error, AssertionError):
            self._found.append(f"{where}: {error!r}")

    def take(self) -> list[str]:
        """Return what was recorded, and forget it."""
        found, self._found = self._found, []
        return found


def install(patch: pytest.MonkeyPatch, swallowed: Swallowed) -> None:
    """Record failed assertions from now on, until the patch is undone."""
    subscribe, gather = Client.subscribe, asyncio.gather
    report = asyncio.BaseEventLoop.call_exception_handler

    async def recording_subscribe(self: Client, *args: Any, **options: Any) -> Any:
        args = tuple(_recording(arg, swallowed) if index == 2 else arg for index, arg in enumerate(args))
        if options.get("cb") is not None:
            options["cb"] = _recording(options["cb"], swallowed)
        return await subscribe(self, *args, **options)

    def recording_gather(*awaitables: Any, return_exceptions: bool = False) -> Any:
        gathered: Any = gather(*awaitables, return_exceptions=return_exceptions)
        if return_exceptions:
            gathered.add_done_callback(functools.partial(_look, swallowed))
        return gathered

    def recording_report(self: asyncio.BaseEventLoop, context: dict[str, Any]) -> None:
        swallowed.add(str(context.get("task") or context.get("message")), context.get("exception"))
        report(self, context)

    patch.setattr(Client, "subscribe", recording_subscribe)
    patch.setattr(asyncio, "gather", recording_gather)
    patch.setattr(asyncio.BaseEventLoop, "call_exception_handler", recording_report)


def _recording(callback: _Callback | None, swallowed: Swallowed) -> _Callback | None:
    if callback is None:
        return None

    @functools.wraps(callback)
    async def call(message: Any) -> None:
        try:
            await callback(message)
        except AssertionError as error:
            swallowed.add(f"in a callback of nats-py on {message.subject}", error)
            raise

    return call


def _look(swallowed: Swallowed, gathered: asyncio.Future[list[object]]) -> None:
    if gathered.cancelled() or gathered.exception() is not None:
        return
    for outcome in gathered.result():
        if isinstance(outcome, BaseException):
            swallowed.add("in a gathered task", outcome)
