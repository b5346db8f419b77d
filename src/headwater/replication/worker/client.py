"""A small blocking client of one nats-server for Spark tasks: one conversation at a time."""

from __future__ import annotations

import json
import socket
import ssl
import time
from types import TracebackType
from typing import Any

from headwater.bus.credentials import tls_context
from headwater.bus.handshake import client_hello, needs_tls, tls_name
from headwater.bus.options import Address, ConnectOptions
from headwater.errors import BusError
from headwater.model import headers as header_block
from headwater.model.unique import unique_id
from headwater.replication.exports import unanswered
from headwater.replication.worker.bulk_deliveries import BulkDeliveries, DeliveredMessages
from headwater.replication.worker.receive_buffer import ReceiveBuffer
from headwater.wire import frames
from headwater.wire.frames import Frame, FrameParser, ProtocolError, Sink

READ_BYTES = 1 << 20


class NoResponderError(BusError):
    """No service answers on the subject of a request; the text names what may be missing."""


class ReplyTimeoutError(BusError):
    """No answer arrived in time."""


class UnsuitableError(BusError):
    """The origin cannot be read this way; another way may work."""


class TaskInbox:
    """A subscription; its frames wait in `items` until they are read."""

    def __init__(self, client: BlockingClient, sid: bytes, prefix: str) -> None:
        self.items: list[Frame] = []
        self.subject = f"{prefix}.{unique_id()}".encode()
        self.sid = sid
        self._client = client

    def flush(self) -> None:
        """Do nothing: the reader takes the frames itself."""

    def read(self, timeout_s: float) -> list[Frame]:
        """Return what has arrived, waiting for the first frame; BusError if none arrives in time."""
        self._client.receive_for(self, timeout_s)
        return self.taken()

    def read_bulk(self, bulk: BulkDeliveries, timeout_s: float) -> list[DeliveredMessages | Frame]:
        """Return what has arrived in order: deliveries read in bulk, and single frames."""
        return self._client.receive_in_bulk(self, bulk, timeout_s)

    def taken(self) -> list[Frame]:
        """Return the waiting frames and remove them."""
        taken, self.items[:] = list(self.items), []
        return taken


