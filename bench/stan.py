"""NATS Streaming: publishing, and delivery to one and five subscribers, next to nats-streaming-server.

The peer is the program that `--peer` or the environment's NATS_STREAMING_SERVER names, else the one on PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import servers
from bench.generator import Connection
from bench.machine import describe
from headwater.wire import stan_messages as wire

HEADWATER, PEER = "headwater", "nats-streaming-server"
CLUSTER = "bench"
SIZE = 128
WINDOW = 4096
CHUNK = 256
MAX_IN_FLIGHT = 1024
ACKS = b"_INBOX.bench.acks"
GUID_BYTES = 22
RESULTS = Path(__file__).parent / "results" / "stan.json"
SUBSCRIBERS = (0, 1, 5)


@dataclass(frozen=True)
class Round:
    """What one round measured."""

    published: int
    published_s: float
    delivered: int
    delivered_s: float
    client_cpu: float

    @property
    def publish_rate(self) -> float:
        """Return acknowledged publishes per second."""
        return self.published / self.published_s

    @property
    def delivery_rate(self) -> float:
        """Return deliveries per second, to all subscribers together."""
        return self.delivered / self.delivered_s


class Client:
    """A connection that is a client of NATS Streaming, and what it has read but not used."""

    def __init__(self, port: int, client_id: str) -> None:
        self.client_id = client_id
        self.inbox = b"_INBOX.bench-" + client_id.encode()
        self.connection = Connection(port, self.inbox)
        hello = wire.ConnectRequest(
            clientID=client_id, heartbeatInbox=f"{self.inbox.decode()}.hb", protocol=1, connID=self.inbox
        )
        self.subjects = self.ask(f"_STAN.discover.{CLUSTER}", hello, wire.ConnectResponse)
        self._rest = b""

    def ask(self, subject: str, request: Any, kind: Any) -> Any:
        """Return the answer to a request that must not fail."""
        body = request.SerializeToString()
        answers = self.inbox + b".answer"
        self.connection.send(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), answers, len(body), body))
        text = b""
        while True:
            text += self.connection.receive()
            text = self._without_pings(text)
            head, found, rest = text.partition(b"\r\n")
            if found and head.startswith(b"HMSG"):
                raise ConnectionError(f"no responders on {subject}")
            if found and len(rest) >= (size := int(head.split()[-1])) + 2:
                answer = wire.decode(kind, rest[:size])
                if answer.error:
                    raise SystemExit(f"{subject}: {answer.error}")
                return answer

    def _without_pings(self, data: bytes) -> bytes:
        if b"PING\r\n" in data:
            self.connection.send(b"PONG\r\n")
            data = data.replace(b"PING\r\n", b"")
        return data

    def read(self, pattern: re.Pattern[bytes]) -> list[bytes]:
        """Return what a pattern of a whole frame finds in what came; the rest waits for the next read."""
        data = self._without_pings(self._rest + self.connection.receive())
        if b"-ERR" in data:
            raise RuntimeError(f"the server said {data[:200]!r}")
        end, found = 0, []
        for match in pattern.finditer(data):
            found.append(match[1])
            end = match.end()
        self._rest = data[end:]
        return found

    def leave(self) -> None:
        """Close the client."""
        self.ask(self.subjects.closeRequests, wire.CloseRequest(clientID=self.client_id), wire.CloseResponse)
        self.connection.close()


class Publisher(Client):
    """Publishes from a window of frames that were built beforehand, and checks every acknowledgement."""

    def __init__(self, port: int, channel: str) -> None:
        super().__init__(port, "publisher")
        self.connection.send(b"SUB %b 7\r\n" % ACKS)
        frames = [self._frame(channel, number) for number in range(WINDOW)]
        assert len({len(frame) for frame in frames}) == 1
        self._chunks = [b"".join(frames[at : at + CHUNK]) for at in range(0, WINDOW, CHUNK)]
        self._ack = re.compile(
            rb"MSG %b 7 %d\r\n\x0a\x16(.{%d})\r\n" % (re.escape(ACKS), GUID_BYTES + 2, GUID_BYTES), re.DOTALL
        )
        self.sent = self.acked = 0

    def _frame(self, channel: str, number: int) -> bytes:
        body = wire.PubMsg(
            clientID=self.client_id,
            guid=f"{number:022}",
            subject=channel,
            data=bytes(97 + at % 26 for at in range(SIZE)),
            connID=self.inbox,
        ).SerializeToString()
        subject = f"{self.subjects.pubPrefix}.{channel}".encode()
        return b"PUB %b %b %d\r\n%b\r\n" % (subject, ACKS, len(body), body)

    def publish(self) -> None:
        """Fill the window."""
        while self.sent - self.acked <= WINDOW - CHUNK:
            self.connection.send(self._chunks[self.sent // CHUNK % len(self._chunks)])
            self.sent += CHUNK

    def take(self) -> None:
        """Take acknowledgements; they come in the order of the publishes."""
        guids = self.read(self._ack)
        for guid in guids[:1] + guids[-1:]:
            at = self.acked if guid is guids[0] else self.acked + len(guids) - 1
            assert int(guid) == at % WINDOW, f"{guid!r} is acknowledgement number {at}"
        self.acked += len(guids)


class Subscriber(Client):
    """Acknowledges every message, and checks that none is missing, doubled or out of order."""

    def __init__(self, port: int, channel: str, number: int) -> None:
        super().__init__(port, f"subscriber{number}")
        inbox = self.inbox.decode() + "-msgs"
        self.connection.send(b"SUB %b 8\r\n" % inbox.encode())
        request = wire.SubscriptionRequest(
            clientID=self.client_id,
            subject=channel,
            inbox=inbox,
            maxInFlight=MAX_IN_FLIGHT,
            ackWaitInSecs=30,
        )
        answer = self.ask(self.subjects.subRequests, request, wire.SubscriptionResponse)
        subject = wire.MsgProto(subject=channel).SerializeToString()
        # From the sequence to the end of the frame; the payload holds no line end.
        self._message = re.compile(
            rb"MSG %b 8 \d+\r\n\x08([\x80-\xff]*[\x00-\x7f])%b\x22[^\r]*?\r\n"
            % (re.escape(inbox.encode()), re.escape(subject)),
            re.DOTALL,
        )
        self._ack_inbox = answer.ackInbox.encode()
        self._ack = wire.Ack(subject=channel).SerializeToString()
        self.count = 0

    def take(self) -> None:
        """Acknowledge what came."""
        varints = self.read(self._message)
        if not varints:
            return
        self.count += len(varints)
        last = wire.MsgProto.FromString(b"\x08" + varints[-1]).sequence
        assert last == self.count, f"{last} is delivery number {self.count}"
        head, ack = b"PUB %b " % self._ack_inbox, self._ack
        size = len(ack) + 1
        frames = [b"%b%d\r\n%b\x10%b\r\n" % (head, size + len(v), ack, v) for v in varints]
        self.connection.send(b"".join(frames))


def measure(port: int, channel: str, subscribers: int, seconds: float) -> Round:
    """Publish so long to a channel of its own, with so many subscribers, until all is acknowledged."""
    publisher = Publisher(port, channel)
    readers = [Subscriber(port, channel, number) for number in range(subscribers)]
    poll = select.poll()
    everybody: list[Publisher | Subscriber] = [publisher, *readers]
    clients = {client.connection.fileno(): client for client in everybody}
    for number in clients:
        poll.register(number, select.POLLIN)
    cpu, start = time.process_time(), time.perf_counter()
    published_s = 0.0
    publishing = True
    while publishing or publisher.acked < publisher.sent or any(r.count < publisher.sent for r in readers):
        if publishing:
            publisher.publish()
            publishing = time.perf_counter() < start + seconds
        for number, _ in poll.poll(30_000):
            clients[number].take()
        if publisher.acked == publisher.sent and not publishing and not published_s:
            published_s = time.perf_counter() - start
    took = time.perf_counter() - start
    busy = (time.process_time() - cpu) / took
    for client in clients.values():
        client.leave()
    delivered = sum(reader.count for reader in readers)
    return Round(publisher.acked, published_s or took, delivered, took, busy)


def peer_program(named: str | None) -> str | None:
    """Return the path of nats-streaming-server, if it is installed."""
    found = named or os.environ.get("NATS_STREAMING_SERVER") or shutil.which("nats-streaming-server")
    if found is not None and not Path(found).exists():
        raise SystemExit(f"there is no {found}")
    return found


def main() -> None:
    """Run the rounds in turn, so that a slow moment of the machine meets both alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long a round publishes")
    parser.add_argument("--peer", help="the nats-streaming-server to compare with")
    parser.add_argument("--subscribers", type=int, nargs="+", default=list(SUBSCRIBERS))
    arguments = parser.parse_args()
    peer = peer_program(arguments.peer)
    machine = describe(servers.nats_server_program())
    print(
        f"{machine}\none publisher, {SIZE} B, {WINDOW} unacknowledged, {MAX_IN_FLIGHT} in flight to each\n"
        f"median of {arguments.rounds} interleaved rounds of {arguments.seconds:g} s on loopback"
    )
    if peer is None:
        print("nats-streaming-server is not here (--peer, NATS_STREAMING_SERVER, PATH): headwater alone")
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-bench-")))
        ports = {}
        if peer is not None:
            ports[PEER] = stack.enter_context(servers.streaming_server(peer, top / "peer", CLUSTER)).port
        options = ("--stan", CLUSTER, "--stan-max-msgs", "0", "--stan-max-bytes", "0")
        ports[HEADWATER] = stack.enter_context(servers.headwater(top / "headwater", *options)).port
        figures = {}
        for subscribers in arguments.subscribers:
            figures[str(subscribers)] = _compare(ports, subscribers, arguments.rounds, arguments.seconds)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "msgs_per_second": figures}, indent=2) + "\n")
    print(f"\nwritten to {RESULTS}")


