"""A scenario: a named piece of the script, run against one server and recorded."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from conformance.probe import Answer, Probe
from conformance.server import Server

Script = Callable[[Probe], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """What one function of the script does, under the name of its module and its own."""

    name: str
    script: Script
    copies: bool = False
    """Whether the server must be able to copy streams, which takes Spark here."""

    async def record(self, server: Server) -> list[Answer]:
        """Return what the reference answered, and leave it without streams."""
        async with Probe.connected(server) as probe:
            await self.script(probe)
            assert not probe.stumbles, f"{self.name}: {probe.stumbles}"
            return probe.answers

    async def attempt(self, server: Server) -> list[Answer]:
        """Run the script; if an answer makes it fail, that is recorded as its last answer."""
        async with Probe.connected(server) as probe:
            try:
                await self.script(probe)
            except Exception as error:
                probe.record("the script broke off", self.name, repr(error))
            return probe.answers

    async def on_both(self, reference: Server, server: Server) -> tuple[list[Answer], list[Answer]]:
        """Return what the reference and the server under test answered, asked at the same time."""
        expected, actual = await asyncio.gather(
            self.record(reference), self.attempt(server), return_exceptions=True
        )
        if isinstance(expected, BaseException):
            raise expected
        if isinstance(actual, BaseException):
            raise actual
        return expected, actual


SCENARIOS: dict[str, Scenario] = {}


def scenario(script: Script) -> Script:
    """Add the function to the script."""
    return _add(script, copies=False)


def copying(script: Script) -> Script:
    """Add a function whose streams have sources or mirrors to the script."""
    return _add(script, copies=True)


def _add(script: Script, copies: bool) -> Script:
    name = f"{script.__module__.rsplit('.', 1)[-1]}.{script.__name__}"
    assert name not in SCENARIOS, name
    SCENARIOS[name] = Scenario(name, script, copies)
    return script
