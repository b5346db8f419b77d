"""The NATS Streaming server: handles clients' requests in the order in which they were sent.

All frames arrive through one sink of one connection, so that a close cannot overtake an earlier
acknowledgement or publish. Most frames are handled at once. A frame that must wait, because a channel has to
be created or a start position has to be found, waits in a queue together with all later frames.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headwater.background_tasks import BackgroundTasks
from headwater.bus.connection import Connection
from headwater.control.subject_rules import can_be_sent_to
from headwater.errors import ApiError
from headwater.stan import records, refusals
from headwater.stan.channels import Channels
from headwater.stan.client_removal import ClientRemoval
from headwater.stan.clients import Client, Clients
from headwater.stan.heartbeats import Heartbeats
from headwater.stan.journal import Journal
from headwater.stan.names import valid_client_id
from headwater.stan.outbox import Outbox
from headwater.stan.partition import Partition
from headwater.stan.publishing import Publishing
from headwater.stan.refusals import StanRefusedError
from headwater.stan.subjects import Subjects
from headwater.stan.subscriptions import Subscriptions, check_request
from headwater.wire import stan_messages as wire
from headwater.wire.frames import Frame
from headwater.wire.stan_messages import MalformedError, decode

logger = logging.getLogger(__name__)

PROTOCOL = 1
MAX_QUEUED = 10_000
"""How many frames may be queued before reading stops."""
REGISTERED_WITHIN_S = 1.0
"""How long a publish may wait for the connect of its client, if both can arrive through different servers."""


class StanServer:
    """Serves one cluster id; a sink of the bus."""

    def __init__(
        self,
        connection: Connection,
        subjects: Subjects,
        clients: Clients,
        channels: Channels,
        subscriptions: Subscriptions,
        publishing: Publishing,
        heartbeats: Heartbeats,
        removal: ClientRemoval,
        journal: Journal,
        outbox: Outbox,
        partition: Partition | None = None,
    ) -> None:
        self.items: list[Frame] = []
        self.subjects = subjects
        self._connection = connection
        self._clients = clients
        self._channels = channels
        self._subscriptions = subscriptions
        self._publishing = publishing
        self._heartbeats = heartbeats
        self._removal = removal
        self._journal = journal
        self._outbox = outbox
        self._partition = partition
        self._publish_prefix = f"{subjects.publish}.".encode()
        self._acks = subjects.acks.encode()
        """The prefix of the subjects that clients acknowledge on."""
        self._answers = subjects.answers.encode()
        """The prefix of the subjects on which the answers to our own requests arrive."""
        self._requests: dict[bytes, Callable[[Frame], None]] = {
            subjects.connect.encode(): self._connect,
            subjects.pings.encode(): self._ping,
            subjects.unsubscribe.encode(): lambda frame: self._end(frame, forget=True),
            subjects.close_subscription.encode(): lambda frame: self._end(frame, forget=False),
            subjects.close.encode(): self._close,
        }
        """Which method answers the requests on a subject."""
        self._subscribe_subject = subjects.subscribe.encode()
        self._queue: deque[Frame] = deque()
        """Frames that wait for the worker, in the order of their arrival."""
        self._worker: asyncio.Task[None] | None = None
        """Handles the queue in order; None while it is empty."""
        self._tasks = BackgroundTasks()
        self._sids: list[bytes] = []
        self._registered = asyncio.Event()
        """Set and replaced whenever a client is connected."""

    def start(self) -> None:
        """Subscribe to the request subjects."""
        published = self._partition.patterns if self._partition else [">"]
        wanted = [
            *(self._publish_prefix + pattern.encode() for pattern in published),
            *self._requests,
            self._subscribe_subject,
            self._acks + b"*",
            self._answers + b"*",
        ]
        self._sids = [self._connection.subscribe(subject, self) for subject in wanted]

    async def stop(self) -> None:
        """Accept no more frames, and return once all accepted frames are handled."""
        for sid in self._sids:
            self._connection.unsubscribe(sid)
        if self._worker is not None:
            await self._worker
        self._tasks.cancel()
        await self._tasks.ended()
        await self._publishing.close()

    def flush(self) -> None:
        """Handle the frames of one socket read."""
        frames, self.items = self.items, []
        if self._queue or self._worker is not None:
            self._queue.extend(frames)
            if len(self._queue) > MAX_QUEUED:
                self._connection.pause_reading(self)
            return
        done = self._take(frames)
        if done < len(frames):
            self._queue.extend(frames[done:])
            self._worker = asyncio.create_task(self._work(), name="stan requests")

    def _take(self, frames: list[Frame]) -> int:
        """Handle the frames that need not wait; return how many."""
        acks: list[tuple[bytes, bytes]] = []
        publishing = self._publishing
        done = 0
        while done < len(frames):
            frame = frames[done]
            subject = frame[0]
            if subject.startswith(self._publish_prefix):
                if publishing.take(frame) is not None:
                    break
                done = publishing.take_alike(frames, done + 1)
                continue
            if subject.startswith(self._acks):
                acks.append((subject, frame[3]))
            elif subject.startswith(self._answers):
                publishing.answered(frame)
            elif (request := self._requests.get(subject)) is not None:
                # A request takes effect after all earlier publishes and acknowledgements.
                publishing.flush()
                self._subscriptions.acknowledge(acks)
                acks = []
                request(frame)
            else:
                break
            done += 1
        publishing.flush()
        self._subscriptions.acknowledge(acks)
        return done

    async def _work(self) -> None:
        """Handle queued frames in order."""
        try:
            while self._queue:
                try:
                    await self._do(self._queue.popleft())
                except Exception:
                    logger.exception("cannot handle a request of a NATS Streaming client")
                frames = list(self._queue)
                for _ in range(self._take(frames)):
                    self._queue.popleft()
        finally:
            self._worker = None
            self._connection.resume_reading(self)

    async def _do(self, frame: Frame) -> None:
        if frame[0] == self._subscribe_subject:
            await self._subscribe(frame)
        elif frame[0].startswith(self._publish_prefix):
            await self._publish_to_new(frame)

    # Publishes to a channel that must be created first.

    async def _publish_to_new(self, frame: Frame) -> None:
        message = self._publishing.take(frame)
        if message is None:
            return
        if self._clients.publisher(message.clientID, message.connID) is None:
            if self._partition is None or not self._puts_off(frame, message):
                self._publishing.refuse(frame, message.guid, refusals.INVALID_PUBLISH)
            return
        try:
            channel = await self._channels.open(message.subject)
        except StanRefusedError as error:
            self._publishing.refuse(frame, message.guid, str(error))
            return
        self._publishing.put(channel, frame, message)
        self._publishing.flush()

    def _puts_off(self, frame: Frame, message: Any) -> bool:
        """Return whether a request must wait for its client's connect, which may arrive later."""
        if frame[2] == _WAITED:
            return False
        self._spawn(self._once_registered(frame, message.clientID), "wait for a connect")
        return True

    async def _once_registered(self, frame: Frame, client_id: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(REGISTERED_WITHIN_S):
                while self._clients.get(client_id) is None:
                    await self._registered.wait()
        self.items.append((frame[0], frame[1], _WAITED, frame[3]))
        self.flush()

    # Subscriptions.

    async def _subscribe(self, frame: Frame) -> None:
        try:
            request = decode(wire.SubscriptionRequest, frame[3])
        except MalformedError:
            self._refuse_subscription(frame, refusals.INVALID_SUBSCRIBE)
            return
        if self._partition is not None:
            if not self._partition.serves(request.subject):
                return  # another server answers
            if self._clients.get(request.clientID) is None:
                if not self._puts_off(frame, request):
                    self._refuse_subscription(frame, refusals.INVALID_SUBSCRIBE)
                return
        try:
            check_request(request, self._clients)
            channel = await self._channels.open(request.subject)
            await self._subscriptions.subscribe(channel, request, frame[1])
        except StanRefusedError as error:
            self._refuse_subscription(frame, str(error))
        except ApiError as error:
            self._refuse_subscription(frame, error.description)

    def _refuse_subscription(self, frame: Frame, text: str) -> None:
        self._outbox.answer(frame[1], wire.SubscriptionResponse(error=text).SerializeToString())

    def _end(self, frame: Frame, *, forget: bool) -> None:
        """Unsubscribe, or close a subscription."""
        try:
            request = decode(wire.UnsubscribeRequest, frame[3])
        except MalformedError:
            self._refuse_subscription(frame, refusals.INVALID_UNSUBSCRIBE)
            return
        if self._partition is not None and not self._partition.serves(request.subject):
            return
        if self._channels.get(request.subject) is None:
            self._refuse_subscription(frame, refusals.CHANNEL_UNKNOWN)
            return
        subscription = self._subscriptions.find(request.subject, request.inbox)
        if subscription is None:
            self._refuse_subscription(frame, refusals.SUBSCRIPTION_UNKNOWN)
            return
        if subscription.client_id != request.clientID:
            self._refuse_subscription(frame, refusals.CLIENT_UNKNOWN)
            return
        ops = self._subscriptions.end(subscription, forget=forget)
        self._journal.put(ops, lambda: self._outbox.answer(frame[1], b""))

    # Clients.

    def _connect(self, frame: Frame) -> None:
        try:
            request = decode(wire.ConnectRequest, frame[3])
        except MalformedError:
            request = None
        if request is None or not can_be_sent_to(request.heartbeatInbox):
            self._refuse_client(frame, refusals.INVALID_CONNECT)
            return
        if not valid_client_id(request.clientID):
            self._refuse_client(frame, refusals.INVALID_CLIENT_ID)
            return
        client = Client(
            request.clientID,
            request.heartbeatInbox,
            request.connID,
            request.protocol,
            request.pingInterval,
            request.pingMaxOut,
        )
        if client.client_id in self._clients.checking:
            self._refuse_client(frame, refusals.CLIENT_REGISTERED)
            return
        old = self._clients.get(client.client_id)
        if old is None:
            self._register(client, frame[1])
            return
        self._clients.checking.add(client.client_id)
        self._spawn(self._check(old, client, frame), f"is {client.client_id} there")

    async def _check(self, old: Client, client: Client, frame: Frame) -> None:
        """Give a client an id if the id's owner does not answer."""
        try:
            if await self._heartbeats.is_there(old):
                self._refuse_client(frame, refusals.CLIENT_REGISTERED)
                return
            if old in self._clients:
                self._heartbeats.forget(old)
                self._removal.drop(old)
            self._register(client, frame[1])
        finally:
            self._clients.checking.discard(client.client_id)

    def _register(self, client: Client, reply: bytes) -> None:
        self._clients.add(client)
        self._registered.set()
        self._registered = asyncio.Event()
        self._heartbeats.watch(client)
        self._journal.put([records.add_client(client)], lambda: self._welcome(client, reply))

    def _welcome(self, client: Client, reply: bytes) -> None:
        subjects = self.subjects
        welcome = wire.ConnectResponse(
            pubPrefix=subjects.publish,
            subRequests=subjects.subscribe,
            unsubRequests=subjects.unsubscribe,
            subCloseRequests=subjects.close_subscription,
            closeRequests=subjects.close,
            protocol=PROTOCOL,
        )
        if client.protocol >= PROTOCOL:
            welcome.pingRequests = subjects.pings
            welcome.pingInterval = client.ping_interval
            welcome.pingMaxOut = client.ping_max_out
        self._outbox.answer(reply, welcome.SerializeToString())

    def _refuse_client(self, frame: Frame, text: str) -> None:
        self._outbox.answer(frame[1], wire.ConnectResponse(error=text).SerializeToString())

    def _ping(self, frame: Frame) -> None:
        try:
            conn_id = decode(wire.Ping, frame[3]).connID
        except MalformedError:
            return
        if not frame[3]:
            return
        client = self._clients.of_connection(conn_id)
        if client is None:
            body = wire.PingResponse(error=refusals.CLIENT_REPLACED).SerializeToString()
            self._outbox.answer(frame[1], body)
            return
        self._outbox.answer(frame[1], b"")
        self._heartbeats.hurry(client)

    def _close(self, frame: Frame) -> None:
        try:
            client_id = decode(wire.CloseRequest, frame[3]).clientID
        except MalformedError:
            self._refuse_close(frame, refusals.INVALID_CLOSE)
            return
        client = self._clients.get(client_id)
        if client is None:
            self._refuse_close(frame, refusals.CLIENT_UNKNOWN)
            return
        self._heartbeats.forget(client)
        self._removal.remove(client, lambda: self._outbox.answer(frame[1], b""))

    def _refuse_close(self, frame: Frame, text: str) -> None:
        self._outbox.answer(frame[1], wire.CloseResponse(error=text).SerializeToString())

    def _spawn(self, work: Any, name: str) -> None:
        self._tasks.start(work, name)


_WAITED = b"NATS/1.0\r\nHeadwater-Waited: 1\r\n\r\n"
"""Headers that mark a frame that has already waited for its client's connect."""
