"""NATS Streaming for one account: recovered and started, and stopped in reverse order.

Start: check that no other server has the cluster id → open the records → open the channels with their
subscriptions → subscribe. Stop: the reverse; acknowledgements received until then are recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from headwater.bounded import ends
from headwater.bus.connection import Connection, NoRespondersError
from headwater.clock import Clock
from headwater.control.domain import Domain
from headwater.control.sqlite_file import NO_REPLICA, Replica
from headwater.delivery.outlet import Outlet
from headwater.delivery.timers import Timers
from headwater.errors import SettingsError
from headwater.model.unique import unique_id
from headwater.settings import Settings
from headwater.stan import records
from headwater.stan.channels import Channels
from headwater.stan.client_removal import ClientRemoval
from headwater.stan.clients import Clients
from headwater.stan.heartbeats import Heartbeats
from headwater.stan.journal import Journal
from headwater.stan.limits import StoreLimits
from headwater.stan.outbox import Outbox
from headwater.stan.partition import Partition
from headwater.stan.publishing import Publishing
from headwater.stan.records import Records
from headwater.stan.refusals import StanRefusedError
from headwater.stan.server import StanServer
from headwater.stan.subjects import Subjects
from headwater.stan.subscriptions import Subscriptions
from headwater.stream.stream import Stream
from headwater.threads import on_thread
from headwater.wire import stan_messages as wire

logger = logging.getLogger(__name__)

ALONE_WITHIN_S = 0.25
"""How long to wait for an answer of another server with the same cluster id."""
LOOK_EVERY_S = 0.05
STOPPED = "stopped"
"""The key that records a clean stop: the records then contain every delivery."""


@dataclass(frozen=True)
class StanDoor:
    """A running NATS Streaming server, with the parts that monitoring reads."""

    cluster_id: str
    server_id: str
    started_ns: int
    clients: Clients
    channels: Channels
    subscriptions: Subscriptions
    publishing: Publishing
    outbox: Outbox


@asynccontextmanager
async def opened(
    settings: Settings,
    path: Path,
    domain: Domain,
    connection: Connection,
    outlet: Outlet | None,
    clock: Clock,
    keep_pace: Callable[[Stream], None],
    replica: Replica = NO_REPLICA,
) -> AsyncIterator[StanDoor]:
    """Serve NATS Streaming clients during a block; the state is stored in the file at `path`."""
    assert settings.stan is not None
    limits = StoreLimits.from_settings(settings)
    if not settings.stan_partitioning:
        await check_alone(connection, settings.stan)
    kept = await on_thread(Records, path, domain.fence, replica)
    journal, timers = Journal(kept), Timers(clock)
    try:
        server_id = _identify(kept, settings.stan)
        subjects = Subjects(settings.stan, f"_INBOX.{server_id}")
        partition = None
        if settings.stan_partitioning:
            partition = Partition(
                connection,
                subjects.partitions,
                server_id,
                list(limits.channels),
                settings.stan_partition_wait_s,
            )
            await partition.claim()
        outbox = Outbox(connection, _listening(outlet))
        clients = Clients(settings.stan_hb_fail_count)
        subscriptions = Subscriptions(
            clients,
            outbox,
            journal,
            timers,
            clock,
            subjects.acks,
            replaces_durables=settings.stan_replace_durable,
        )
        channels = Channels(domain, limits, outbox, timers, clock, subscriptions)
        removal = ClientRemoval(clients, subscriptions, journal)
        publishing = Publishing(clients, channels, outbox, subjects.answers.encode(), keep_pace)
        heartbeats = Heartbeats(
            connection,
            clients,
            timers,
            clock,
            settings.stan_hb_interval_s,
            settings.stan_hb_timeout_s,
            settings.stan_probe_s,
            on_doubt=subscriptions.set_doubt,
            on_alive=subscriptions.trust,
            on_dead=removal.drop,
        )
        server = StanServer(
            connection,
            subjects,
            clients,
            channels,
            subscriptions,
            publishing,
            heartbeats,
            removal,
            journal,
            outbox,
            partition,
        )
        for client in kept.clients():
            clients.add(client)
            heartbeats.watch(client, at_once=True)
        subscriptions.recover(kept, after_crash=not _was_stopped(kept))
        domain.observe(channels)
        await channels.open_known()
        await _open_others(channels, subscriptions)
        await journal.settled()
        server.start()
        await connection.flush()
        watch = _Watch(subscriptions)
        try:
            async with _kept(partition):
                with outlet.observed(watch.on_interest) if outlet else nullcontext():
                    yield StanDoor(
                        settings.stan,
                        server_id,
                        clock.now_ns(),
                        clients,
                        channels,
                        subscriptions,
                        publishing,
                        outbox,
                    )
        finally:
            watch.close()
            is_stopped = await ends(server.stop(), "serving NATS Streaming clients")
            heartbeats.close()
            is_stopped = await ends(channels.close(), "closing NATS Streaming channels") and is_stopped
            subscriptions.record()
            if is_stopped:
                journal.put([records.keep(STOPPED, "yes")])
    finally:
        timers.close()
        # A write that hangs holds the lock of the file, which closing would wait for on the loop.
        if await ends(journal.close(), "recording NATS Streaming subscriptions"):
            kept.close()


@asynccontextmanager
async def _kept(partition: Partition | None) -> AsyncIterator[None]:
    """End the block with an error if another engine claims this engine's channels and takes precedence."""
    try:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(partition.keep(), name="stan partition") if partition else None
            try:
                yield
            finally:
                if keeping is not None:
                    keeping.cancel()
    except* SettingsError as errors:
        raise errors.exceptions[0] from None


