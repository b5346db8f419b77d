"""Keeps one link to any of several servers up, forever."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import ssl
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from headwater.backoff import wait_s
from headwater.bus.credentials import tls_context
from headwater.bus.handshake import Info, needs_tls, tls_name
from headwater.bus.link import SocketLink
from headwater.bus.options import CLIENT_PORT, Address, ConnectOptions
from headwater.errors import BusError, LoginRefusedError
from headwater.wire.frames import PING, PONG, Event, ProtocolError

logger = logging.getLogger(__name__)
_MAX_SERVERS = 256
FIRST_POLL_S = 0.005

T = TypeVar("T")


class LinkProtocol(Protocol):
    """The protocol of the link: the client's or the leaf's."""

    def begin(self) -> None:
        """Drop the state of the previous link: a new one is being established."""
        ...

    def hello(self, info: Info, address: Address) -> bytes:
        """Return CONNECT and PING for a server that sent `info`."""
        ...

    def listening(self, address: Address) -> str:
        """Return the line of server config that opens the port."""
        ...

    def admission(self, address: Address) -> str:
        """Return the line of server config that would accept us."""
        ...

    def parse(self, data: bytes) -> list[Event]:
        """Process the messages of one socket read and return its control lines."""
        ...

    def event(self, verb: bytes, rest: bytes) -> None:
        """Process a control line that is not about the link itself."""
        ...

    def up(self) -> None:
        """Send the server what it must know; runs before anything else is written."""
        ...

    def down(self, reason: str) -> None:
        """Handle the loss of the link; another one is being established."""
        ...


def backoff_s(attempt: int, options: ConnectOptions, jitter: float) -> float:
    """Return how long to wait after failed round `attempt`; `jitter` in [0, 1) spreads many clients."""
    wait = wait_s(attempt + 1, options.reconnect_wait_s, options.reconnect_wait_max_s)
    return wait * (0.5 + jitter / 2)


class Reconnector:
    """Connects, performs the handshake, keeps the link alive, and reconnects when it is lost."""

    def __init__(self, options: ConnectOptions, protocol: LinkProtocol, default_port: int) -> None:
        self.info: Info = {}
        """The INFO of the current server, or of the last one."""
        self.link: SocketLink | None = None
        """None while there is no connection."""
        self.address: Address | None = None
        """The server that is or was last connected."""
        self._options = options
        self._protocol = protocol
        self._default_port = default_port
        self._servers = [Address.parse(url, default_port) for url in options.servers]
        """Tried in this order."""
        self._dialled: SocketLink | None = None
        """The link whose handshake is in progress."""
        self._greeting: asyncio.Future[Info] | None = None
        """Resolved with the server's INFO during the handshake."""
        self._refusal: BusError | None = None
        """The error with which the server refused the connection."""
        self._task: asyncio.Task[None] | None = None
        """Keeps the connection; None until the first one is made."""
        self._leaving = False
        """Whether the loss of the link was asked for."""

    async def start(self) -> None:
        """Return once connected, or raise the error of the last server tried; after that stay connected."""
        link = await self._dial_first()
        self._task = asyncio.create_task(self._keep(link), name=f"reconnector {self._options.name}")

    async def stop(self) -> None:
        """Close the link and stop reconnecting."""
        self._leaving = True
        link = self.link
        if link is not None:
            link.close()
            await asyncio.wait({link.lost}, timeout=self._options.connect_timeout_s)
            link.drop("closed")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def round_trip(self, timeout_s: float) -> None:
        """Return once the server has processed everything written before."""
        if self.link is None:
            raise ConnectionError("not connected")
        self.link.write(PING)
        async with asyncio.timeout(timeout_s):
            await self.link.expect_pong()

    @property
    def alternatives(self) -> bool:
        """Return whether more than one server is known."""
        return len(self._servers) > 1

    def leave(self) -> None:
        """Close the link, and thereby move to the next server."""
        if self.link is not None:
            self.link.close()

    async def _keep(self, link: SocketLink) -> None:
        while True:
            reason = await self._watch(link)
            self.link = None
            if self._leaving:
                return
            logger.warning("lost the connection to %s: %s", self.address, reason)
            self._protocol.down(reason)
            link = await self._redial()

    async def _watch(self, link: SocketLink) -> str:
        """Keep the link alive with pings; return why it was lost."""
        while not link.lost.done():
            done, _ = await asyncio.wait({link.lost}, timeout=self._options.ping_interval_s)
            if done:
                break
            if len(link.pongs) >= self._options.max_pings_outstanding:
                link.drop(f"no answer to {len(link.pongs)} pings")
                continue
            link.write(PING)
            link.expect_pong()
        return link.lost.result()

    async def _redial(self) -> SocketLink:
        attempt = 0
        while True:
            try:
                return await self._dial_any()
            except BusError as error:
                if attempt in (0, 5) or attempt % 50 == 0:
                    logger.warning("cannot reconnect yet: %s", error.problem)
            await asyncio.sleep(backoff_s(attempt, self._options, random.random()))
            attempt += 1

    async def _dial_first(self) -> SocketLink:
        """Return the first link, tried for `patience_s`."""
        loop = asyncio.get_running_loop()
        last_try = loop.time() + self._options.patience_s
        while True:
            try:
                return await self._dial_any()
            except BusError:
                if loop.time() >= last_try:
                    raise
            await asyncio.sleep(FIRST_POLL_S)

    async def _dial_any(self) -> SocketLink:
        """Try each known server once, beginning with the one after the last used."""
        if self.address in self._servers:
            at = self._servers.index(self.address) + 1
            self._servers = self._servers[at:] + self._servers[:at]
        failure: BusError | None = None
        for address in list(self._servers):
            try:
                return await self._dial(address)
            except BusError as error:
                failure = error
                logger.debug("cannot connect to %s: %s", address, error.problem)
        assert failure is not None
        raise failure

    async def _dial(self, address: Address) -> SocketLink:
        """Connect, perform the handshake, and return the link once the server has accepted us."""
        link = SocketLink(self._received, self._options.max_pending_bytes, self._options.may_send)
        self._dialled, self.address = link, address
        self._greeting = asyncio.get_running_loop().create_future()
        self._refusal = None
        self._protocol.begin()
        accepted = False
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                await self._open(link, address)
                link.write(self._protocol.hello(self.info, address))
                await self._unless_lost(link, link.expect_pong())
            accepted = True
        except TimeoutError:
            raise BusError(
                f"The server at {address} does not answer.", self._protocol.listening(address)
            ) from None
        except ssl.SSLError as error:
            problem = f"The TLS handshake with {address} failed: {error.reason or error}."
            raise BusError(problem, "tls { cert_file: …, key_file: …, ca_file: … }") from error
        except OSError as error:
            if self._refusal is not None:
                raise self._refusal from None
            problem = f"Cannot connect to {address}: {error.strerror or error}."
            raise BusError(problem, self._protocol.listening(address)) from error
        finally:
            self._greeting = None
            if not accepted:
                link.drop("not accepted")
        self.link = link
        self._protocol.up()
        return link

    async def _open(self, link: SocketLink, address: Address) -> None:
        """Connect and read the server's INFO, encrypted if either side requires it."""
        options = self._options
        assert self._greeting is not None
        hostname = tls_name(options, address)
        first = tls_context(options) if options.tls_first else None
        await asyncio.get_running_loop().create_connection(
            lambda: link, address.host, address.port, ssl=first, server_hostname=hostname if first else None
        )
        self.info = await self._unless_lost(link, self._greeting)
        if first is None and needs_tls(self.info, options, address):
            await link.start_tls(tls_context(options), hostname)

    async def _unless_lost(self, link: SocketLink, waiter: asyncio.Future[T]) -> T:
        either: set[asyncio.Future[Any]] = {waiter, link.lost}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if waiter.done():
            return waiter.result()
        raise ConnectionError(link.lost.result())

    def _received(self, link: SocketLink, data: bytes) -> None:
        if link is not self._dialled:
            return
        try:
            events = self._protocol.parse(data)
        except ProtocolError as error:
            logger.error("the server at %s broke the protocol: %s", self.address, error)
            link.drop(f"broken protocol: {error}")
            return
        for verb, rest in events:
            if verb == b"PING":
                link.write(PONG)
            elif verb == b"PONG":
                link.got_pong()
            elif verb == b"INFO":
                self._informed(link, rest)
            elif verb == b"-ERR":
                self._refused(link, rest)
            elif verb != b"+OK":
                self._protocol.event(verb, rest)

    def _informed(self, link: SocketLink, text: bytes) -> None:
        try:
            info = dict(json.loads(text))
        except (ValueError, TypeError):
            link.drop(f"broken protocol: an INFO that is not a JSON object: {text[:100]!r}")
            return
        self.info = {**self.info, **info} if self._greeting is None else info
        self._learn(info)
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_result(info)
        if info.get("ldm"):
            logger.warning("the server at %s enters lame duck mode", self.address)
            self._protocol.event(b"LDM", b"")

    def _learn(self, info: Info) -> None:
        """Add the servers of the cluster that this one announces, with the TLS settings of the first."""
        known = {(server.host, server.port) for server in self._servers}
        for url in info.get("connect_urls" if self._default_port == CLIENT_PORT else "leafnode_urls") or ():
            try:
                found = Address.parse(str(url), self._default_port)
            except BusError as error:
                logger.warning("the server at %s announces %s", self.address, error.problem)
                continue
            if (found.host, found.port) not in known and len(self._servers) < _MAX_SERVERS:
                self._servers.append(replace(self._servers[0], host=found.host, port=found.port))

    def _refused(self, link: SocketLink, rest: bytes) -> None:
        """Fail the handshake with the server's error, or pass it on if the handshake is complete."""
        text = rest.decode(errors="replace").strip().strip("'")
        if self._greeting is None or self.address is None:
            self._protocol.event(b"-ERR", text.encode())
            return
        problem = f"The server at {self.address} refused the connection: {text}."
        is_login = "authori" in text.lower()
        self._refusal = (
            LoginRefusedError(problem, self._protocol.admission(self.address))
            if is_login
            else BusError(problem)
        )
        link.drop(text)
