"""Sends heartbeats to clients: periodically, and when another client requests their id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headwater.background_tasks import BackgroundTasks
from headwater.bus.connection import Connection, NoRespondersError
from headwater.clock import Clock
from headwater.delivery.timers import Timers
from headwater.errors import BusError
from headwater.model.times import MILLISECOND, SECOND
from headwater.stan.clients import Client, Clients

PROBE_AGAIN_S = 0.05


class _Beat:
    """The next heartbeat of one client."""

    def __init__(self, client: Client, heartbeats: Heartbeats) -> None:
        self.client = client
        self._heartbeats = heartbeats

    def tick(self, now_ns: int) -> int | None:
        """Send the heartbeat."""
        self._heartbeats.ask(self)
        return None


class Heartbeats:
    """Sends heartbeats to every client, and reports clients that miss them."""

    def __init__(
        self,
        connection: Connection,
        clients: Clients,
        timers: Timers,
        clock: Clock,
        interval_s: float,
        timeout_s: float,
        probe_s: float,
        *,
        on_doubt: Callable[[str, bool], None],
        on_alive: Callable[[str], None],
        on_dead: Callable[[Client], None],
    ) -> None:
        self._connection = connection
        self._clients = clients
        self._timers = timers
        self._clock = clock
        self._interval_ns = int(interval_s * SECOND)
        self._timeout_s = timeout_s
        self._probe_s = probe_s
        self._beats: dict[str, _Beat] = {}
        """The next heartbeat of each client, by its id."""
        self._asking = BackgroundTasks()
        self._on_doubt = on_doubt
        """Called with a client's id when it misses a heartbeat, and when it answers again."""
        self._on_alive = on_alive
        """Called with a client's id whenever it answers."""
        self._on_dead = on_dead
        """Called with a client that missed too many heartbeats."""

    def watch(self, client: Client, *, at_once: bool = False) -> None:
        """Start heartbeats to a client."""
        beat = self._beats[client.client_id] = _Beat(client, self)
        self._timers.at(self._clock.steady_ns() + (0 if at_once else self._interval_ns), beat)

    def forget(self, client: Client) -> None:
        """Stop heartbeats to a client."""
        beat = self._beats.pop(client.client_id, None)
        if beat is not None:
            self._timers.forget(beat)

    def hurry(self, client: Client) -> None:
        """Send a heartbeat at once to a client in doubt that was active."""
        beat = self._beats.get(client.client_id)
        if beat is not None and self._clients.in_doubt(client.client_id):
            self._timers.at(self._clock.steady_ns() + MILLISECOND, beat)

    def ask(self, beat: _Beat) -> None:
        """Send a heartbeat, and handle its answer."""
        self._asking.start(self._ask(beat), f"heartbeat of {beat.client.client_id}")

    async def _ask(self, beat: _Beat) -> None:
        client = beat.client
        if not self._connection.connected:
            # No client can answer while this engine is disconnected.
            self._timers.at(self._clock.steady_ns() + self._interval_ns, beat)
            return
        answered = await self._answers(client, self._timeout_s)
        if self._beats.get(client.client_id) is not beat:
            return
        if answered:
            if self._clients.answered(client):
                self._on_doubt(client.client_id, False)
            self._on_alive(client.client_id)
        elif self._clients.missed(client):
            self.forget(client)
            self._on_dead(client)
            return
        else:
            self._on_doubt(client.client_id, True)
        self._timers.at(self._clock.steady_ns() + self._interval_ns, beat)

    async def is_there(self, client: Client) -> bool:
        """Return whether a client answers in time while another one requests its id.

        A no-responders status does not count as an answer: the client may be about to reconnect.
        """
        now_s = asyncio.get_running_loop().time
        until = now_s() + self._probe_s
        while (left_s := until - now_s()) > 0:
            if await self._answers(client, left_s):
                return True
            await asyncio.sleep(max(0.0, min(PROBE_AGAIN_S, until - now_s())))
        return False

    async def _answers(self, client: Client, timeout_s: float) -> bool:
        try:
            await self._connection.request(client.heartbeat_inbox.encode(), b"", timeout_s)
        except (NoRespondersError, TimeoutError, BusError, ValueError):
            return False
        return True

    def close(self) -> None:
        """Stop all heartbeats."""
        for beat in self._beats.values():
            self._timers.forget(beat)
        self._asking.cancel()