class BlockingClient:
    """A client that is connected when created, to the first server that accepts it."""

    def __init__(self, options: ConnectOptions) -> None:
        self._options = options
        self.max_payload = frames.MAX_SIZE
        """The largest headers and data together that the server takes."""
        self._dial()

    def _dial(self) -> None:
        """Connect to the first server that accepts us; drop all state of an earlier connection."""
        self._parser = FrameParser()
        self._intake = ReceiveBuffer()
        self._inboxes: dict[bytes, Sink] = {}
        self._sids = 0
        problems = []
        for url in self._options.servers:
            address = Address.parse(url)
            try:
                self._connect(address)
                return
            except (OSError, ProtocolError) as error:
                problems.append(f"cannot reach {address}: {error}")
            except BusError as error:
                problems.append(error.problem)
        raise BusError("; ".join(problems))

    def renew(self) -> None:
        """Reconnect without waiting for data in transit, which may be much on a slow link."""
        self._socket.close()
        self._dial()

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def open(self, prefix: str = "") -> TaskInbox:
        """Return a new inbox, below a prefix if one is given."""
        self._sids += 1
        inbox = TaskInbox(self, b"%d" % self._sids, prefix or "_INBOX")
        self._inboxes[inbox.sid] = inbox
        self._send(frames.sub(inbox.subject, inbox.sid))
        return inbox

    def shut(self, inbox: TaskInbox) -> None:
        """Unsubscribe an inbox."""
        if self._inboxes.pop(inbox.sid, None) is not None:
            self._send(frames.unsub(inbox.sid))

    def publish(self, subject: bytes, data: bytes = b"", reply: bytes = b"", headers: bytes = b"") -> None:
        """Send one message."""
        self._send(frames.pub(subject, reply, headers, data))

    def request(self, subject: str, body: Any = None) -> dict[str, Any]:
        """Return the JSON that answers a request."""
        inbox = self.open()
        data = b"" if body is None else json.dumps(body).encode()
        self.publish(subject.encode(), data, inbox.subject)
        frame = inbox.read(self._options.connect_timeout_s)[0]
        self.shut(inbox)
        status = header_block.status(frame[2])
        if status is not None and status.code == 503:
            raise NoResponderError(unanswered(subject))
        try:
            answer = json.loads(frame[3])
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise BusError(f"the answer on {subject} is not a JSON object")
        return answer

    def receive_for(self, inbox: TaskInbox, timeout_s: float) -> None:
        """Read from the socket until the inbox has a frame."""
        deadline = time.monotonic() + timeout_s
        while not inbox.items:
            self._receive(deadline - time.monotonic())

    def receive_in_bulk(
        self, inbox: TaskInbox, bulk: BulkDeliveries, timeout_s: float
    ) -> list[DeliveredMessages | Frame]:
        """Read from the socket until there is something for an inbox; return some of it in order."""
        deadline = time.monotonic() + timeout_s
        if begun := self._parser.unfinished():
            self._intake.put_back(begun)
        while True:
            found: list[DeliveredMessages | Frame] = []
            pieces = self._pieces(bulk)
            for piece in pieces:
                if isinstance(piece, DeliveredMessages):
                    found.append(piece)
                else:
                    self._parse(piece)
                    found += inbox.taken()
            if found:
                return found
            if not pieces:
                self._await(deadline - time.monotonic())
                self._intake.drain(self._socket)

    def _pieces(self, bulk: BulkDeliveries) -> list[DeliveredMessages | bytes]:
        """Return the deliveries that bulk parsing takes, and whole frames that it leaves."""
        intake = self._intake
        pieces, intake.start = bulk.take(intake.memory, intake.start, intake.end)
        return pieces

    def _receive(self, timeout_s: float) -> None:
        if not self._intake:
            self._await(timeout_s)
        self._parse(self._intake.take())

    def _await(self, timeout_s: float) -> None:
        """Return once something has arrived."""
        if timeout_s <= 0:
            raise ReplyTimeoutError("the server did not answer in time")
        try:
            if not self._intake.receive(self._socket, timeout_s):
                raise BusError("the server closed the connection")
        except TimeoutError:
            raise ReplyTimeoutError("the server did not answer in time") from None

    def _parse(self, data: bytes) -> None:
        """Put frames into their inboxes, and answer the server's PINGs."""
        for verb, rest in self._parser.feed(data, self._inboxes):
            if verb == b"PING":
                self._send(frames.PONG)
            elif verb == b"-ERR":
                kind = UnsuitableError if b"permissions violation" in rest.lower() else BusError
                raise kind(f"the server says {rest.decode(errors='replace')}")

    def _send(self, data: bytes) -> None:
        self._socket.settimeout(self._options.connect_timeout_s)
        self._socket.sendall(data)

    def _connect(self, address: Address) -> None:
        """Connect, and return once the server has accepted us."""
        timeout_s = self._options.connect_timeout_s
        plain = socket.create_connection((address.host, address.port), timeout_s)
        self._socket: socket.socket = plain
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            name = tls_name(self._options, address)
            first = self._options.tls_first
            if first:
                self._socket = tls_context(self._options).wrap_socket(plain, server_hostname=name)
            info, rest = self._greeting()
            self.max_payload = int(info.get("max_payload") or frames.MAX_SIZE)
            if not first and needs_tls(info, self._options, address):
                if rest:
                    raise BusError(f"the server at {address} sent more than INFO before TLS")
                self._socket = tls_context(self._options).wrap_socket(plain, server_hostname=name)
            self._send(client_hello(info, self._options, address))
            self._parser = FrameParser()
            deadline = time.monotonic() + timeout_s
            while not self._greeted(rest, deadline):
                rest = b""
        except BaseException as error:
            self._socket.close()
            if isinstance(error, ssl.SSLError):
                raise BusError(f"no TLS with {address}: {error.reason or error}") from None
            raise

    def _greeting(self) -> tuple[dict[str, Any], bytes]:
        """Return the server's INFO, and what was read after it."""
        data = b""
        while b"\r\n" not in data:
            piece = self._socket.recv(READ_BYTES)
            if not piece or len(data) > frames.MAX_LINE:
                raise BusError("the server sent no INFO")
            data += piece
        line, _, rest = data.partition(b"\r\n")
        if not line.startswith(b"INFO "):
            raise BusError("the peer is not a nats-server")
        return json.loads(line[5:]), rest

    def _greeted(self, rest: bytes, deadline: float) -> bool:
        """Read once; return whether the server has answered the first PING."""
        data = rest
        if not data:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise BusError("the server closed the connection during the handshake")
        for verb, said in self._parser.feed(data, self._inboxes):
            if verb == b"-ERR":
                raise BusError(f"the server refuses the connection: {said.decode(errors='replace')}")
            if verb == b"PONG":
                return True
        return False