def _compare(
    ports: dict[str, int], subscribers: int, rounds: int, seconds: float
) -> dict[str, dict[str, float]]:
    """Run the rounds with so many subscribers, print a row for each server, and return the medians."""
    runs: dict[str, list[Round]] = {name: [] for name in ports}
    for number in range(rounds):
        for name, port in ports.items():
            runs[name].append(measure(port, f"bench.s{subscribers}.r{number}", subscribers, seconds))
    medians = {
        name: {
            "published": median(run.publish_rate for run in done),
            "delivered": median(run.delivery_rate for run in done),
        }
        for name, done in runs.items()
    }
    title = f"{subscribers} subscribers"
    headings = ("published/s", "ratio", "delivered/s", "ratio", "client")
    print(f"\n{title:<24}" + "".join(f"{heading:>13}" for heading in headings))
    for name, done in runs.items():
        busy = median(run.client_cpu for run in done)
        cells = []
        for kind in ("published", "delivered"):
            rate, reference = medians[name][kind], medians.get(PEER, {}).get(kind, 0.0)
            ratio = f"{rate / reference:.2f}x" if reference else "-"
            cells.append(f"{rate:>13,.0f}{ratio:>13}")
        print(f"{name:<24}{''.join(cells)}{busy:>13.0%}")
    return medians


if __name__ == "__main__":
    main()
