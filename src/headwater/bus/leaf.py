"""The leaf connection to nats-server: deliveries that a client may not make, and subscriber interest."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import replace

from headwater.bus.credentials import authorization, connect_fields
from headwater.bus.handshake import Info
from headwater.bus.interest import Interest
from headwater.bus.options import LEAF_PORT, Address, ConnectOptions
from headwater.bus.reconnector import Reconnector
from headwater.bus.sink_guard import flush_guarded
from headwater.errors import BusError
from headwater.wire import frames, leaf_frames
from headwater.wire.frames import Event, Sink
from headwater.wire.leaf_frames import LeafParser

logger = logging.getLogger(__name__)
_LOOP_DETECTION = b"$LDS."
_VERSION = "2.10.0"  # of the leaf protocol spoken here


class LeafConnection:
    """A leaf that stays connected; its interest is empty while there is no server."""

    def __init__(
        self,
        options: ConnectOptions,
        domain: str = "",
        *,
        sink: Sink | None = None,
        on_connected: Callable[[], None] | None = None,
        on_disconnected: Callable[[str], None] | None = None,
        on_error: Callable[[str], None] | None = None,
    ) -> None:
        self.interest = Interest()
        self._options = options
        self._domain = domain
        self._sink = sink
        self._on_connected = on_connected
        """Called after each connect and reconnect."""
        self._on_disconnected = on_disconnected
        """Called with the reason after each loss of the connection."""
        self._on_error = on_error
        """Called with each error that the server sends."""
        # The server treats a second connection of the same identity as a reconnect and drops the first.
        self._id = f"{options.name}-{secrets.token_hex(8)}"
        self._reconnector = Reconnector(options, self, LEAF_PORT)
        self._parser = LeafParser()
        self._subscriptions: set[tuple[bytes, bytes]] = set()
        """Subject and queue group of our own, sent again after a reconnect."""

    @property
    def info(self) -> Info:
        """Return the INFO of the current server, or of the last one."""
        return self._reconnector.info

    @property
    def max_payload(self) -> int:
        """Return the largest sum of headers and data that the server accepts."""
        return int(self.info.get("max_payload", 1 << 20))

    @property
    def connected(self) -> bool:
        """Return whether deliveries can be made at the moment."""
        return self._reconnector.link is not None

    async def connect(self) -> None:
        """Return once connected and all interest is known; after that it reconnects forever."""
        await self._reconnector.start()

    def deliver(self, subject: bytes, reply: bytes, headers: bytes, data: bytes) -> bool:
        """Send a message to all subscribers of `subject`; return whether there are any.

        With a reply `$JS.ACK.…@<stored subject>` they see the stored subject, and the reply before the `@`.
        """
        queues = self.interest.queues(subject)
        if not queues:
            return False
        named = [queue for queue in queues if queue]
        self.write(leaf_frames.lmsg(subject, reply, headers, data, named))
        return True

    def write(self, raw: bytes) -> None:
        """Send encoded frames, in one write with everything else of this loop iteration."""
        link = self._reconnector.link
        if link is not None:
            link.write(raw)

    async def writable(self) -> None:
        """Return once the server keeps up with what was written."""
        if self._reconnector.link is not None:
            await self._reconnector.link.writable()

    def subscribe(self, subject: bytes, queue: bytes = b"") -> None:
        """Receive the messages of `subject` in the sink, from now on and after each reconnect."""
        assert self._sink is not None
        self._subscriptions.add((subject, queue))
        self.write(leaf_frames.subscribe(subject, queue))

    def unsubscribe(self, subject: bytes, queue: bytes = b"") -> None:
        """End a subscription."""
        self._subscriptions.discard((subject, queue))
        self.write(leaf_frames.unsubscribe(subject, queue))

    async def flush(self, timeout_s: float = 5.0) -> None:
        """Return once the server has processed everything written before."""
        await self._reconnector.round_trip(timeout_s)

    async def close(self) -> None:
        """Send what is buffered, close, and stop reconnecting."""
        await self._reconnector.stop()
        self.interest.clear()

    # The `LinkProtocol` half, called by the reconnector.

    def begin(self) -> None:
        """Drop the incomplete frame of the previous link, and its interest."""
        self._parser = LeafParser()
        self.interest.clear()

    def hello(self, info: Info, address: Address) -> bytes:
        """Return CONNECT and PING, without `lang`: servers take it for a client on the wrong port."""
        # Only clients receive their address. Leaf ports need not announce other leaf ports.
        if "client_ip" in info:
            raise BusError(f"{address} is not a leaf port.", self.listening(replace(address, port=LEAF_PORT)))
        fields = {
            "version": _VERSION,
            "server_id": self._id,
            "name": self._id,
            "headers": True,
            "protocol": 1,
            **({"domain": self._domain} if self._domain else {}),
            **connect_fields(self._options, address, info.get("nonce", "")),
        }
        return frames.connect(json.dumps(fields).encode())

    def listening(self, address: Address) -> str:
        """Return the line of server config that opens the leaf port."""
        return f"leafnodes {{ listen: {address} }}"

    def admission(self, address: Address) -> str:
        """Return the line of server config that accepts our credentials."""
        return f"leafnodes {{ {authorization(self._options, address)} }}"

    def parse(self, data: bytes) -> list[Event]:
        """Process the messages and the interest of one socket read."""
        items = [] if self._sink is None else self._sink.items
        try:
            events = self._parser.feed(data, items)
        finally:
            if self._sink is not None and items:
                flush_guarded(self._sink)
        if any(verb.startswith(b"LS") for verb, _ in events):
            asyncio.get_running_loop().call_soon(self.interest.announce)
        return events

    def event(self, verb: bytes, rest: bytes) -> None:
        """Process a change of interest, an error, or a server's lame duck notice."""
        if verb in (b"LS+", b"LS-"):
            subject, *queue = rest.split(b" ")[:2]
            if not subject.startswith(_LOOP_DETECTION):
                change = self.interest.add if verb == b"LS+" else self.interest.remove
                change(subject, *queue)
        elif verb == b"LDM":
            if self._reconnector.alternatives:
                self._reconnector.leave()
        else:
            text = rest.decode(errors="replace")
            logger.error("nats-server says on the leaf connection: %s", text)
            if self._on_error is not None:
                self._on_error(text)

    def up(self) -> None:
        """Restore all subscriptions."""
        self.write(b"".join([leaf_frames.subscribe(*subscription) for subscription in self._subscriptions]))
        logger.info("connected as a leaf to nats-server at %s", self._reconnector.address)
        if self._on_connected is not None:
            asyncio.get_running_loop().call_soon(self._on_connected)

    def down(self, reason: str) -> None:
        """Clear the interest, and report that the connection is lost."""
        self.interest.clear()
        self.interest.announce()
        if self._on_disconnected is not None:
            asyncio.get_running_loop().call_soon(self._on_disconnected, reason)