async def check_alone(connection: Connection, cluster_id: str) -> None:
    """Refuse to start if another server answers for the cluster id."""
    subject = f"_STAN.discover.{cluster_id}".encode()
    hello = wire.ConnectRequest(clientID=cluster_id, heartbeatInbox=f"_INBOX.{unique_id()}")
    try:
        frame = await connection.request(subject, hello.SerializeToString(), ALONE_WITHIN_S)
    except (NoRespondersError, TimeoutError):
        return
    answer = wire.decode(wire.ConnectResponse, frame[3])
    if answer.closeRequests:
        bye = wire.CloseRequest(clientID=cluster_id).SerializeToString()
        connection.publish(answer.closeRequests.encode(), bye)
    raise SettingsError(f"another streaming server with cluster id {cluster_id!r} was discovered")


def _identify(kept: Records, cluster_id: str) -> str:
    """Return the server id in the records, or a new one if they are new."""
    known = kept.server()
    if not known:
        server_id = unique_id()
        kept.write([records.keep("cluster_id", cluster_id), records.keep("server_id", server_id)])
        return server_id
    if known["cluster_id"] != cluster_id:
        raise SettingsError(
            f"the store was served to NATS Streaming clients under cluster id {known['cluster_id']!r}, "
            f"not {cluster_id!r}"
        )
    return known["server_id"]


def _was_stopped(kept: Records) -> bool:
    """Return whether the last run stopped cleanly, and record that this one has not yet."""
    if kept.server().get(STOPPED) != "yes":
        return False
    kept.write([records.keep(STOPPED, "no")])
    return True


def _listening(outlet: Outlet | None) -> Callable[[bytes], bool] | None:
    """Return the check for subscriber interest, or None if it is unknown."""
    if outlet is None:
        return None
    return lambda subject: not outlet.is_open or outlet.listens(subject)


async def _open_others(channels: Channels, subscriptions: Subscriptions) -> None:
    """Open channels with records whose streams were not created as channels."""
    for name in subscriptions.recovered_channels:
        try:
            await channels.open_if_there(name)
        except StanRefusedError as error:
            logger.error("cannot serve channel %s: %s", name, error)


class _Watch:
    """Checks for new subscriber interest at once, and for lost interest periodically."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self._handle: asyncio.TimerHandle | None = None
        """The timer of the next look; None while none is needed."""

    def on_interest(self) -> None:
        """Record that interest has changed."""
        self._subscriptions.on_interest()
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        self._handle = None
        self._subscriptions.look_who_listens()

    def close(self) -> None:
        """Stop checking."""
        if self._handle is not None:
            self._handle.cancel()
